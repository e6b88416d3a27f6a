"""Thompson sampling with Beta posteriors, for ratings between 0 and 1 (Agrawal and Goyal 2012)."""

from __future__ import annotations

import math
from typing import ClassVar

from entice.jit.decorators import compiled
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.rng import Stream, beta


class BetaThompson(PolicySpec, frozen=True, tag="beta_thompson"):
    """Draw θ_i from Beta(1 + s_i, 1 + n_i − s_i) for each arm and select the highest draw.

    s_i = n_i · m_i is the sum of an arm's ratings. With ratings of 0 and 1 it is the number of
    ones, and the distribution is the posterior of a Bernoulli arm under a uniform prior. Ratings in
    between count proportionally: 0.7 is 0.7 of a success and 0.3 of a failure. That is the
    expectation of rounding the rating to 0 or 1 at random, as Agrawal and Goyal do, but needs no
    random number per rating. Such ratings have no more noise than the posterior assumes.

    Drift may push an average out of the range from 0 to 1. It then counts as the nearest end of the
    range: the sum is clipped, not each rating, so an average of 1.2 is n_i successes. With
    `feedback_range=(0, 1)` ratings are projected first, and nothing is left to clip.

    >>> import entice
    >>> entice.BetaThompson().label
    'BetaThompson'
    """

    unit_ratings: ClassVar[bool] = True

    @property
    def default_label(self) -> str:  # noqa: D102
        return "BetaThompson"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        return PolicyKernel(select)


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[()], rng: Stream
) -> int:
    """Choose by samples from the Beta posteriors."""
    best, top = 0, -math.inf
    for i in range(pulls.shape[0]):
        if means[i] == -math.inf:  # not permitted: no drift makes an average infinite
            continue
        share = min(max(means[i], 0.0), 1.0)
        sample = beta(rng, 1.0 + pulls[i] * share, 1.0 + pulls[i] * (1.0 - share))
        if sample > top:
            best, top = i, sample
    return best
