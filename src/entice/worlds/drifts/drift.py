"""The interface of a drift, b = f_t(x): the change of feedback caused by a payment x.

The principal does not know f_t. Assumption 1 of the paper: f_t is non-decreasing with f_t(0) = 0
and Lipschitz with constant l. `lipschitz` is that constant: infinite if the assumption does not
hold (`outside` is the reason), None if unknown.

Built-in drift functions are compiled by `entice.jit.decorators.compiled`, a user's drift function
by `entice.jit.user_code.compile_user_function`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.checks import set_number
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.labels import Named
from entice.rng import Stream

Floats = npt.NDArray[np.float64]


@compiled
def apply_if_paid(
    drift: Callable[..., float],
    reward: float,
    payment: float,
    t: int,
    arm: int,
    params: tuple[Any, ...],
    memory: Floats,
    rng: Stream,
) -> float:
    """Apply a drift function, in rounds with a payment only (Assumption 1)."""
    return drift(payment, t, arm, params) if payment > 0.0 else 0.0


@compiled
def no_drift_function(payment: float, t: int, arm: int, params: tuple[Any, ...]) -> float:
    """Return 0: a placeholder for drifts that are not functions of the payment alone."""
    return 0.0


class DriftKernel(NamedTuple):
    """A drift in the form that the engine runs."""

    function: Callable[..., float] = no_drift_function
    """The drift function `f(payment, t, arm, params) -> drift`, called if there is a payment."""
    params: tuple[Any, ...] = ()
    apply_drift: Callable[..., float] = apply_if_paid
    """`apply_drift(function, reward, payment, t, arm, params, memory, rng) -> drift`, called in
    every round: for drifts that need more than the payment."""
    memory_per_arm: int = 0
    """The numbers that `apply_drift` stores for each arm; they are 0.0 before the first round."""

    @property
    def is_function_of_payment(self) -> bool:
        """Whether the drift function alone determines the drift."""
        return self.apply_drift is apply_if_paid


class DriftSpec(Named, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all drifts; `name` is an optional label for tables and figures."""

    @property
    def outside(self) -> str:
        """The reason why the drift violates Assumption 1, such as "decreases"; empty if none."""
        lipschitz: float | None = getattr(self, "lipschitz", None)
        return "is not Lipschitz" if lipschitz == math.inf else ""


def require_non_negative(spec: DriftSpec, field: str) -> None:
    """Convert a field to a non-negative float, or raise `InputError`."""
    if set_number(spec, field) < 0:
        raise InputError(
            f"{type(spec).__name__}: {field}",
            "must not be negative",
            given=getattr(spec, field),
            todo="Use NegativeDrift for payments that lower ratings.",
        )
