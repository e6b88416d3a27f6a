"""What a drift is: how a payment bends the feedback. b = f_t(x), unknown to the principal.

Assumption 1 of the paper: f_t is non-decreasing with f_t(0) = 0 and Lipschitz with constant l.
Each drift says what it knows of that: `lipschitz` is the constant, infinite where the assumption
does not hold (`outside` says why), None if nobody has said.
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
    """Bend a rating by a function of the payment, in rounds with a payment (Assumption 1)."""
    return drift(payment, t, arm, params) if payment > 0.0 else 0.0


@compiled
def no_function(payment: float, t: int, arm: int, params: tuple[Any, ...]) -> float:
    """Stand where a drift is no function of the payment alone."""
    return 0.0


class DriftKernel(NamedTuple):
    """A drift as the engine runs it."""

    function: Callable[..., float] = no_function
    """`f(payment, t, arm, params) -> drift`, asked only in rounds with a payment."""
    params: tuple[Any, ...] = ()
    apply_drift: Callable[..., float] = apply_if_paid
    """`respond(function, reward, payment, t, arm, params, memory, rng) -> drift`, asked in every
    round: for drifts that need more than the payment."""
    memory_per_arm: int = 0
    """How many numbers `apply_drift` keeps of each arm; they are 0.0 before the first round."""

    @property
    def is_function_of_payment(self) -> bool:
        """Whether `function` is all there is to it."""
        return self.apply_drift is apply_if_paid


class DriftSpec(Named, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all drifts; `name` is their label in tables and figures, if there is one."""

    @property
    def outside(self) -> str:
        """Why the drift is outside Assumption 1, as in "it …"; empty if it is not."""
        lipschitz: float | None = getattr(self, "lipschitz", None)
        return "is not Lipschitz" if lipschitz == math.inf else ""


def not_negative(spec: DriftSpec, field: str) -> None:
    """Make a field a number that is not negative, or say why it can't be one."""
    if set_number(spec, field) < 0:
        raise InputError(
            f"{type(spec).__name__}: {field}",
            "must not be negative",
            given=getattr(spec, field),
            todo="For payments that lower ratings there is NegativeDrift.",
        )
