"""One campaign, visitor by visitor, under the rules of the live service.

The service decides through `principal.campaign_step` and does its accounts in
`service.campaign` and `service.rules`. This loop makes the same calls and keeps the same accounts,
so with the same seed and the same visitors it makes the same offers, to the last bit; a test
compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.cache_aligned import cache_aligned
from entice.jit.decorators import compiled, compiled_noinline, inline_always
from entice.model.campaign_step import EXPECTED_RATINGS, begin_pull, decide, end_pull, record_rating
from entice.model.in_flight import RATED, WITHDRAWN, InFlight, new_in_flight
from entice.model.ledger import Ledger, new_ledger
from entice.model.probe import HEADS
from entice.model.settings import MAX_MONEY
from entice.model.step import NO_SUCH_ARM
from entice.money import amount_of, max_stars_for
from entice.planner.visitors import DAY, Habits, answer
from entice.policies import greedy
from entice.policies.policy import PolicyKernel
from entice.rng import Stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OWN_CHOICE, EXPLORE, PROBE, LIMITED = 0, 1, 2, 3
"""Why an offer was made, as the service says it."""
REASONS = ("own_choice", "explore", "probe", "limited")

DONE, SCARCE, STOPPED, BAD_ARM, WIDE = 0, 1, 2, 3, 4
"""How `play` may end."""

PLENTY = MAX_MONEY // 2
"""More than any payment."""

STOP_EVERY = 4096
"""Visitors after which a run looks whether it is to stop: some milliseconds."""

# Within the loop, not a call each: of some thirty arrays, a call passes seven words each.
_decide = compiled(decide.py_func)  # type: ignore[attr-defined]
_begin_pull = compiled(begin_pull.py_func)  # type: ignore[attr-defined]
_end_pull = compiled(end_pull.py_func)  # type: ignore[attr-defined]
_record_rating = compiled(record_rating.py_func)  # type: ignore[attr-defined]
_amount_of = compiled(amount_of)
_max_stars_for = compiled(max_stars_for)


class Terms(NamedTuple):
    """The settings of a campaign, as numbers; money is in minor units, times in microseconds."""

    seed: int
    budget: int
    price_of_a_star: int
    margin: int
    cap: int
    """The most that one offer may cost. Each visitor is another player, so this is the lower of
    `cap_per_offer` and `cap_per_player`."""
    pace_over: int
    """0 if the budget is not paced."""
    window: int
    late_ratings: bool
    zero: int
    """A rating r is seen by the policy as (r − zero) / steps."""
    steps: int
    probe_share: float
    probe_amounts: Floats
    own_price: bool
    """Whether the policy prices its offers in a way of its own."""


class State(NamedTuple):
    """What a campaign has come to, and room to decide in."""

    ledger: Ledger
    totals: Counts
    """The sum of each item's ratings."""
    flight: InFlight
    memory: Floats
    """The policy's."""
    before: Floats
    """What it was before the last decision that may have to be made again."""
    short: Counts
    """One element: how often the budget has changed an offer."""
    committed: Counts
    """One element: the money spent."""
    unrated: Counts
    """One element: how many items have no rating."""
    waiting: Counts
    """One element: how many ratings are under way."""
    queue: Counts
    """The visitors whose ratings are under way: a heap, the earliest rating first."""
    under_way: Counts
    eligible: Bools
    displayed: Floats
    shown: Floats
    permitted: Bools
    means: Floats
    counts: Floats
    counted: Floats
    awaited: Bools
    stream: Stream

    def copy(self) -> State:
        """Copy everything, so that a campaign can go on in two ways."""
        return cache_aligned(_copied(self))  # type: ignore[no-any-return]


class Visits(NamedTuple):
    """Every visitor of a run; an element each."""

    offered: npt.NDArray[np.int32]
    """The item offered."""
    leader: npt.NDArray[np.int32]
    """The item that each would have taken unpaid: the one with the best displayed average."""
    stars: Floats
    """The payment offered, in stars."""
    amount: Counts
    """What it costs, in minor units."""
    reason: npt.NDArray[np.int8]
    short: Bools
    """Whether the budget, and no other limit, changed the offer."""
    accepted: Bools
    taken: npt.NDArray[np.int32]
    """The item taken."""
    rating: npt.NDArray[np.int8]
    """0 where it never comes."""
    rated_at: Counts
    """When the rating comes."""

    @property
    def spent(self) -> Counts:
        """What each visitor was paid, in minor units."""
        return np.where(self.accepted, self.amount, 0)

    def copy(self) -> Visits:
        """Copy all visitors."""
        return Visits._make(column.copy() for column in self)


VISIT_BYTES = 3 * 4 + 3 * 8 + 4
"""What `Visits` keeps of each visitor."""


def new_visits(visitors: int) -> Visits:
    """Make room for so many visitors."""
    return Visits(
        offered=np.zeros(visitors, np.int32),
        leader=np.zeros(visitors, np.int32),
        stars=np.zeros(visitors),
        amount=np.zeros(visitors, np.int64),
        reason=np.zeros(visitors, np.int8),
        short=np.zeros(visitors, np.bool_),
        accepted=np.zeros(visitors, np.bool_),
        taken=np.zeros(visitors, np.int32),
        rating=np.zeros(visitors, np.int8),
        rated_at=np.zeros(visitors, np.int64),
    )


