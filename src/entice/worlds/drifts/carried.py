"""A drift that carries over to later ratings of the same arm."""

from __future__ import annotations

import math
from collections.abc import Callable

from entice.checks import set_number
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.rng import Stream
from entice.worlds.drifts.drift import DriftKernel, DriftSpec, Floats, require_non_negative


class CarriedDrift(DriftSpec, frozen=True, tag="carried"):
    """b = l · x, of which a share `keep` carries over to the next rating of the same arm.

    Players who read a grateful review rate higher too, paid or not: each rating has the drift
    c' = keep · c + l · x, where c is the drift of the arm's last rating. Outside Assumption 1,
    because ratings without a payment have a drift too.

    >>> import entice
    >>> entice.CarriedDrift(l=0.5, keep=0.8).label
    'CarriedDrift(l=0.5, keep=0.8)'
    """

    l: float
    keep: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_non_negative(self, "l")
        if not 0 <= set_number(self, "keep") < 1:
            rule = "must be at least 0 and less than 1"
            raise InputError("CarriedDrift: keep", rule, given=self.keep)

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"CarriedDrift(l={self.l:g}, keep={self.keep:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return math.inf if self.outside else self.l

    @property
    def outside(self) -> str:  # noqa: D102
        return "changes ratings without a payment" if self.keep > 0 and self.l > 0 else ""

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(params=(self.l, self.keep), apply_drift=_carried, memory_per_arm=1)


@compiled
def _carried(
    drift: Callable[..., float],
    reward: float,
    payment: float,
    t: int,
    arm: int,
    params: tuple[float, float],
    memory: Floats,
    rng: Stream,
) -> float:
    memory[arm] = params[1] * memory[arm] + params[0] * payment
    return float(memory[arm])
