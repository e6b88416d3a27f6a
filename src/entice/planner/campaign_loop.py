"""The compiled loop that simulates one campaign, visitor by visitor.

The service decides with `model.campaign_step` and keeps its accounts in `service.domain`. This loop
makes the same calls and keeps the same accounts. With the same seed and the same visitors, it
makes the same offers, bit for bit; a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.cache_aligned import cache_aligned
from entice.jit.decorators import compiled, inline_always
from entice.model.campaign_step import EXPECTED_RATINGS, begin_pull, decide, end_pull, record_rating
from entice.model.in_flight import RATED, WITHDRAWN, InFlight, new_in_flight
from entice.model.learned_price import AcceptanceCurve, new_curve, price_offer, record_answer
from entice.model.ledger import Ledger, new_ledger
from entice.model.probe import HEADS, NO_PROBE
from entice.model.segments import (
    CampaignSegments,
    new_campaign_segments,
    see_as_visitor,
    set_cell_ratings,
)
from entice.model.settings import MAX_MONEY
from entice.model.step import NO_SUCH_ARM, own_choice
from entice.money import amount_of, max_stars_for
from entice.planner.pending import pop_pending, push_pending
from entice.planner.visitors import (
    DAY,
    VisitorModel,
    draw_response,
    draw_visitor_segment,
    is_held_out,
)
from entice.policies import greedy
from entice.policies.policy import PolicyKernel
from entice.rng import Stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OWN_CHOICE, EXPLORE, PROBE, LIMITED, CONTROL, HOLDOUT, OVERLAP = 0, 1, 2, 3, 4, 5, 6
"""The reasons for an offer, as the service reports them."""
REASONS = ("own_choice", "explore", "probe", "limited", "control", "holdout", "overlap")

DONE, BUDGET_LOW, STOPPED, BAD_ARM, UNEXPECTED_LIMIT = 0, 1, 2, 3, 4
"""End codes of `simulate_visits`."""

COUNT_NEVER, COUNT_WHILE_UNRATED, COUNT_ALWAYS = 0, 1, 2
"""When expected ratings are counted. A policy that does not read the counts needs them while an
item is unrated: it is not offered while its first rating is expected."""

UNLIMITED_AMOUNT = MAX_MONEY // 2
"""An amount larger than any payment."""

STOP_EVERY = 4096
"""Visitors between two checks of the stop flag: a few milliseconds."""

# Recompiled so that they can be inlined: a call would pass about thirty arrays, seven words each.
_decide = compiled(decide.py_func)  # type: ignore[attr-defined]
_begin_pull = compiled(begin_pull.py_func)  # type: ignore[attr-defined]
_end_pull = compiled(end_pull.py_func)  # type: ignore[attr-defined]
_record_rating = compiled(record_rating.py_func)  # type: ignore[attr-defined]
_amount_of = compiled(amount_of)
_max_stars_for = compiled(max_stars_for)


class LoopSettings(NamedTuple):
    """A campaign's settings as numbers; money is in minor units, times in microseconds."""

    seed: int
    budget: int
    price_of_a_star: int
    margin: int
    cap: int
    """The maximum cost of one offer: the lower of `cap_per_offer` and `cap_per_player`, because
    each visitor is a different player."""
    pace_over: int
    """0 if the budget is not paced."""
    window: int
    late_ratings: bool
    zero: int
    """The policy sees a rating r as (r − zero) / steps."""
    steps: int
    probe_share: float
    probe_amounts: Floats
    overlap: float
    custom_payment_rule: bool
    """Whether the policy has its own payment rule."""
    limit_slot: int
    """See `PolicyKernel`."""
    counts_in_flight: int
    """When expected ratings are counted, such as `COUNT_ALWAYS`."""
    equal_pay: bool
    """Whether the policy compares ratings under equal payments."""
    holdout: float
    """The share of visitors who are never paid."""
    holdout_feeds_averages: bool
    segments: int
    """The number of segments that the campaign knows; 0 if visitors are one population."""
    acceptance: float
    """The wanted acceptance of a learned price; 0 if the gap is paid."""
    explore_prices: float
    """The share of paid offers whose price is drawn."""


class LoopState(NamedTuple):
    """The mutable state of a simulated campaign, and the workspace of its decisions."""

    ledger: Ledger
    totals: Counts
    """The sum of each item's ratings."""
    cell_totals: Counts
    """The sum of the ratings of each item and known segment."""
    squares: Counts
    """The sum of the squares of each item's ratings."""
    segments: CampaignSegments
    in_flight: InFlight
    memory: Floats
    """The policy's memory."""
    before: Floats
    """The policy's memory before the last decision that may have to be repeated."""
    budget_limited: Counts
    """One element: the number of offers that the budget has changed."""
    committed: Counts
    """One element: the money spent."""
    unrated: Counts
    """One element: the number of items without a rating."""
    pending_count: Counts
    """One element: the number of pending ratings."""
    pending: Counts
    """The visitors whose ratings are pending: a heap, the earliest rating first."""
    in_flight_counts: Counts
    eligible: Bools
    displayed: Floats
    shown: Floats
    permitted: Bools
    means: Floats
    counts: Floats
    counted: Floats
    awaited: Bools
    stream: Stream
    curve: AcceptanceCurve

    def copy(self) -> LoopState:
        """Copy all arrays, so that a campaign can be continued in two ways."""
        return cache_aligned(_copied(self))  # type: ignore[no-any-return]


