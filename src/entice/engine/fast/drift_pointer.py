"""A drift as the address of its compiled function, so that one compiled fast path runs any drift.

The most common drifts, linear ones with or without a cap, have no address: a fast path computes
them in place. A call takes a few nanoseconds, because it saves all floating-point registers: with
it, UCB takes 13 % longer. The other fast paths have fewer paid rounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from entice.jit.decorators import compiled_internal, inline_always
from entice.jit.specialize import function_address, get_compiled
from entice.worlds.drifts.drift import DriftKernel
from entice.worlds.drifts.linear import linear
from entice.worlds.drifts.shapes import saturating

Floats = npt.NDArray[np.float64]


IN_PLACE = 0
"""The address that stands for b = min(l · x, cap)."""


class DriftPointer(NamedTuple):
    """A drift in the form that fast paths run. All drifts have the same type."""

    address: int = IN_PLACE
    """The address of `f(payment, t, arm, params) -> drift` in this process, or `IN_PLACE`."""
    params: Floats = np.zeros(2)


def drift_pointer(kernel: DriftKernel) -> DriftPointer:
    """Compile a drift that is a function of the payment."""
    given = kernel.params
    if kernel.function is linear:
        return DriftPointer(IN_PLACE, np.array([*given, np.inf]))
    if kernel.function is saturating:
        return DriftPointer(IN_PLACE, np.array(given))
    unpack: Callable[[Floats], tuple[Any, ...]]
    if len(given) == 1 and isinstance(given[0], np.ndarray):
        params, unpack = given[0], _in_a_tuple
    else:
        params, unpack = np.array(given, dtype=np.float64), _unpack_first(len(given))
    compiled = get_compiled(_evaluate, (kernel.function, unpack), (0.0, 0, 0, params))
    return DriftPointer(function_address(compiled), params)


@compiled_internal
def call_drift(drift: DriftPointer, payment: float, t: int, arm: int) -> float:
    """Return the drift caused by a payment. An error in a user's function is raised."""
    if drift.address == IN_PLACE:
        return min(float(drift.params[0] * payment), float(drift.params[1]))
    return float(_call(drift.address, payment, t, arm, drift.params))


@inline_always
def _evaluate(
    function: Callable[..., float],
    unpack: Callable[[Floats], tuple[Any, ...]],
    payment: float,
    t: int,
    arm: int,
    params: Floats,
) -> float:
    return float(function(payment, t, arm, unpack(params)))


@compiled_internal
def _in_a_tuple(params: Floats) -> tuple[Floats]:
    return (params,)


@functools.cache
def _unpack_first(count: int) -> Callable[[Floats], tuple[float, ...]]:
    """Return a compiled function from an array to a tuple of its `count` numbers."""

    @compiled_internal
    def unpack(params: Floats) -> tuple[float, ...]:
        result: tuple[float, ...] = _first(params, count)
        return result

    return unpack


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def _first(typing: Any, params: Any, count: Any) -> Any:
    """Return the first numbers of an array in a tuple, whose length is part of its type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(params)(context, builder, arguments[0]).data
        values = [builder.load(cgutils.gep(builder, data, i)) for i in range(count.literal_value)]
        return context.make_tuple(builder, signature.return_type, values)

    return types.UniTuple(types.float64, count.literal_value)(params, count), generate


@intrinsic  # type: ignore[untyped-decorator]
def _call(typing: Any, address: Any, payment: Any, t: Any, arm: Any, params: Any) -> Any:
    """Call compiled code at an address. Numba's own function pointers are slower to pass."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        convention, kinds = context.call_conv, signature.args[1:]
        function_type = convention.get_function_type(signature.return_type, kinds)
        function = builder.inttoptr(arguments[0], function_type.as_pointer())
        status, result = convention.call_function(
            builder, function, signature.return_type, kinds, arguments[1:]
        )
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    taken = (types.int64, types.float64, types.int64, types.int64, params)
    return types.float64(*taken), generate
