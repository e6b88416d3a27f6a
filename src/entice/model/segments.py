"""Segments of visitors: a ledger for each segment, shrunk towards all visitors' averages.

The rule is empirical Bayes for a normal model. The true mean of arm i in segment s is drawn from
N(μ_i, τ²), and ratings vary around it with variance σ². Given λ = σ²/τ², segment s sees

    m̂_si = (n_si · m_si + λ · m_i) / (n_si + λ)

with its own count n_si and average m_si, and the average m_i of all visitors. λ is the number of
ratings of its own at which a segment's average has half of the weight. σ² and τ² are estimated by
the method of moments for a one-way layout with unequal counts (Henderson 1953, method 1), pooled
over arms. Pooled, because a policy gives most arms few ratings, and an estimate of τ² from a single
arm has only one degree of freedom for each segment but the first.

Without an estimate of τ² above 0, λ is infinite, and all segments see m_i, bit for bit. This is the
case if there is one segment, if no arm has been rated by two, or if segments differ by no more than
noise. An arm that a segment has not rated displays m_i.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.model.ledger import Ledger, find_greedy

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

MAX_SEGMENTS = 32
"""Maximum number of segments."""


class SegmentLedgers(NamedTuple):
    """The ratings of each segment and arm, and totals of each arm for the estimate of λ.

    All totals but `squares` are functions of the counts and sums: they do not depend on the order
    in which other cells were rated, and rounding errors do not accumulate.
    """

    pulls: Counts
    """n_si: the number of ratings, one row for each segment."""
    sums: Floats
    """The sum of the feedback of each segment and arm."""
    squares: Floats
    """For each arm, the sum of its squared feedback."""
    explained: Floats
    """For each arm, the sum over segments of n_si · m_si²."""
    squared_pulls: Floats
    """For each arm, the sum over segments of n_si²."""
    rated_by: Counts
    """For each arm, the number of segments that have rated it."""


def new_segment_ledgers(segments: int, arms: int) -> SegmentLedgers:
    """Return ledgers without ratings."""
    return SegmentLedgers(
        np.zeros((segments, arms), np.int64), np.zeros((segments, arms)),
        np.zeros(arms), np.zeros(arms), np.zeros(arms), np.zeros(arms, np.int64),
    )  # fmt: skip


@compiled
def clear_segments(ledgers: SegmentLedgers) -> None:
    """Remove all ratings."""
    ledgers.pulls[:] = 0
    ledgers.sums[:] = 0.0
    ledgers.squares[:] = 0.0
    ledgers.explained[:] = 0.0
    ledgers.squared_pulls[:] = 0.0
    ledgers.rated_by[:] = 0


@compiled
def record_in_segment(ledgers: SegmentLedgers, segment: int, arm: int, feedback: float) -> None:
    """Record one rating. The ledger of all visitors records it separately."""
    ledgers.pulls[segment, arm] += 1
    ledgers.sums[segment, arm] += feedback
    ledgers.squares[arm] += feedback * feedback
    explained, squared_pulls, rated_by = 0.0, 0.0, 0
    for s in range(ledgers.pulls.shape[0]):
        pulls, total = float(ledgers.pulls[s, arm]), ledgers.sums[s, arm]
        if pulls > 0.0:
            explained += total * (total / pulls)
            squared_pulls += pulls * pulls
            rated_by += 1
    ledgers.explained[arm] = explained
    ledgers.squared_pulls[arm] = squared_pulls
    ledgers.rated_by[arm] = rated_by


@compiled
def shrinkage(ledgers: SegmentLedgers, ledger: Ledger) -> float:
    """Return the estimate of λ = σ²/τ², in ratings; infinite if τ² is not above 0.

    With N_i ratings of arm i by S_i segments, the squares within segments have the expectation
    σ² · Σ_i (N_i − S_i), and those between segments, Σ_i Σ_s n_si (m_si − m_i)², have
    σ² · Σ_i (S_i − 1) + τ² · Σ_i (N_i − Σ_s n_si² / N_i).
    """
    within, between, spread = 0.0, 0.0, 0.0
    within_freedom, between_freedom = 0, 0
    for i in range(ledger.pulls.shape[0]):
        pulls = float(ledger.pulls[i])
        if pulls > 0.0:
            within += ledgers.squares[i] - ledgers.explained[i]
            within_freedom += ledger.pulls[i] - ledgers.rated_by[i]
        if ledgers.rated_by[i] > 1:
            between += ledgers.explained[i] - ledger.sums[i] * (ledger.sums[i] / pulls)
            between_freedom += ledgers.rated_by[i] - 1
            spread += pulls - ledgers.squared_pulls[i] / pulls
    if between_freedom < 1 or within_freedom < 1:
        return math.inf
    noise = max(0.0, within / within_freedom)
    excess = between - noise * between_freedom
    return noise * spread / excess if excess > 0.0 else math.inf


@compiled
def shrunk_average(pulls: float, total: float, overall: float, strength: float) -> float:
    """Return m̂_si from a segment's count and sum, the average m_i of all visitors, and λ."""
    if pulls == 0.0 or strength == math.inf:
        return overall
    return overall + pulls / (pulls + strength) * (total / pulls - overall)


