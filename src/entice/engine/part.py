"""A compiled function as a compile-time constant, so that code which takes it can be cached.

Numba resolves a call of a function argument from its type alone, but lowers the argument itself
as the address of a Python object. Machine code with such an address is good for one process, and
Numba rightly refuses to write it to disk. A `Part` has the type of its function and no value.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.datamodel.models import OpaqueModel
from numba.core.imputils import lower_constant
from numba.extending import register_model, typeof_impl


class Part:
    """Wraps a compiled function for the globals of a generated module."""

    def __init__(self, function: Any) -> None:
        self.function = function


class PartType(types.Dispatcher):  # type: ignore[misc]
    """The type of one function, and of no other."""


register_model(PartType)(OpaqueModel)


@typeof_impl.register(Part)  # type: ignore[untyped-decorator]
def _typeof(part: Part, context: Any) -> Any:
    return PartType(part.function)


@lower_constant(PartType)  # type: ignore[untyped-decorator]
def _no_value(context: Any, builder: Any, type_: Any, part: Part) -> Any:
    return context.get_dummy_value()
