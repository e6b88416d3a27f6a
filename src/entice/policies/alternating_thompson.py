"""Thompson sampling in every second round (Wang and Huang 2018)."""

from __future__ import annotations

from entice.jit.decorators import compiled
from entice.model.step import PLAYERS_CHOICE
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.policies.thompson_sampling import select_by_variance
from entice.rng import Stream


class AlternatingThompson(PolicySpec, frozen=True, tag="alternating_thompson"):
    """Thompson sampling in odd rounds, the player's own choice in even ones.

    The rounds in between cost nothing and sharpen the average of the arm that looks best, so that
    a lucky arm is found out before anyone is paid to prefer another over it: Wang and Huang,
    "Multi-armed Bandits with Compensation" (NeurIPS 2018), need them to bound the compensation.

    Their samples come from Beta(1, 1) priors, updated with rewards that are rounded to 0 or 1 by
    lot. Feedback with drift need not lie between 0 and 1, so here they are those of Algorithm 4 of
    the paper, N(m_i, 1/(n_i + 1)), from the ratings of all rounds. Without drift, and on arms of
    their kind, that is another posterior than theirs.

    >>> import entice
    >>> entice.AlternatingThompson().label
    'AlternatingThompson'
    """

    @property
    def default_label(self) -> str:  # noqa: D102
        return "AlternatingThompson"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        # What select_by_variance is given, and what it remembers.
        return PolicyKernel(select, params=(1.0,), memory=3 * arms + 1)


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[float], rng: Stream
) -> int:
    """Sample in odd rounds, so that the first one explores, and leave even ones to the player."""
    if t % 2 == 0:
        return PLAYERS_CHOICE
    return select_by_variance(t, pulls, means, memory, params, rng)