@compiled
def effective_count(pulls: float, everyone: float, squared_pulls: float, strength: float) -> float:
    """Return the number of the segment's own ratings whose average is as precise as m̂_si.

    That is σ² / E[(m̂_si − μ_si)²] in the model, given λ; `everyone` is N_i, `squared_pulls`
    Σ_s n_si². It lies between n_si and N_i, which are its limits for λ = 0 and ∞. A policy divides
    the noise by the square root of a count, so with this count its bounds and samples have the
    width of the shrunk average's error, including the part that is due to other segments. The
    estimate of λ is taken as exact.
    """
    if everyone == 0.0 or strength == math.inf:
        return everyone
    if strength == 0.0:
        return pulls
    # m̂ is a weighted sum of the segments' averages: `own` is the weight of this segment's, and the
    # others share `others` by their counts.
    others = strength / (pulls + strength) / everyone
    own = 1.0 - others * (everyone - pulls)
    error = others * others * (everyone - pulls)
    if pulls > 0.0:
        error += own * own / pulls
    bias = squared_pulls - pulls * pulls + (everyone - pulls) * (everyone - pulls)
    return 1.0 / (error + others * others * bias / strength)


@compiled
def see_segment(
    ledgers: SegmentLedgers, ledger: Ledger, segment: int, seen: Ledger, counts: Floats
) -> float:
    """Fill in the ledger and the counts with which a visitor of a segment is met.

    `ledger` has the ratings of all visitors. `seen` gets the shrunk averages and their greedy arm,
    `counts` the effective counts, for the policy. The cost does not depend on the number of
    segments. Returns λ, for `count_expected_by_segments`.
    """
    strength = shrinkage(ledgers, ledger)
    for i in range(ledger.pulls.shape[0]):
        pulls = float(ledgers.pulls[segment, i])
        seen.means[i] = shrunk_average(pulls, ledgers.sums[segment, i], ledger.means[i], strength)
        counts[i] = effective_count(
            pulls, float(ledger.pulls[i]), ledgers.squared_pulls[i], strength
        )
    find_greedy(seen)
    return strength


@compiled
def count_expected_by_segments(
    cell_counts: Floats, segment: int, strength: float, counts: Floats
) -> None:
    """Fill in the effective counts that include ratings still expected from pulls in flight.

    `cell_counts` has the ratings and the expected ratings of each segment and arm, segment by
    segment, as `in_flight.count_expected` fills it in for as many arms. The cost is that of
    counting them there: proportional to the numbers of segments and arms.
    """
    arms = counts.shape[0]
    for i in range(arms):
        everyone, squared = 0.0, 0.0
        for cell in range(i, cell_counts.shape[0], arms):
            everyone += cell_counts[cell]
            squared += cell_counts[cell] * cell_counts[cell]
        own = cell_counts[segment * arms + i]
        counts[i] = effective_count(own, everyone, squared, strength)
