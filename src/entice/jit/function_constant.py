"""A compiled function as a compile-time constant, so that code which takes it can be cached.

Numba resolves a call of a function argument from its type alone, but lowers the argument itself
as the address of a Python object. Machine code with such an address is good for one process, and
Numba rightly refuses to write it to disk. A `FunctionConstant` has the type of its function and
no value.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.datamodel.models import OpaqueModel
from numba.core.imputils import lower_constant
from numba.extending import register_model, typeof_impl


class FunctionConstant:
    """Wraps a compiled function for the globals of a generated module."""

    def __init__(self, function: Any) -> None:
        self.function = function


class FunctionConstantType(types.Dispatcher):  # type: ignore[misc]
    """The type of one function, and of no other."""


register_model(FunctionConstantType)(OpaqueModel)


@typeof_impl.register(FunctionConstant)  # type: ignore[untyped-decorator]
def _typeof(part: FunctionConstant, context: Any) -> Any:
    return FunctionConstantType(part.function)


@lower_constant(FunctionConstantType)  # type: ignore[untyped-decorator]
def _no_value(context: Any, builder: Any, type_: Any, part: FunctionConstant) -> Any:
    return context.get_dummy_value()
