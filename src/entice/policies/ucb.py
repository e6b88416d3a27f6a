"""UCB: optimism in the face of uncertainty (Algorithm 2 of the paper, after Auer et al. 2002)."""

from __future__ import annotations

import math

import numpy as np

from entice.checks import set_noise
from entice.errors import InputError
from entice.jit.decorators import compiled, compiled_noinline
from entice.model.ledger import argmax
from entice.policies.policy import (
    Counts,
    Floats,
    PolicyKernel,
    PolicySpec,
    has_fractions,
    update_inverse_roots,
)
from entice.rng import Stream

SPAN = 31
"""Length of a span of rounds, minus one: log t is computed only at both ends of a span."""
FEW = 32
"""Number of arms up to which a new leader's rivals are searched at once. It often leads again."""


class UCB(PolicySpec, frozen=True, tag="ucb"):
    """Select the arm with the highest m_i + noise · sqrt(2 log t / n_i); unrated arms come first.

    Parameters
    ----------
    count_in_flight
        Whether n_i also counts the ratings expected from pulls in flight: each pull with the
        probability that its rating still arrives, estimated from the ages at which earlier pulls
        were rated. m_i is the average of ratings in either case. If ratings are late and pulls in
        flight do not count, the bounds keep pointing at the same arm, and every player who arrives
        meanwhile is paid for the same information. If ratings are immediate, the setting makes no
        difference.
    noise
        The standard deviation of ratings, if known. The paper's Algorithm 2 assumes 1, which on a
        scale from 0 to 1 explores several times as much as necessary: ratings on that scale have a
        standard deviation of at most 0.5.

    >>> import entice
    >>> entice.UCB().label, entice.UCB(count_in_flight=True).label, entice.UCB(noise=0.5).label
    ('UCB', 'UCB(in flight)', 'UCB(noise=0.5)')
    """

    count_in_flight: bool = False
    noise: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.count_in_flight, bool):
            rule = "must be true or false"
            raise InputError("UCB: count_in_flight", rule, given=self.count_in_flight)
        set_noise(self)

    @property
    def default_label(self) -> str:  # noqa: D102
        settings = ["in flight"] if self.count_in_flight else []
        settings += [] if self.noise == 1 else [f"noise={self.noise:g}"]
        return "UCB" + (f"({', '.join(settings)})" if settings else "")

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        return PolicyKernel(
            select,
            params=(self.noise,),
            memory=4 + 2 * arms,
            counts_in_flight=self.count_in_flight,
        )


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[float], rng: Stream
) -> int:
    """Choose by the upper confidence bound (line 2 of Algorithm 2)."""
    if t == 1:  # log 1 = 0: every bound is an average, and that of an unrated arm is undefined
        unrated = first_unrated(pulls)
        return unrated if unrated >= 0 else argmax(means)
    if leads_still(t, pulls, means, memory):
        return int(memory[0])
    return search(t, pulls, means, memory, params[0])


@compiled_noinline
def search(t: int, pulls: Counts, means: Floats, memory: Floats, noise: float) -> int:
    """Search for the arm with the highest bound."""
    arms = pulls.shape[0]
    span, roots, taken = memory[1:4], memory[4 : 4 + arms], memory[4 + arms :]
    last = int(memory[0])
    if only_leader_was_rated(t, pulls, memory):
        at = np.uint64(last)
        taken[at], roots[at] = pulls[at], 1.0 / math.sqrt(pulls[at])
        ratings = t - 1.0
    else:  # 1/sqrt(0) = inf: unrated arms come first
        ratings = update_inverse_roots(roots, taken, pulls, last, 0)
    # The last selected arm usually leads again. The value of log t at both ends of a span of rounds
    # usually suffices to show that: bounds increase with log t, even after rounding.
    if t > span[2] or t < span[2] - SPAN:
        span[0], span[1], span[2] = (
            noise * exploration_factor(t),
            noise * exploration_factor(t + SPAN),
            t + SPAN,
        )
    best, rival = last, highest_rival(last, means, roots, span[0], span[1])
    if rival == math.inf:
        best = highest_bound(means, roots, noise * exploration_factor(t))
        memory[0] = best
        if arms <= FEW:
            rival = highest_rival(best, means, roots, span[0], span[1])
    if ratings == t - 1 and not has_fractions(pulls):
        # Until another arm is rated, none can exceed `rival` in this span. The leading arm's own
        # root and count make room for it; the next search computes them again.
        roots[best] = rival
        taken[best] = pulls[best] - t
    return best