class Visits(NamedTuple):
    """The visitors of a run, one array element for each."""

    offered: npt.NDArray[np.int32]
    """The item offered."""
    leader: npt.NDArray[np.int32]
    """The item with the best displayed average, which the visitor would take unpaid."""
    stars: Floats
    """The payment offered, in stars."""
    amount: Counts
    """The cost of the offer, in minor units."""
    reason: npt.NDArray[np.int8]
    budget_limited: Bools
    """Whether the budget, and no other limit, changed the offer."""
    accepted: Bools
    taken: npt.NDArray[np.int32]
    """The item taken."""
    rating: npt.NDArray[np.int8]
    """0 if the visitor does not rate."""
    rated_at: Counts
    """The time of the rating."""
    segment: npt.NDArray[np.int8]

    @property
    def spent(self) -> Counts:
        """The payment to each visitor, in minor units."""
        return np.where(self.accepted, self.amount, 0)

    def copy(self) -> Visits:
        """Copy all visitors."""
        return Visits._make(column.copy() for column in self)


VISIT_BYTES = 3 * 4 + 3 * 8 + 5
"""The size of a visitor's record in `Visits`."""


def new_visits(visitors: int) -> Visits:
    """Allocate the records of this many visitors."""
    return Visits(
        offered=np.zeros(visitors, np.int32),
        leader=np.zeros(visitors, np.int32),
        stars=np.zeros(visitors),
        amount=np.zeros(visitors, np.int64),
        reason=np.zeros(visitors, np.int8),
        budget_limited=np.zeros(visitors, np.bool_),
        accepted=np.zeros(visitors, np.bool_),
        taken=np.zeros(visitors, np.int32),
        rating=np.zeros(visitors, np.int8),
        rated_at=np.zeros(visitors, np.int64),
        segment=np.zeros(visitors, np.int8),
    )


def new_state(
    rules: PolicyKernel, settings: LoopSettings, arms: int, visitors: int, shown: float, scale: int
) -> LoopState:
    """Return the state at the start of a campaign whose unrated items display `shown` stars.

    `scale` is the length of the rating scale in stars.
    """
    state = LoopState(
        ledger=new_ledger(arms, (shown - settings.zero) / settings.steps),
        totals=np.zeros(arms, np.int64),
        cell_totals=np.zeros((arms, settings.segments), np.int64),
        squares=np.zeros(arms, np.int64),
        segments=new_campaign_segments(settings.segments, arms),
        in_flight=new_in_flight(arms * max(1, settings.segments), settings.window),
        memory=np.zeros(rules.memory),
        before=np.zeros(rules.memory),
        budget_limited=np.zeros(1, np.int64),
        committed=np.zeros(1, np.int64),
        unrated=np.full(1, arms),
        pending_count=np.zeros(1, np.int64),
        pending=np.zeros(visitors, np.int64),
        in_flight_counts=np.zeros(arms, np.int64),
        eligible=np.ones(arms, np.bool_),
        displayed=np.full(arms, np.nan),
        shown=np.zeros(arms),
        permitted=np.zeros(arms, np.bool_),
        means=np.zeros(arms),
        counts=np.zeros(arms),
        counted=np.zeros(arms),
        awaited=np.zeros(arms, np.bool_),
        stream=np.zeros(4, np.uint64),
        curve=new_curve(scale),
    )
    return state.copy()


def _copied(arrays: Any) -> Any:
    """Copy the arrays of a (nested) named tuple."""
    if isinstance(arrays, tuple):
        return type(arrays)(*map(_copied, arrays))
    return arrays.copy()


def in_flight_counting(rules: PolicyKernel, overlap: float) -> int:
    """Return when a policy's offers depend on the expected ratings.

    Counting the expected ratings takes most of the time of simulating a visitor.
    """
    if rules.select is greedy.select and overlap == 0:
        return COUNT_NEVER  # the greedy policy never offers another item
    return COUNT_ALWAYS if rules.reads_counts else COUNT_WHILE_UNRATED