def new_state(rules: PolicyKernel, terms: Terms, arms: int, visitors: int, shown: float) -> State:
    """Begin a campaign whose items show so many stars before they are rated."""
    state = State(
        ledger=new_ledger(arms, (shown - terms.zero) / terms.steps),
        totals=np.zeros(arms, np.int64),
        flight=new_in_flight(arms, terms.window),
        memory=np.zeros(rules.memory),
        before=np.zeros(rules.memory),
        short=np.zeros(1, np.int64),
        committed=np.zeros(1, np.int64),
        unrated=np.full(1, arms),
        waiting=np.zeros(1, np.int64),
        queue=np.zeros(visitors, np.int64),
        under_way=np.zeros(arms, np.int64),
        eligible=np.ones(arms, np.bool_),
        displayed=np.full(arms, np.nan),
        shown=np.zeros(arms),
        permitted=np.zeros(arms, np.bool_),
        means=np.zeros(arms),
        counts=np.zeros(arms),
        counted=np.zeros(arms),
        awaited=np.zeros(arms, np.bool_),
        stream=np.zeros(4, np.uint64),
    )
    return state.copy()


def _copied(arrays: Any) -> Any:
    """Copy the arrays of a (nested) named tuple."""
    if isinstance(arrays, tuple):
        return type(arrays)(*map(_copied, arrays))
    return arrays.copy()


@compiled
def always(unrated: int) -> bool:
    """Count: the policy looks at it."""
    return True


@compiled
def while_unrated(unrated: int) -> bool:
    """Count while there are items without ratings, for which it matters whether one is awaited."""
    return unrated > 0


@compiled
def never(unrated: int) -> bool:
    """Do not count: nobody is ever asked to take another item."""
    return False


def counting_for(rules: PolicyKernel) -> Callable[..., bool]:
    """Tell when a policy's offers depend on the ratings that are expected.

    Counting them takes most of the time that a visitor takes.
    """
    if rules.select is greedy.select:
        return never
    return always if rules.reads_counts else while_unrated


@inline_always
def play(
    select: Callable[..., int],
    update: Callable[..., None],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    accept: Callable[..., bool],
    draw_delay: Callable[..., float],
    counts_in_flight: Callable[..., bool],
    policy_params: tuple[Any, ...],
    accept_params: tuple[Any, ...],
    delay_params: tuple[Any, ...],
    terms: Terms,
    habits: Habits,
    visitors_a_day: int,
    first: int,
    wide: int,
    until_scarce: bool,
    explain: bool,
    state: State,
    visits: Visits,
    stop: Counts,
) -> tuple[int, int, int]:
    """Let the visitors come from number `first` on, counted from 0, and write them down.

    Returns how it ended, the visitor before whom it did and, of `BAD_ARM`, the arm. An offer whose
    limit is `wide` or more should never be limited: `WIDE` is the end where one is. With
    `until_scarce`, `SCARCE` is the end when there is less than that.

    Whether a limit changed an offer is known when the decision is made again without it. That is
    done for all offers if the run is to `explain` their reasons, else until the budget has done so
    once. `counts_in_flight` tells
    whether it matters how many ratings are expected: see `counting_for`.
    """
    ledger, flight, memory, stream = state.ledger, state.flight, state.memory, state.stream
    for i in range(first, visits.offered.shape[0]):
        if i % STOP_EVERY == 0 and stop[0] != 0:
            return STOPPED, i, 0
        n, at = i + 1, i * DAY // visitors_a_day
        while state.waiting[0] > 0 and visits.rated_at[state.queue[0]] <= at:
            _enter_rating(update, policy_params, terms, visitors_a_day, state, visits)
        counting = counts_in_flight(state.unrated[0])
        free = terms.budget - state.committed[0]
        limit = free
        if terms.pace_over > 0:
            share = min(1.0, math.log1p(n) / math.log1p(terms.pace_over))
            limit = min(limit, max(0, int(terms.budget * share) - state.committed[0]))
        if until_scarce and limit < wide:
            return SCARCE, i, 0
        limit = min(limit, terms.cap)
        most = _max_stars_for(limit, terms.price_of_a_star, terms.margin)
        asking = explain or (state.short[0] == 0 and limit == free)
        watching = asking and (limit < wide or (terms.own_price and limit < PLENTY))
        if watching:
            for j in range(memory.shape[0]):
                state.before[j] = memory[j]
        arm, own, payment, limited, _, coin, coin_amount = _decide(
            select, display, payment_rule, terms.seed, n, at, EXPECTED_RATINGS if counting else 0,
            ledger, flight, state.under_way, memory, policy_params, most / terms.steps,
            terms.probe_share, terms.probe_amounts, state.eligible, state.displayed, state.shown,
            state.permitted, state.means, state.counts, state.counted, state.awaited, stream,
        )  # fmt: skip
        if own == NO_SUCH_ARM:
            return BAD_ARM, i, arm
        stars, reason = payment * terms.steps, OWN_CHOICE
        if arm != own:
            reason = EXPLORE
        elif stars > 0:
            reason = PROBE
        if arm == own and stars == 0.0 and coin == HEADS and _affords_probe(terms, limit):
            stars, reason = coin_amount, PROBE
        if limited > 0 and limit >= wide:
            return WIDE, i, 0
        free_arm, free_own, wanted = arm, own, payment * terms.steps
        if watching and (limited > 0 or terms.own_price):
            free_arm, free_own, wanted, _, _, _, _ = decide(
                select, display, payment_rule, terms.seed, n, at,
                EXPECTED_RATINGS if counting else 0, ledger, flight, state.under_way,
                state.before, policy_params, np.inf, terms.probe_share, terms.probe_amounts,
                state.eligible, state.displayed, state.shown, state.permitted, state.means,
                state.counts, state.counted, state.awaited, stream,
            )  # fmt: skip
            wanted *= terms.steps
        if free_arm == free_own and wanted == 0.0 and coin == HEADS:
            wanted = coin_amount
        changed = arm != free_arm or stars != wanted
        if changed and reason != PROBE:
            reason = LIMITED
        short = changed and limit == free
        state.short[0] += short
        amount = _amount_of(stars, terms.price_of_a_star, terms.margin)
        if counting:
            _begin_pull(flight, n, at, arm)
        accepted, taken, rating, after = answer(
            accept, draw_delay, accept_params, delay_params, habits, n, arm, own, amount, stream
        )
        if accepted:
            state.committed[0] += amount
            if after >= terms.window and not terms.late_ratings:
                rating = 0
        elif counting:
            _end_pull(flight, n, at, arm, WITHDRAWN)
        visits.offered[i], visits.leader[i], visits.taken[i] = arm, own, taken
        visits.stars[i], visits.amount[i], visits.reason[i] = stars, amount, reason
        visits.short[i] = short
        visits.accepted[i], visits.rating[i], visits.rated_at[i] = accepted, rating, at + after
        if rating > 0:
            _await(state.queue, state.waiting, visits.rated_at, i)
    return DONE, visits.offered.shape[0], 0


