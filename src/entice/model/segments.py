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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.model.ledger import Ledger, find_greedy

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

MAX_SEGMENTS = 32
"""Maximum number of segments."""
NO_SEGMENT = -1
"""The current segment of a campaign whose visitors are one population."""


class SegmentLedgers(NamedTuple):
    """The ratings of each arm and segment, and totals of each arm for the estimate of λ.

    All totals but `squares` are functions of the counts and sums: they do not depend on the order
    in which other cells were rated, and rounding errors do not accumulate. A campaign may add arms,
    but no segments: so there is a row for each arm, and the cell of an arm and a segment, counted
    row by row, keeps its number.
    """

    pulls: Counts
    """n_si: the number of ratings, one row for each arm."""
    sums: Floats
    """The sum of the feedback of each arm and segment."""
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
        np.zeros((arms, segments), np.int64), np.zeros((arms, segments)),
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
    ledgers.pulls[arm, segment] += 1
    ledgers.sums[arm, segment] += feedback
    ledgers.squares[arm] += feedback * feedback
    update_arm_totals(ledgers, arm)


@compiled
def set_cell_ratings(
    ledgers: SegmentLedgers,
    arm: int,
    segment: int,
    pulls: int,
    total: int,
    arm_pulls: int,
    arm_total: int,
    arm_squares: int,
    zero: int,
    steps: int,
) -> None:
    """Replace the ratings of an arm and segment: some may have been revised or reversed.

    Totals are sums of whole ratings; `arm_squares` is the sum of the squares of all ratings of the
    arm. A policy sees a rating r as (r − zero) / steps. Each result is one division of whole
    numbers, so it does not depend on the order of ratings.
    """
    ledgers.pulls[arm, segment] = pulls
    ledgers.sums[arm, segment] = (total - pulls * zero) / steps
    squares = arm_squares - 2 * zero * arm_total + arm_pulls * zero * zero
    ledgers.squares[arm] = squares / (steps * steps)
    update_arm_totals(ledgers, arm)


@compiled
def update_arm_totals(ledgers: SegmentLedgers, arm: int) -> None:
    """Recalculate the totals of an arm from the counts and sums of its segments."""
    explained, squared_pulls, rated_by = 0.0, 0.0, 0
    for s in range(ledgers.pulls.shape[1]):
        pulls, total = float(ledgers.pulls[arm, s]), ledgers.sums[arm, s]
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
    ledgers: SegmentLedgers, ledger: Ledger, segment: int, seen: Ledger, counts: npt.NDArray[Any]
) -> float:
    """Fill in the ledger and the counts with which a visitor of a segment is met.

    `ledger` has the ratings of all visitors. `seen` gets the shrunk averages and their greedy arm,
    `counts` the effective counts, for the policy. The cost does not depend on the number of
    segments. Returns λ, for `count_expected_by_segments`.
    """
    strength = shrinkage(ledgers, ledger)
    for i in range(ledger.pulls.shape[0]):
        pulls = float(ledgers.pulls[i, segment])
        seen.means[i] = shrunk_average(pulls, ledgers.sums[i, segment], ledger.means[i], strength)
        counts[i] = effective_count(
            pulls, float(ledger.pulls[i]), ledgers.squared_pulls[i], strength
        )
    find_greedy(seen)
    return strength


@compiled
def count_expected_by_segments(
    cell_counts: Floats, segment: int, strength: float, counts: npt.NDArray[Any]
) -> None:
    """Fill in the effective counts that include ratings still expected from pulls in flight.

    `cell_counts` has the ratings and the expected ratings of each arm and segment, arm by arm, as
    `in_flight.count_expected` fills it in for as many arms. The cost is that of counting them
    there: proportional to the numbers of segments and arms.
    """
    arms = counts.shape[0]
    segments = cell_counts.shape[0] // arms
    for i in range(arms):
        everyone, squared = 0.0, 0.0
        for cell in range(i * segments, (i + 1) * segments):
            everyone += cell_counts[cell]
            squared += cell_counts[cell] * cell_counts[cell]
        own = cell_counts[i * segments + segment]
        counts[i] = effective_count(own, everyone, squared, strength)


class CampaignSegments(NamedTuple):
    """The ledgers of a campaign's segments, and the arrays of a decision for one of them."""

    current: Counts
    """One element: the segment of the visitor, or `NO_SEGMENT`."""
    ledgers: SegmentLedgers
    means: Floats
    """The averages that the visitor sees."""
    greedy: Counts
    """One element: the best of them, as in `Ledger`."""
    rival: Floats
    """One element, as in `Ledger`."""
    cell_counts: Floats
    """The ratings of each arm and segment, with those expected from pulls in flight."""


def new_campaign_segments(segments: int, arms: int) -> CampaignSegments:
    """Return the ledgers of a campaign without ratings; `segments` is 0 if it has none."""
    return CampaignSegments(
        np.full(1, NO_SEGMENT), new_segment_ledgers(segments, arms), np.zeros(arms),
        np.zeros(1, np.int64), np.zeros(1), np.zeros(segments * arms),
    )  # fmt: skip


@compiled
def see_as_visitor(
    segments: CampaignSegments, ledger: Ledger, counts: npt.NDArray[Any]
) -> tuple[Ledger, float]:
    """Return the ledger that a campaign's visitor sees, and λ; fill in the effective counts.

    Without segments, it is the ledger of all visitors, and `counts` do not change.
    """
    segment = segments.current[0]
    if segment == NO_SEGMENT:
        return ledger, math.inf
    seen = Ledger(ledger.pulls, ledger.sums, segments.means, segments.greedy, segments.rival)
    return seen, see_segment(segments.ledgers, ledger, segment, seen, counts)


@compiled
def mark_awaited_by_all(cell_counts: Floats, pulls: Counts, awaited: Bools) -> None:
    """Mark the unrated arms whose first rating is expected, from a visitor of any segment.

    An arm without ratings displays the same to all segments, so one first rating serves all.
    """
    arms = pulls.shape[0]
    segments = cell_counts.shape[0] // arms
    for i in range(arms):
        expected = 0.0
        for cell in range(i * segments, (i + 1) * segments):
            expected += cell_counts[cell]
        awaited[i] = pulls[i] == 0 and expected >= 1.0
