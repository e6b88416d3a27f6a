"""A compiled function as a compile-time constant, so that code that takes it can be cached.

Numba resolves a call of a function argument from its type alone, but compiles the argument itself
to the address of a Python object. Machine code with such an address is valid in one process only,
and Numba refuses to write it to disk. A `FunctionConstant` has the type of its function and no
value.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.datamodel.models import OpaqueModel
from numba.core.imputils import lower_constant
from numba.extending import register_model, typeof_impl


class FunctionConstant:
    """A compiled function wrapped for the globals of a generated module."""

    def __init__(self, function: Any) -> None:
        self.function = function


class FunctionConstantType(types.Dispatcher):  # type: ignore[misc]
    """The type of one function, and of no other."""


register_model(FunctionConstantType)(OpaqueModel)


@typeof_impl.register(FunctionConstant)  # type: ignore[untyped-decorator]
def _typeof(function: FunctionConstant, context: Any) -> Any:
    return FunctionConstantType(function.function._numba_type_.dispatcher)


@lower_constant(FunctionConstantType)  # type: ignore[untyped-decorator]
def _no_value(context: Any, builder: Any, type_: Any, function: FunctionConstant) -> Any:
    return context.get_dummy_value()
