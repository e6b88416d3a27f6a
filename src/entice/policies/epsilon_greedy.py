"""ε-greedy with ε falling as 1/t (Algorithm 3 of the paper)."""

from __future__ import annotations

from entice.checks import set_number
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.model.step import PLAYERS_CHOICE
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.rng import Stream, below, uniform

_SLACK = 1.0 + 1e-12
"""More than the rounding errors of a product and a quotient."""


class EpsilonGreedy(PolicySpec, frozen=True, tag="epsilon_greedy"):
    """Select a random arm with probability min(1, cK/t), else the arm with the best average.

    The random arm is drawn uniformly. The paper does not state the c of its experiments; c = 5
    comes closest to its results. Its theorem requires c ≥ 36/Δ, which is 360 on its instance.

    >>> import entice
    >>> entice.EpsilonGreedy(c=5).label
    'EpsilonGreedy(c=5)'
    """

    c: float

    def __post_init__(self) -> None:
        super().__post_init__()
        set_number(self, "c")
        if self.c <= 0:
            raise InputError("EpsilonGreedy: c", "must be greater than 0", given=self.c)

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"EpsilonGreedy(c={self.c:g})"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        return PolicyKernel(select, params=(self.c,), reads_counts=False)


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[float], rng: Stream
) -> int:
    """Explore with probability ε, otherwise exploit (lines 2 and 3 of Algorithm 3)."""
    arms = pulls.shape[0]
    u, rate = uniform(rng), params[0] * arms
    # The product spares most rounds the division.
    if u * t < rate * _SLACK and u < min(1.0, rate / t):
        return below(rng, arms)
    return PLAYERS_CHOICE