@inline_always
def simulate_visits(
    select: Callable[..., int],
    update: Callable[..., None],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    accept: Callable[..., bool],
    draw_delay: Callable[..., float],
    response_probability: Callable[..., float],
    policy_params: tuple[Any, ...],
    accept_params: tuple[Any, ...],
    delay_params: tuple[Any, ...],
    settings: LoopSettings,
    visitor_model: VisitorModel,
    visitors_a_day: int,
    first: int,
    ample_amount: int,
    stop_when_low: bool,
    explain: bool,
    state: LoopState,
    visits: Visits,
    stop: Counts,
) -> tuple[int, int, int]:
    """Simulate the visitors from index `first` on and record them in `visits`.

    Return an end code, the index of the visitor before whom the loop ended and, for `BAD_ARM`, the
    arm. A limit of `ample_amount` or more should not change any offer; the loop ends with
    `UNEXPECTED_LIMIT` if one does. With `stop_when_low`, the loop ends with `BUDGET_LOW` as soon as
    the limit falls below `ample_amount`.

    To find out whether a limit changed an offer, the decision is repeated without the limit. With
    `explain`, this is done for every offer, otherwise until the budget has changed one.
    """
    ledger, in_flight, memory, stream = state.ledger, state.in_flight, state.memory, state.stream
    for i in range(first, visits.offered.shape[0]):
        if i % STOP_EVERY == 0 and stop[0] != 0:
            return STOPPED, i, 0
        n, at = i + 1, i * DAY // visitors_a_day
        while state.pending_count[0] > 0 and visits.rated_at[state.pending[0]] <= at:
            _apply_next_rating(update, policy_params, settings, visitors_a_day, state, visits)
        counting = settings.counts_in_flight == COUNT_ALWAYS or (
            settings.counts_in_flight == COUNT_WHILE_UNRATED and state.unrated[0] > 0
        )
        remaining = settings.budget - state.committed[0]
        limit = remaining
        if settings.pace_over > 0:
            share = min(1.0, math.log1p(n) / math.log1p(settings.pace_over))
            limit = min(limit, max(0, int(settings.budget * share) - state.committed[0]))
        if stop_when_low and limit < ample_amount:
            return BUDGET_LOW, i, 0
        limit = min(limit, settings.cap)
        max_stars = _max_stars_for(limit, settings.price_of_a_star, settings.margin)
        check_limits = (
            explain or stop_when_low or (state.budget_limited[0] == 0 and limit == remaining)
        )
        may_repeat = check_limits and (
            limit < ample_amount or (settings.custom_payment_rule and limit < UNLIMITED_AMOUNT)
        )
        segment = draw_visitor_segment(visitor_model, n, stream)
        if settings.segments > 0:
            state.segments.current[0] = segment
        held_out = is_held_out(settings.seed, n, settings.holdout, stream)
        may_repeat = may_repeat and not held_out
        if may_repeat:
            for j in range(memory.shape[0]):
                state.before[j] = memory[j]
        rules_version = EXPECTED_RATINGS if counting else 0
        arm, own, chosen, payment, limited = 0, 0, 0, 0.0, 0
        coin, coin_amount = NO_PROBE, 0.0
        unlimited_arm, unlimited_own, unlimited_payment = 0, 0, 0.0
        if held_out:
            seen, _ = see_as_visitor(state.segments, ledger, state.counted)
            own = own_choice(
                display, seen, memory, policy_params, state.eligible, state.displayed, state.shown
            )
            arm, chosen, unlimited_arm, unlimited_own = own, own, own, own
        # At most twice: with the limit, and without. One call, because it is inlined.
        policy_memory, max_payment = memory, max_stars / settings.steps
        for attempt in range(0 if held_out else 2):
            unlimited_arm, unlimited_own, unlimited_payment, above, _, side, at_stake, first_arm = (
                _decide(
                    select, display, payment_rule, settings.seed, n, at, rules_version, ledger,
                    state.segments, in_flight, state.in_flight_counts, policy_memory, policy_params,
                    max_payment, settings.limit_slot, settings.probe_share, settings.probe_amounts,
                    settings.overlap, state.eligible, state.displayed, state.shown, state.permitted,
                    state.means, state.counts, state.counted, state.awaited, stream,
                )
            )  # fmt: skip
            if attempt == 0:
                arm, own, payment = unlimited_arm, unlimited_own, unlimited_payment
                limited, coin, coin_amount, chosen = above, side, at_stake, first_arm
            if own == NO_SUCH_ARM or not may_repeat:
                break
            if limited == 0 and not settings.custom_payment_rule:
                break
            policy_memory, max_payment = state.before, np.inf
        if own == NO_SUCH_ARM:
            return BAD_ARM, i, arm
        gap = payment * settings.steps
        stars, reason = gap, HOLDOUT if held_out else OWN_CHOICE
        priced = settings.acceptance > 0.0 and arm != own
        if priced:
            stars, _, _, _ = price_offer(
                state.curve, settings.acceptance, settings.explore_prices, gap, settings.seed, n,
                stream,
            )  # fmt: skip
        if arm != chosen:
            reason = OVERLAP
        elif arm != own:
            reason = EXPLORE
        elif stars > 0:
            reason = CONTROL if settings.equal_pay else PROBE
        if arm == own and stars == 0.0 and coin == HEADS and _affords_probe(settings, limit):
            stars, reason = coin_amount, PROBE
        unlimited_stars = unlimited_payment * settings.steps
        if settings.acceptance > 0.0 and unlimited_arm != unlimited_own:
            unlimited_stars, _, _, _ = price_offer(
                state.curve, settings.acceptance, settings.explore_prices, unlimited_stars,
                settings.seed, n, stream,
            )  # fmt: skip
        if unlimited_arm == unlimited_own and unlimited_stars == 0.0 and coin == HEADS:
            unlimited_stars = coin_amount
        changed = arm != unlimited_arm or stars != unlimited_stars
        if (changed or limited > 0) and limit >= ample_amount:
            return UNEXPECTED_LIMIT, i, 0
        if changed and reason not in (PROBE, OVERLAP):
            reason = LIMITED
        budget_limited = changed and limit == remaining
        state.budget_limited[0] += budget_limited
        amount = _amount_of(stars, settings.price_of_a_star, settings.margin)
        feeds = settings.holdout_feeds_averages or not held_out
        if counting and feeds:
            _begin_pull(in_flight, n, at, _cell(settings, arm, segment))
        accepted, taken, rating, after = draw_response(
            accept, draw_delay, response_probability, accept_params, delay_params, visitor_model, n,
            arm, own, amount, stream, segment,
        )  # fmt: skip
        if accepted:
            state.committed[0] += amount
            if after >= settings.window and not settings.late_ratings:
                rating = 0
        elif counting:  # never in the holdout: visitors accept their own choice
            _end_pull(in_flight, n, at, _cell(settings, arm, segment), WITHDRAWN)
        if priced:
            record_answer(state.curve, stars, accepted)
        visits.offered[i], visits.leader[i], visits.taken[i] = arm, own, taken
        visits.stars[i], visits.amount[i], visits.reason[i] = stars, amount, reason
        visits.budget_limited[i], visits.segment[i] = budget_limited, segment
        visits.accepted[i], visits.rating[i], visits.rated_at[i] = accepted, rating, at + after
        if rating > 0 and feeds:
            push_pending(state.pending, state.pending_count, visits.rated_at, i)
    return DONE, visits.offered.shape[0], 0