@compiled
def leads_still(t: int, pulls: Counts, means: Floats, memory: Floats) -> bool:
    """Return whether the last selected arm certainly leads, because only that arm was rated."""
    arm = np.uint64(memory[0])
    return bool(
        only_leader_was_rated(t, pulls, memory)
        and t <= memory[3]
        and means[arm] + memory[1] * (1.0 / math.sqrt(pulls[arm])) > memory[arm + np.uint64(4)]
    )


@compiled
def only_leader_was_rated(t: int, pulls: Counts, memory: Floats) -> bool:
    """Return whether only the last selected arm was rated since the search that selected it.

    If all rounds before it were rated, the search stored pulls − t of that arm: a negative number,
    unlike the counts of other arms. Each round is rated once at most. So if the difference is the
    same now, that arm was rated in each round since then, and no other one was.
    """
    if has_fractions(pulls):
        return False
    arm = np.uint64(memory[0])
    mark = memory[arm + np.uint64(4 + pulls.shape[0])]
    return bool(mark == pulls[arm] - t and mark < 0.0)


@compiled
def exploration_factor(t: int) -> float:
    """Return sqrt(2 log t), the factor of noise/sqrt(n_i) in the bounds of round t."""
    return math.sqrt(2.0 * math.log(t))


@compiled
def highest_rival(arm: int, means: Floats, roots: Floats, low: float, high: float) -> float:
    """Return the highest bound of all other arms in a span; infinity unless the arm leads in it.

    The arm leads if its lowest bound in the span exceeds the highest bounds of all others.
    """
    at = np.uint64(arm)
    bound, rival = means[at] + low * roots[at], -math.inf
    for i in range(np.uint64(means.shape[0])):
        other = means[i] + high * roots[i]
        if other >= bound and i != at:
            return math.inf
        if other > rival and i != at:
            rival = other
    return rival


@compiled
def highest_bound(means: Floats, roots: Floats, factor: float) -> int:
    """Return the arm with the highest bound, ties to the lowest index."""
    best, top = 0, means[0] + factor * roots[0]
    for i in range(1, means.shape[0]):
        bound = means[i] + factor * roots[i]
        if bound > top:
            best, top = i, bound
    return best


WEIGHT, SUM, SEEN = 0, 1, 2
"""Layout of an arm's block in `highest_weighted_bound`."""
WEIGHTED_BLOCK = 3
"""The length of such a block."""


@compiled
def highest_weighted_bound(pulls: Counts, means: Floats, blocks: Floats, factor: float) -> int:
    """Return the permitted arm with the highest bound for weighted ratings.

    Each arm has a block with the total weight of its ratings, their weighted sum, and the number of
    those that have not been removed: what `pulls` exceeds it by is expected from pulls in flight.
    Arms without weight come first; ties go to the lowest index. The ratings expected from pulls in
    flight are counted with a weight of 1 each, but add nothing to the average. An arm that has
    nothing else has the average of all its ratings. An arm that is not permitted has the average
    −inf, as in `constrained_offer`.
    """
    best, top = 0, -math.inf
    for i in range(pulls.shape[0]):
        if means[i] > -math.inf:
            at = WEIGHTED_BLOCK * i
            weight, average = blocks[at + WEIGHT], means[i]
            total = weight + max(0.0, pulls[i] - blocks[at + SEEN])
            if total == 0.0:
                return i
            if weight > 0.0:
                average = blocks[at + SUM] / weight
            bound = average + factor / math.sqrt(total)
            if bound > top:
                best, top = i, bound
    return best


@compiled
def first_unrated(pulls: Counts) -> int:
    """Return the lowest arm without ratings, or −1 if there is none."""
    for i in range(pulls.shape[0]):
        if pulls[i] == 0:
            return i
    return -1
