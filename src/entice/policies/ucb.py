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
"""Number of arms up to which a new leader's lead is predicted at once. It often leads again."""
_SLACK = 1e-12
"""More than the rounding errors of bounds and of lines above them, as a share of their size."""


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
    last = int(memory[0])
    if leads_still(last, t, pulls, means, memory):
        return last
    if t == 1:  # log 1 = 0: every bound is an average, and that of an unrated arm is undefined
        unrated = first_unrated(pulls)
        return unrated if unrated >= 0 else argmax(means)
    return search(t, pulls, means, memory, params[0])


@compiled_noinline
def search(t: int, pulls: Counts, means: Floats, memory: Floats, noise: float) -> int:
    """Search for the arm with the highest bound.

    The memory holds the last selected arm, three numbers that depend on the kind of search, and for
    each arm 1/sqrt(n_i) and the n_i that it was computed from.
    """
    arms = pulls.shape[0]
    roots, taken = memory[4 : 4 + arms], memory[4 + arms :]
    last = int(memory[0])
    if only_leader_was_rated(last, t, pulls, memory):
        at = np.uint64(last)
        taken[at], roots[at] = pulls[at], 1.0 / math.sqrt(pulls[at])
        ratings = t - 1.0
    else:  # 1/sqrt(0) = inf: unrated arms come first
        ratings = update_inverse_roots(roots, taken, pulls, last, 0)
    if has_fractions(pulls) or ratings != t - 1:
        best = search_in_span(t, means, roots, memory[1:4], noise)
        memory[0] = best
        return best
    factor = exploration_factor(t)
    span = 1 + (t >> 5) if arms <= FEW else SPAN
    later = factor + span / (t * factor)
    if arms <= FEW:
        best, rival = top_two(means, roots, noise * factor)
        # Does not wait for the search that found `best`.
        leader_later, rival_later = top_two(means, roots, noise * later)
        if leader_later != best:
            rival_later = means[leader_later] + noise * later * roots[leader_later]
    else:
        best, rival = last, highest_rival(last, means, roots, noise * factor, noise * later)
        rival_later = rival
        if rival == math.inf:
            best = highest_bound(means, roots, noise * factor)
            at, memory[0] = np.uint64(best), best
            roots[at], taken[at] = 0.0, pulls[at] - t  # no line, which would seldom be used
            return best
    memory[0] = best
    store_lead(t, best, pulls, memory, noise, factor, later, span, rival, rival_later)
    return best


@compiled
def search_in_span(t: int, means: Floats, roots: Floats, span: Floats, noise: float) -> int:
    """Return the arm with the highest bound, if other arms may be rated from round to round.

    Bounds increase with log t, even after rounding. So its value at both ends of a span of rounds
    usually suffices to find the arm that leads in all of them.
    """
    if t > span[2] or t < span[2] - SPAN:
        span[0], span[1], span[2] = (
            noise * exploration_factor(t),
            noise * exploration_factor(t + SPAN),
            t + SPAN,
        )
    best, rival = top_two(means, roots, span[1])
    if means[best] + span[0] * roots[best] > rival:
        return best
    return highest_bound(means, roots, noise * exploration_factor(t))


@compiled
def store_lead(
    t: int,
    best: int,
    pulls: Counts,
    memory: Floats,
    noise: float,
    factor: float,
    later: float,
    span: int,
    rival: float,
    rival_later: float,
) -> None:
    """Store an average above which the arm selected in round t leads in the next rounds, too.

    As long as no other arm is rated, its count n grows by 1 a round, and only its average and log t
    are not known in advance. `factor` is sqrt(2 log t), `later` is its tangent `span` rounds later,
    and `rival` and `rival_later` are the highest bounds of all other arms with the two. In the next
    rounds,

    - sqrt(2 log t) is below its tangent, so the bounds of other arms are below lines, and the
      highest of these lines is below its chord over the next `span` rounds;
    - the width of the arm's own bound is above the product of a line below sqrt(2 log t) and the
      tangent of 1/sqrt(n), and that product is above its chord over the next d ≤ `span` rounds.

    So the arm leads while its average is above the difference of the two chords, a line in n, which
    `leads_still` reads: intercept, slope, the last n, and a mark for `only_leader_was_rated`. The
    arm's own root and count make room for the last two; the next search computes them again.
    """
    arms, at = pulls.shape[0], np.uint64(best)
    count = int(pulls[at])
    roots, taken = memory[4 : 4 + arms], memory[4 + arms :]
    d = min(span, 1 + (count >> 2))
    width = noise * factor * roots[at]
    growth = d / ((t + span) * later)
    width_later = noise * (factor + growth) * roots[at] * (1.0 - 0.5 * d / count)
    slope = (rival_later - rival) / span - (width_later - width) / d
    slack = _SLACK * (abs(rival) + abs(rival_later) + noise * later)
    memory[1], memory[2], memory[3] = rival - width - slope * count + slack, slope, 0.0
    roots[at], taken[at] = count + d, count - t


@compiled
def leads_still(last: int, t: int, pulls: Counts, means: Floats, memory: Floats) -> bool:
    """Return whether the last selected arm certainly leads, because only that arm was rated."""
    arm = np.uint64(last)
    count = pulls[arm]
    return bool(
        only_leader_was_rated(last, t, pulls, memory)
        and count <= memory[arm + np.uint64(4)]
        and means[arm] > memory[1] + memory[2] * count
    )


@compiled
def only_leader_was_rated(last: int, t: int, pulls: Counts, memory: Floats) -> bool:
    """Return whether only the last selected arm was rated since the search that selected it.

    If all rounds before it were rated, the search stored pulls − t of that arm: a negative number,
    unlike the counts of other arms. Each round is rated once at most. So if the difference is the
    same now, that arm was rated in each round since then, and no other one was.
    """
    if has_fractions(pulls):
        return False
    arm = np.uint64(last)
    mark = memory[arm + np.uint64(4 + pulls.shape[0])]
    return bool(mark == pulls[arm] - t and mark < 0.0)


@compiled
def exploration_factor(t: int) -> float:
    """Return sqrt(2 log t), the factor of noise/sqrt(n_i) in the bounds of round t."""
    return math.sqrt(2.0 * math.log(t))


@compiled
def highest_rival(arm: int, means: Floats, roots: Floats, factor: float, later: float) -> float:
    """Return the highest bound of all other arms with a later factor; infinity if it is not below.

    That is, if it is not below the bound of the arm with the factor of this round. With many arms,
    this and `highest_bound` take less time than `top_two`: most arms take one comparison.
    """
    at = np.uint64(arm)
    bound, rival = means[at] + factor * roots[at], -math.inf
    for i in range(np.uint64(means.shape[0])):
        other = means[i] + later * roots[i]
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


@compiled
def top_two(means: Floats, roots: Floats, factor: float) -> tuple[int, float]:
    """Return the arm with the highest bound, ties to the lowest index, and the second bound."""
    best, top, rival = 0, means[0] + factor * roots[0], -math.inf
    for i in range(1, means.shape[0]):
        bound = means[i] + factor * roots[i]
        rival = max(rival, min(bound, top))
        if bound > top:
            best, top = i, bound
    return best, rival


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
