"""Visitors of segments in the loop: who arrives, what they see, and where their rating is recorded.

If the principal knows the segments, each rating is recorded twice: in the ledger of all visitors,
and in that of its segment. The functions take the places of those of `delivery`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.delivery import IMMEDIATE, LATE, Delivery, DeliveryParams
from entice.engine.pending_ratings import EMPTY, PendingRatings
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.model.ledger import Ledger
from entice.model.segments import (
    SegmentLedgers,
    clear_segments,
    new_segment_ledgers,
    record_in_segment,
    see_segment,
)
from entice.model.step import offer
from entice.policies import CustomPolicy, Policy
from entice.policies.policy import no_update
from entice.rng import Stream
from entice.worlds.players import Players
from entice.worlds.segments import Segments, draw_segment

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class SegmentWorkspace(NamedTuple):
    """Arrays of a replication whose visitors belong to segments."""

    cumulative: Floats
    """The cumulative shares of the segments."""
    current: Counts
    """One element: the segment of the round's visitor."""
    ledgers: SegmentLedgers
    seen: Ledger
    """The averages that the round's visitor sees; counts and sums are those of all visitors."""
    counts: Floats
    """The effective counts of these averages."""


class SegmentRatings(NamedTuple):
    """The arrays of `undelivered` if the principal knows the segments."""

    workspace: SegmentWorkspace
    pending: Any
    """Those of late ratings; empty if ratings are immediate."""
    segment: Counts
    """The segment of each slot of `pending`."""


def new_segment_workspace(segments: Segments, ledger: Ledger) -> SegmentWorkspace:
    """Allocate the arrays for a world of segments, beside the ledger of all visitors."""
    arms = ledger.pulls.shape[0]
    return SegmentWorkspace(
        segments.cumulative_shares(),
        np.zeros(1, np.int64),
        new_segment_ledgers(len(segments.shares), arms),
        ledger._replace(means=np.zeros(arms), greedy=np.zeros(1, np.int64), rival=np.zeros(1)),
        np.zeros(arms),
    )


# How a round is decided. Each function returns the number of the first arm of the visitor's segment
# among the arms of all segments, and the result of `model.step.offer`.


@compiled
def offer_without_segments(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    effective_pulls: Counts,
    displayed: Floats,
    memory: Floats,
    params: tuple[Any, ...],
    policy_stream: Stream,
    each_arm_once: bool,
    segments: tuple[()],
    stream: Stream,
) -> tuple[int, int, int, float]:
    """Decide a round of a study without segments."""
    arm, greedy, payment = offer(
        select, display, payment_rule, t, ledger, effective_pulls, displayed, memory, params,
        policy_stream, each_arm_once,
    )  # fmt: skip
    return 0, arm, greedy, payment


@compiled
def offer_to_unknown_segment(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    effective_pulls: Counts,
    displayed: Floats,
    memory: Floats,
    params: tuple[Any, ...],
    policy_stream: Stream,
    each_arm_once: bool,
    segments: SegmentWorkspace,
    stream: Stream,
) -> tuple[int, int, int, float]:
    """Draw the visitor's segment, and decide the round without it."""
    segment = draw_segment(segments.cumulative, stream)
    arm, greedy, payment = offer(
        select, display, payment_rule, t, ledger, effective_pulls, displayed, memory, params,
        policy_stream, each_arm_once,
    )  # fmt: skip
    return segment * ledger.pulls.shape[0], arm, greedy, payment


@compiled
def offer_to_known_segment(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    effective_pulls: Counts,
    displayed: Floats,
    memory: Floats,
    params: tuple[Any, ...],
    policy_stream: Stream,
    each_arm_once: bool,
    segments: SegmentWorkspace,
    stream: Stream,
) -> tuple[int, int, int, float]:
    """Draw the visitor's segment, and decide the round by the averages that it sees."""
    segment = draw_segment(segments.cumulative, stream)
    segments.current[0] = segment
    see_segment(segments.ledgers, ledger, segment, segments.seen, segments.counts)
    arm, greedy, payment = offer(
        select, display, payment_rule, t, segments.seen, segments.counts, displayed, memory, params,
        policy_stream, each_arm_once,
    )  # fmt: skip
    return segment * ledger.pulls.shape[0], arm, greedy, payment


def offer_function(arms: object) -> Callable[..., tuple[int, int, int, float]]:
    """Return the function that decides the rounds of a study with these arms."""
    if not isinstance(arms, Segments):
        return offer_without_segments
    return offer_to_known_segment if arms.known else offer_to_unknown_segment


