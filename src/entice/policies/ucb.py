"""UCB: optimism in the face of uncertainty (Algorithm 2 of the paper, after Auer et al. 2002)."""

from __future__ import annotations

import math

from entice.engine.jit import compiled
from entice.policies.policy import Counts, Floats, PolicySpec, Rules, keep_inverse_roots
from entice.rng import Stream


class UCB(PolicySpec, frozen=True, tag="ucb"):
    """Select the arm with the highest m_i + sqrt(2 log t / n_i); unrated arms come first.

    >>> import entice
    >>> entice.UCB().label
    'UCB'
    """

    @property
    def label(self) -> str:  # noqa: D102
        return "UCB"

    def rules(self, arms: int) -> Rules:  # noqa: D102
        return Rules(select, memory=2 * arms + 1)


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[()], rng: Stream
) -> int:
    """Choose by the upper confidence bound (line 2 of Algorithm 2)."""
    arms = pulls.shape[0]
    if t == 1:  # log 1 = 0: every bound is an average, and an unrated arm's has no value
        return first_unrated(pulls)
    keep_inverse_roots(memory, pulls, 0)  # 1/sqrt(0) = inf puts unrated arms first
    growth = math.sqrt(2.0 * math.log(t))
    # The search starts from the arm that led last time: it mostly leads again, which makes the
    # branches predictable.
    last = int(memory[2 * arms])
    best = last
    top = means[last] + growth * memory[last]
    for i in range(arms):
        bound = means[i] + growth * memory[i]
        if bound >= top and i != best and (bound > top or i < best):
            best = i
            top = bound
    if best != last:
        memory[2 * arms] = best
    return best


@compiled
def first_unrated(pulls: Counts) -> int:
    """Return the lowest arm without ratings, or arm 0 if there is none."""
    for i in range(pulls.shape[0]):
        if pulls[i] == 0:
            return i
    return 0
