"""UCB on the latest ratings only, for worlds that change (Garivier and Moulines 2011)."""

from __future__ import annotations

import math

from entice.checks import set_number, set_whole
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.policies.ucb import SEEN, SUM, WEIGHT, WEIGHTED_BLOCK, highest_weighted_bound
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
    its next one arrives: τ should be many times the delay. In a campaign, N_i also counts the
    ratings expected from offers in flight; if it counts nothing else, M_i is the average of all
    ratings of the arm.

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
        # The number of all ratings, which gives the next position in the ring; a ring buffer of the
        # ratings in the window, and of their arms; and a block for each arm.
        size = 1 + 2 * self.window + WEIGHTED_BLOCK * arms
        return PolicyKernel(select, update, (self.window, self.xi), memory=size, remove=remove)


@compiled
def select(
    t: int,
    pulls: Counts,
    means: Floats,
    memory: Floats,
    params: tuple[int, float],
    rng: Stream,
) -> int:
    """Choose by the upper confidence bound of the ratings in the window."""
    window, xi = params
    factor = math.sqrt(xi * math.log(min(t, window)))
    return highest_weighted_bound(pulls, means, memory[1 + 2 * window :], factor)


@compiled
def update(
    memory: Floats, params: tuple[int, float], arm: int, payment: float, feedback: float
) -> None:
    """Replace the oldest rating by the new one."""
    window, _ = params
    ratings, rated_arms = memory[1 : 1 + window], memory[1 + window : 1 + 2 * window]
    blocks = memory[1 + 2 * window :]
    place = int(memory[0]) % window
    if memory[0] >= window:
        oldest = WEIGHTED_BLOCK * int(rated_arms[place])
        blocks[oldest + WEIGHT] -= 1.0
        blocks[oldest + SUM] -= ratings[place]
    rated_arms[place] = arm
    ratings[place] = feedback
    blocks[WEIGHTED_BLOCK * arm + WEIGHT] += 1.0
    blocks[WEIGHTED_BLOCK * arm + SUM] += feedback
    blocks[WEIGHTED_BLOCK * arm + SEEN] += 1.0
    memory[0] += 1.0
    if place == window - 1:
        recompute_sums(blocks, rated_arms, ratings)


def remove(memory: Floats, params: tuple[int, float], arm: int) -> None:
    """Count a rating less. The window keeps it until it is computed again or moves on."""
    memory[1 + 2 * params[0] + WEIGHTED_BLOCK * arm + SEEN] -= 1.0


@compiled
def recompute_sums(blocks: Floats, rated_arms: Floats, ratings: Floats) -> None:
    """Recompute the sums of a full ring, so that rounding errors last one window at most."""
    for at in range(0, blocks.shape[0], WEIGHTED_BLOCK):
        blocks[at + SUM] = 0.0
    for place in range(ratings.shape[0]):
        blocks[WEIGHTED_BLOCK * int(rated_arms[place]) + SUM] += ratings[place]
