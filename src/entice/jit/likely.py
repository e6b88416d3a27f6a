"""Conditions that usually hold, marked for the compiler.

It places the code after such a condition without a jump, and keeps registers free there rather than
in the rare branch. Without a mark it assumes that both branches are equally frequent.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import lower_builtin, type_callable


def likely(condition: bool) -> bool:
    """Return the condition, which usually holds."""
    return condition


@type_callable(likely)  # type: ignore[untyped-decorator]
def _type(context: Any) -> Any:
    return lambda condition: types.boolean if isinstance(condition, types.Boolean) else None


@lower_builtin(likely, types.Boolean)  # type: ignore[untyped-decorator]
def _expect(context: Any, builder: Any, signature: Signature, arguments: Any) -> Any:
    condition = context.cast(builder, arguments[0], signature.args[0], types.boolean)
    expect = builder.module.declare_intrinsic(
        "llvm.expect", [ir.IntType(1)], ir.FunctionType(ir.IntType(1), [ir.IntType(1)] * 2)
    )
    return builder.call(expect, [condition, ir.IntType(1)(1)])
