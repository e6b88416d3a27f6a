"""UCB that forgets all but the latest ratings (Garivier and Moulines 2011)."""

from __future__ import annotations

import math

from entice.checks import set_number, set_whole
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.policies.ucb import highest_weighted_bound
from entice.rng import Stream


class SlidingWindowUCB(PolicySpec, frozen=True, tag="sliding_window_ucb"):
    """UCB from the latest τ ratings, of whichever arms: for worlds that change.

    Select the arm with the highest M_i + sqrt(ξ log min(t, τ) / N_i), where N_i is the number of
    the arm's ratings in the window and M_i their average; arms without one come first. So each
    arm is tried at least once in τ rounds, for ever.

    SW-UCB of Garivier and Moulines, "On Upper-Confidence Bound Policies for Switching Bandit
    Problems" (ALT 2011), whose widths are B sqrt(ξ' log min(t, τ) / N_i) for rewards up to B: the ξ
    here is their B²ξ'. Its default, 2, is Algorithm 2's, so that τ ≥ T is the paper's UCB. Their
    window is of rounds; a policy learns of ratings alone, which is the same wherever each round
    brings one. Where ratings come late, an arm that has left the window is selected until its next
    one is seen: τ should be many times the delay.

    Players still see the average of all ratings, old ones included, and are paid for what they
    forgo by it: that an arm has become the best takes them longer to see than the policy.

    Parameters
    ----------
    window
        τ. For U changes in T rounds the authors advise 2 sqrt(T log(T) / U).
    xi
        ξ: how wide the bounds are.

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
        told = f"window={self.window}" + (f", xi={self.xi:g}" if self.xi != 2 else "")
        return f"SlidingWindowUCB({told})"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        # Each arm's count and sum in the window; the ratings in it, in a ring, and whose they are;
        # and how many there have been in all, which tells the ring's place for the next.
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
    """Put a rating in the place of the oldest one."""
    arms, window, _ = params
    counts, sums, ring = memory[:arms], memory[arms : 2 * arms], memory[2 * arms :]
    ratings, whose, so_far = ring[:window], ring[window : 2 * window], ring[2 * window :]
    place = int(so_far[0]) % window
    if so_far[0] >= window:
        oldest = int(whose[place])
        counts[oldest] -= 1.0
        sums[oldest] -= ratings[place]
    whose[place] = arm
    ratings[place] = feedback
    counts[arm] += 1.0
    sums[arm] += feedback
    so_far[0] += 1.0
    if place == window - 1:
        add_up(sums, whose, ratings)


@compiled
def add_up(sums: Floats, whose: Floats, ratings: Floats) -> None:
    """Sum a full ring afresh: what subtraction leaves of old ratings lasts one window at most."""
    sums[:] = 0.0
    for place in range(ratings.shape[0]):
        sums[int(whose[place])] += ratings[place]
