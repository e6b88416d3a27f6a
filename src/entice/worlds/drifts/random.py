"""A drift that differs from player to player."""

from __future__ import annotations

from collections.abc import Callable

from entice.checks import set_number
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.rng import Stream, uniform
from entice.worlds.drifts.drift import DriftKernel, DriftSpec, Floats, require_non_negative


class RandomDrift(DriftSpec, frozen=True, tag="random"):
    """b = L · x, with L drawn uniformly from [lowest, highest] for each player.

    Satisfies Assumption 1, which allows a different f_t in each round: l is the highest slope.

    >>> import entice
    >>> entice.RandomDrift(0.0, 2.2).lipschitz
    2.2
    """

    lowest: float
    highest: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_non_negative(self, "lowest")
        if set_number(self, "highest") < self.lowest:
            rule = f"must not be below the lowest slope, {self.lowest:g}"
            raise InputError("RandomDrift: highest", rule, given=self.highest)

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"RandomDrift({self.lowest:g}–{self.highest:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return self.highest

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(params=(self.lowest, self.highest), apply_drift=_random_slope)


@compiled
def _random_slope(
    drift: Callable[..., float],
    reward: float,
    payment: float,
    t: int,
    arm: int,
    params: tuple[float, float],
    memory: Floats,
    rng: Stream,
) -> float:
    if payment <= 0.0:
        return 0.0
    return (params[0] + (params[1] - params[0]) * uniform(rng)) * payment
