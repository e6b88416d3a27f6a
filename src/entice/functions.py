"""Users' own functions in a spec: finding them, checking them, naming them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from entice.checks import field_name
from entice.engine.jit import is_compiled
from entice.errors import InputError


def set_function(spec: msgspec.Struct, field: str, arguments: tuple[str, ...]) -> None:
    """Make a field a function of the given arguments: a Python function or "module:name"."""
    name, given = field_name(spec, field), getattr(spec, field)
    signature = f"{field}({', '.join(arguments)})"
    function = _find(name, given) if isinstance(given, str) else given
    if not (inspect.isfunction(function) or is_compiled(function)):
        raise InputError(
            name, f'must be a Python function {signature}, or "module:name" of one', given=given
        )
    plain = plain_python(function)
    if len(inspect.signature(plain).parameters) != len(arguments):
        raise InputError(
            name,
            f"must take the {len(arguments)} arguments of {signature}",
            given=f"{plain.__name__}{inspect.signature(plain)}",
        )
    msgspec.structs.force_setattr(spec, field, function)


def plain_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Python function behind a compiled one, and any other as it is."""
    return getattr(function, "py_func", function)


def reference(function: Callable[..., Any]) -> str:
    """Return the "module:name" under which a function may be found again."""
    plain = plain_python(function)
    return f"{plain.__module__}:{plain.__qualname__}"


def _find(name: str, given: str) -> Any:
    module_name, _, path = given.partition(":")
    if not module_name or not path:
        raise InputError(name, 'must read "module:name"', given=given)
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise InputError(
            name,
            f"names a module that can't be imported ({error})",
            given=given,
            todo="Put its file beside the study's, or on the Python path.",
        ) from error
    except AttributeError:
        raise InputError(name, f"names nothing in {module_name!r}", given=given) from None
    return found


def custom_label(function: Callable[..., Any], params: Sequence[float]) -> str:
    """Name a user's function and its parameters, as in `fading(2)`."""
    name = plain_python(function).__name__
    return f"{name}({', '.join(f'{p:g}' for p in params)})" if params else name
