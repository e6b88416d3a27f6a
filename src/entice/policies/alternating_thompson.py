"""Thompson sampling in every second round (Wang and Huang 2018)."""

from __future__ import annotations

from entice.jit.decorators import compiled
from entice.model.step import PLAYERS_CHOICE
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.policies.thompson_sampling import select_by_variance
from entice.rng import Stream


class AlternatingThompson(PolicySpec, frozen=True, tag="alternating_thompson"):
    """Thompson sampling in odd rounds, the player's own choice in even ones.

    The even rounds cost nothing and refine the average of the arm that looks best, so that an
    overrated arm is detected before players are paid to choose another. Wang and Huang,
    "Multi-armed Bandits with Compensation" (NeurIPS 2018), use them to bound the compensation.

    In their version, samples come from Beta(1, 1) priors, updated with rewards that are rounded to
    0 or 1 at random. Feedback with drift need not lie between 0 and 1, so this policy samples as
    Algorithm 4 of the paper does, from N(m_i, 1/(n_i + 1)), using the ratings of all rounds. Even
    without drift, on arms with rewards of 0 and 1, that is a different posterior.

    >>> import entice
    >>> entice.AlternatingThompson().label
    'AlternatingThompson'
    """

    @property
    def default_label(self) -> str:  # noqa: D102
        return "AlternatingThompson"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        # The params and memory of select_by_variance.
        return PolicyKernel(select, params=(1.0,), memory=3 * arms + 1)


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[float], rng: Stream
) -> int:
    """Sample in odd rounds, so that round 1 explores; leave even rounds to the player."""
    if t % 2 == 0:
        return PLAYERS_CHOICE
    return select_by_variance(t, pulls, means, memory, params, rng)
