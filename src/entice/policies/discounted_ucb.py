"""UCB with discounted ratings, for worlds that change (Garivier and Moulines 2011)."""

from __future__ import annotations

import math

from entice.checks import set_number
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.policies.ucb import SEEN, SUM, WEIGHT, WEIGHTED_BLOCK, highest_weighted_bound
from entice.rng import Stream


class DiscountedUCB(PolicySpec, frozen=True, tag="discounted_ucb"):
    """UCB in which a rating that is s ratings old has the weight γ^s: for worlds that change.

    Select the arm with the highest M_i + sqrt(ξ log n / N_i), where N_i is the total weight of the
    arm's ratings, M_i their weighted average and n = N_1 + … + N_K; unrated arms come first. N_i
    decays while arm i is not pulled, so every arm is tried again from time to time.

    This is D-UCB of Garivier and Moulines, "On Upper-Confidence Bound Policies for Switching Bandit
    Problems" (ALT 2011), whose widths are 2B sqrt(ξ' log n / N_i) for rewards up to B. The ξ here
    is their 4B²ξ'. Its default, 2, equals that of Algorithm 2, and theirs for B = 1 and ξ' = 1/2;
    γ = 1 is UCB with log(t − 1) for log t. They discount by rounds. A policy sees ratings only,
    which is the same if each round brings one.

    In a campaign, N_i also counts the ratings expected from offers in flight, each with weight 1.

    Players still see the average of all ratings, old ones included, and payments are based on it.
    So players notice later than the policy that an arm has become the best.

    Parameters
    ----------
    gamma
        γ: about the last 1/(1 − γ) ratings count. For U changes in T rounds the authors recommend
        1 − sqrt(U/T)/4.
    xi
        ξ: the width of the bounds.

    >>> import entice
    >>> entice.DiscountedUCB(gamma=0.999).label
    'DiscountedUCB(gamma=0.999)'
    """

    gamma: float
    xi: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < set_number(self, "gamma") <= 1:
            rule = "must be greater than 0 and at most 1"
            raise InputError("DiscountedUCB: gamma", rule, given=self.gamma)
        if set_number(self, "xi") <= 0:
            raise InputError("DiscountedUCB: xi", "must be greater than 0", given=self.xi)

    @property
    def default_label(self) -> str:  # noqa: D102
        settings = f"gamma={self.gamma:.9g}" + (f", xi={self.xi:g}" if self.xi != 2 else "")
        return f"DiscountedUCB({settings})"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        params, size = (arms, self.gamma, self.xi), WEIGHTED_BLOCK * arms
        return PolicyKernel(select, update, params, size, remove=remove)


@compiled
def select(
    t: int,
    pulls: Counts,
    means: Floats,
    memory: Floats,
    params: tuple[int, float, float],
    rng: Stream,
) -> int:
    """Choose by the upper confidence bound of discounted ratings."""
    arms, _, xi = params
    total = 0.0
    for i in range(arms):
        total += memory[WEIGHTED_BLOCK * i + WEIGHT]
    # The latest rating has weight 1. Without ratings the total is 0, and all arms are unrated.
    factor = math.sqrt(xi * math.log(max(1.0, total)))
    return highest_weighted_bound(pulls, means, memory, factor)


@compiled
def update(
    memory: Floats, params: tuple[int, float, float], arm: int, payment: float, feedback: float
) -> None:
    """Discount all earlier ratings, and add the new one."""
    arms, gamma, _ = params
    for i in range(arms):
        memory[WEIGHTED_BLOCK * i + WEIGHT] *= gamma
        memory[WEIGHTED_BLOCK * i + SUM] *= gamma
    memory[WEIGHTED_BLOCK * arm + WEIGHT] += 1.0
    memory[WEIGHTED_BLOCK * arm + SUM] += feedback
    memory[WEIGHTED_BLOCK * arm + SEEN] += 1.0


def remove(memory: Floats, params: tuple[int, float, float], arm: int) -> None:
    """Count a rating less. It keeps its weight, which decays, until all are computed again."""
    memory[WEIGHTED_BLOCK * arm + SEEN] -= 1.0
