"""UCB on the latest ratings only, for worlds that change (Garivier and Moulines 2011)."""

from __future__ import annotations

import math

from entice.checks import set_number, set_whole
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.policies.ucb import highest_weighted_bound
from entice.rng import Stream


class SlidingWindowUCB(PolicySpec, frozen=True, tag="sliding_window_ucb"):
    """UCB on the latest τ ratings, over all arms: for worlds that change.

    Select the arm with the highest M_i + sqrt(ξ log min(t, τ) / N_i), where N_i is the number of
    the arm's ratings in the window and M_i their average; arms without a rating come first. So each
    arm is tried at least once in every τ rounds.

    This is SW-UCB of Garivier and Moulines, "On Upper-Confidence Bound Policies for Switching
    Bandit Problems" (ALT 2011), whose widths are B sqrt(ξ' log min(t, τ) / N_i) for rewards up to
    B: the ξ here is their B²ξ'. Its default, 2, equals that of Algorithm 2, so τ ≥ T is the paper's
    UCB. Their window consists of rounds. A policy sees ratings only, which is the same if each
    round brings one. If ratings are late, an arm without ratings in the window is selected until
    its next one arrives: τ should be many times the delay.

    Players still see the average of all ratings, old ones included, and payments are based on it.
    So players notice later than the policy that an arm has become the best.

    Parameters
    ----------
    window
        τ. For U changes in T rounds the authors recommend 2 sqrt(T log(T) / U).
    xi
        ξ: the width of the bounds.

    >>> import entice
    >>> entice.SlidingWindowUCB(window=1000).label
    'SlidingWindowUCB(window=1000)'
    """

    window: int
    xi: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        set_whole(self, "window", at_least=1, at_most=10**7)
        if set_number(self, "xi") <= 0:
            raise InputError("SlidingWindowUCB: xi", "must be greater than 0", given=self.xi)

    @property
    def default_label(self) -> str:  # noqa: D102
        settings = f"window={self.window}" + (f", xi={self.xi:g}" if self.xi != 2 else "")
        return f"SlidingWindowUCB({settings})"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        # Each arm's count and sum in the window; a ring buffer of the ratings in it, and of their
        # arms; and the number of all ratings, which gives the next position in the ring.
        size = 2 * arms + 2 * self.window + 1
        return PolicyKernel(select, update, (arms, self.window, self.xi), memory=size)


@compiled
def select(
    t: int,
    pulls: Counts,
    means: Floats,
    memory: Floats,
    params: tuple[int, int, float],
    rng: Stream,
) -> int:
    """Choose by the upper confidence bound of the ratings in the window."""
    arms, window, xi = params
    counts, sums = memory[:arms], memory[arms : 2 * arms]
    return highest_weighted_bound(counts, sums, math.sqrt(xi * math.log(min(t, window))))


@compiled
def update(
    memory: Floats, params: tuple[int, int, float], arm: int, payment: float, feedback: float
) -> None:
    """Replace the oldest rating by the new one."""
    arms, window, _ = params
    counts, sums, ring = memory[:arms], memory[arms : 2 * arms], memory[2 * arms :]
    ratings, rated_arms, so_far = ring[:window], ring[window : 2 * window], ring[2 * window :]
    place = int(so_far[0]) % window
    if so_far[0] >= window:
        oldest = int(rated_arms[place])
        counts[oldest] -= 1.0
        sums[oldest] -= ratings[place]
    rated_arms[place] = arm
    ratings[place] = feedback
    counts[arm] += 1.0
    sums[arm] += feedback
    so_far[0] += 1.0
    if place == window - 1:
        recompute_sums(sums, rated_arms, ratings)


@compiled
def recompute_sums(sums: Floats, rated_arms: Floats, ratings: Floats) -> None:
    """Recompute the sums of a full ring, so that rounding errors last one window at most."""
    sums[:] = 0.0
    for place in range(ratings.shape[0]):
        sums[int(rated_arms[place])] += ratings[place]