@compiled
def _affords_probe(terms: Terms, limit: int) -> bool:
    """Tell whether the dearest side of the coin can be paid for, however it fell."""
    dearest = 0.0
    for amount in terms.probe_amounts:
        dearest = max(dearest, amount)
    return _amount_of(dearest, terms.price_of_a_star, terms.margin) <= limit


@compiled
def _enter_rating(
    update: Callable[..., None],
    params: tuple[Any, ...],
    terms: Terms,
    visitors_a_day: int,
    state: State,
    visits: Visits,
) -> None:
    """Enter the rating that comes next."""
    visitor = _next(state.queue, state.waiting, visits.rated_at)
    arm, rating, at = (
        int(visits.taken[visitor]),
        int(visits.rating[visitor]),
        visits.rated_at[visitor],
    )
    paid = 0.0
    if visits.accepted[visitor]:
        paid = visits.stars[visitor]
        if at - visitor * DAY // visitors_a_day < terms.window:
            _end_pull(state.flight, visitor + 1, at, arm, RATED)
    state.totals[arm] += rating
    pulls = state.ledger.pulls[arm] + 1
    state.unrated[0] -= pulls == 1
    # From whole numbers, by one division each, as the service does it.
    above = state.totals[arm] - pulls * terms.zero
    _record_rating(
        update, state.ledger, state.memory, params, arm, pulls, above / terms.steps,
        above / (pulls * terms.steps), True, paid / terms.steps,
        (rating - terms.zero) / terms.steps,
    )  # fmt: skip


@compiled
def _before(rated_at: Counts, one: int, other: int) -> bool:
    """Tell whose rating comes first; of two at the same time, that of the earlier visitor."""
    return bool(
        rated_at[one] < rated_at[other] or (rated_at[one] == rated_at[other] and one < other)
    )


@compiled_noinline
def _await(queue: Counts, waiting: Counts, rated_at: Counts, visitor: int) -> None:
    """Put a visitor into the heap of those whose ratings are under way."""
    place = waiting[0]
    waiting[0] += 1
    while place > 0:
        above = (place - 1) // 2
        if not _before(rated_at, visitor, queue[above]):
            break
        queue[place] = queue[above]
        place = above
    queue[place] = visitor


@compiled_noinline
def _next(queue: Counts, waiting: Counts, rated_at: Counts) -> int:
    """Take the visitor out of the heap whose rating comes next."""
    earliest = queue[0]
    waiting[0] -= 1
    count = waiting[0]
    last, place = queue[count], 0
    while 2 * place + 1 < count:
        below = 2 * place + 1
        if below + 1 < count and _before(rated_at, queue[below + 1], queue[below]):
            below += 1
        if not _before(rated_at, queue[below], last):
            break
        queue[place] = queue[below]
        place = below
    queue[place] = last
    return int(earliest)