@compiled
def _cell(settings: LoopSettings, arm: int, segment: int) -> int:
    """Return the cell by which a pull in flight is counted: see `SegmentLedgers`."""
    return arm * settings.segments + segment if settings.segments > 0 else arm


@compiled
def _affords_probe(settings: LoopSettings, limit: int) -> bool:
    """Return whether the largest probe amount costs at most `limit`.

    Neither the coin nor the drawn amount may decide whether an offer is probed.
    """
    largest = 0.0
    for amount in settings.probe_amounts:
        largest = max(largest, amount)
    return _amount_of(largest, settings.price_of_a_star, settings.margin) <= limit


@compiled
def _apply_next_rating(
    update: Callable[..., None],
    params: tuple[Any, ...],
    settings: LoopSettings,
    visitors_a_day: int,
    state: LoopState,
    visits: Visits,
) -> None:
    """Record the next pending rating."""
    visitor = pop_pending(state.pending, state.pending_count, visits.rated_at)
    arm, rating, at = (
        int(visits.taken[visitor]),
        int(visits.rating[visitor]),
        visits.rated_at[visitor],
    )
    segment = int(visits.segment[visitor])
    paid = 0.0
    if visits.accepted[visitor]:
        paid = visits.stars[visitor]
        if at - visitor * DAY // visitors_a_day < settings.window:
            _end_pull(state.in_flight, visitor + 1, at, _cell(settings, arm, segment), RATED)
    state.totals[arm] += rating
    pulls = state.ledger.pulls[arm] + 1
    state.unrated[0] -= pulls == 1
    # Computed from integers with one division each, like the service.
    above = state.totals[arm] - pulls * settings.zero
    _record_rating(
        update, state.ledger, state.memory, params, arm, pulls, above / settings.steps,
        above / (pulls * settings.steps), True, paid / settings.steps,
        (rating - settings.zero) / settings.steps,
    )  # fmt: skip
    if settings.segments > 0:
        state.cell_totals[arm, segment] += rating
        state.squares[arm] += rating * rating
        set_cell_ratings(
            state.segments.ledgers, arm, segment, state.segments.ledgers.pulls[arm, segment] + 1,
            state.cell_totals[arm, segment], pulls, state.totals[arm], state.squares[arm],
            settings.zero, settings.steps,
        )  # fmt: skip
