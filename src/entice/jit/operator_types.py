"""Types of operations, looked up once per process instead of at each use.

To find the type of `a + b`, Numba tries the signatures that it knows one after the other, and
formats an error message for each one that does not match. It does so again for each operation: a
seventh of the compilation time of a fast path.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from numba.core.types.functions import BaseFunction

_functions: Any = BaseFunction
_find: Any = _functions.get_call_type
_found: dict[Any, Any] = {}


@contextlib.contextmanager
def remembered_operator_types() -> Iterator[None]:
    """Let Numba remember the types of operations, in all threads."""
    before = _functions.get_call_type
    _functions.get_call_type = _remembered_call_type
    try:
        yield
    finally:
        _functions.get_call_type = before


def _remembered_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of an operation on arguments of these types.

    It depends on nothing else, except if Numba compiles the operation for these arguments, with the
    options of its caller. Such a signature is not remembered.
    """
    operator = function.typing_key
    if kws or getattr(operator, "__module__", None) != "_operator":
        return _find(function, context, args, kws)
    # With all implementations, to which a package may add its own later.
    key = context, operator, function.templates, tuple(args)
    signature = _found.get(key)
    if signature is None:
        signature = _find(function, context, args, kws)
        if signature is not None and function.get_impl_key(signature) is operator:
            _found[key] = signature
    else:
        function._impl_keys[signature.args] = operator
    return signature