def check_segments(where: str, policy: Policy, arms: object, players: Players) -> None:
    """Reject a policy that cannot decide by the averages and counts of a known segment.

    The memory of `CustomPolicy` is the user's: it is the same for all segments.
    """
    if not (isinstance(arms, Segments) and arms.known):
        return
    kernel, rule = policy.kernel(len(arms.true_means())), ""
    if kernel.update is not no_update and not isinstance(policy, CustomPolicy):
        rule = f"is {policy.label}, which remembers ratings that may be from other segments"
    elif kernel.counts_in_flight and not players.rates_immediately:
        rule = f"is {policy.label}, which counts pulls in flight of all segments together"
    if rule:
        todo = "Use UCB or another policy of counts and averages, or Segments(…, known=False)."
        raise InputError(where, rule, todo=todo)


# How ratings reach the principal: as in `delivery`, and then the segment's ledger.

_clear_now, _receive_now, _deliver_now = IMMEDIATE
_clear_late, _receive_late, _deliver_late = LATE


@compiled
def _clear_immediate(
    undelivered: SegmentRatings, all_pulls: Counts, effective_pulls: Counts
) -> None:
    clear_segments(undelivered.workspace.ledgers)


@compiled
def _nothing_due(
    update: Callable[..., None],
    t: int,
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    effective_pulls: Counts,
    undelivered: SegmentRatings,
) -> int:
    return 0


@compiled
def _deliver_immediately(
    update: Callable[..., None],
    draw_delay: Callable[..., float],
    t: int,
    arm: int,
    payment: float,
    feedback: float,
    responds: bool,
    ledger: Ledger,
    memory: Floats,
    policy_params: tuple[Any, ...],
    params: tuple[()],
    undelivered: SegmentRatings,
    all_pulls: Counts,
    stream: Stream,
) -> tuple[int, float, float]:
    workspace = undelivered.workspace
    record_in_segment(workspace.ledgers, workspace.current[0], arm, feedback)
    return _deliver_now(
        update, draw_delay, t, arm, payment, feedback, responds, ledger, memory, policy_params,
        params, undelivered.pending, all_pulls, stream,
    )  # fmt: skip


IMMEDIATE_IN_SEGMENTS = Delivery(_clear_immediate, _nothing_due, _deliver_immediately)
"""Every rating is recorded in its own round."""


@compiled
def _clear_pending(undelivered: SegmentRatings, all_pulls: Counts, effective_pulls: Counts) -> None:
    clear_segments(undelivered.workspace.ledgers)
    _clear_late(undelivered.pending, all_pulls, effective_pulls)


@compiled
def _receive_pending(
    update: Callable[..., None],
    t: int,
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    effective_pulls: Counts,
    undelivered: SegmentRatings,
) -> int:
    """Record the ratings due in round t, in the order of their pulls."""
    pending: PendingRatings = undelivered.pending
    slot = pending.first[t % pending.first.shape[0]]
    while slot != EMPTY:
        record_in_segment(
            undelivered.workspace.ledgers, undelivered.segment[slot], pending.arm[slot],
            pending.feedback[slot],
        )  # fmt: skip
        slot = pending.next_slot[slot]
    return _receive_late(update, t, ledger, memory, params, effective_pulls, pending)


@compiled
def _deliver_pending(
    update: Callable[..., None],
    draw_delay: Callable[..., float],
    t: int,
    arm: int,
    payment: float,
    feedback: float,
    responds: bool,
    ledger: Ledger,
    memory: Floats,
    policy_params: tuple[Any, ...],
    params: DeliveryParams,
    undelivered: SegmentRatings,
    all_pulls: Counts,
    stream: Stream,
) -> tuple[int, float, float]:
    """Draw when the rating will arrive, if at all, and keep its segment."""
    undelivered.segment[t % undelivered.segment.shape[0]] = undelivered.workspace.current[0]
    return _deliver_late(
        update, draw_delay, t, arm, payment, feedback, responds, ledger, memory, policy_params,
        params, undelivered.pending, all_pulls, stream,
    )  # fmt: skip


LATE_IN_SEGMENTS = Delivery(_clear_pending, _receive_pending, _deliver_pending)
"""Ratings are late, or lost."""


@compiled
def count_if_rated_in_segment(
    rated: Floats,
    instance: tuple[Any, ...],
    arms_memory: Floats,
    arm: int,
    reward: float,
    feedback: float,
) -> None:
    """Count a pull whose rating comes, as `kernel.count_if_rated` does."""
    if not np.isnan(feedback):
        rated[0] += 1.0
        rated[1] += reward - arms_memory[-1]
