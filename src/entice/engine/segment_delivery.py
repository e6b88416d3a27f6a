"""Delivery of ratings to a principal that knows visitors' segments.

Each rating is recorded twice: in the ledger of all visitors, as in `delivery`, and in that of its
segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine import delivery
from entice.engine.delivery import Delivery, DeliveryParams
from entice.engine.pending_ratings import EMPTY, PendingRatings
from entice.engine.segments import SegmentWorkspace
from entice.jit.decorators import compiled
from entice.model.in_flight import (
    RATED,
    InFlight,
    add_pull,
    clear_in_flight,
    count_expected,
    remove_pull,
    update_ages,
)
from entice.model.ledger import Ledger
from entice.model.segments import clear_segments, record_in_segment
from entice.rng import Stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class SegmentRatings(NamedTuple):
    """The arrays of `undelivered` if the principal knows the segments."""

    workspace: SegmentWorkspace
    pending: Any
    """Those of late ratings; empty if ratings are immediate."""
    segment: Counts
    """The segment of each slot of `pending`."""


class CountedSegmentRatings(NamedTuple):
    """The same for a policy that counts pulls in flight."""

    workspace: SegmentWorkspace
    pending: PendingRatings
    segment: Counts
    flight: InFlight
    """Pulls in flight of each segment and arm; times are rounds."""
    cell_pulls: Counts
    """A view of the segments' counts, with one dimension."""


def new_segment_ratings(
    workspace: SegmentWorkspace, pending: Any, slots: int, flight: InFlight | None
) -> SegmentRatings | CountedSegmentRatings:
    """Allocate the arrays of `undelivered`."""
    segment = np.zeros(slots, np.int64)
    if flight is None:
        return SegmentRatings(workspace, pending, segment)
    cell_pulls = workspace.ledgers.pulls.reshape(-1)
    return CountedSegmentRatings(workspace, pending, segment, flight, cell_pulls)


_deliver_now = delivery.IMMEDIATE.deliver
_clear_late, _receive_late, _deliver_late = delivery.LATE


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
    record_in_segment(workspace.ledgers, int(workspace.current[0]), arm, feedback)
    return _deliver_now(
        update, draw_delay, t, arm, payment, feedback, responds, ledger, memory, policy_params,
        params, undelivered.pending, all_pulls, stream,
    )  # fmt: skip


IMMEDIATE = Delivery(_clear_immediate, _nothing_due, _deliver_immediately)
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
    effective_pulls: npt.NDArray[Any],
    undelivered: SegmentRatings | CountedSegmentRatings,
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
    undelivered: SegmentRatings | CountedSegmentRatings,
    all_pulls: Counts,
    stream: Stream,
) -> tuple[int, float, float]:
    """Draw when the rating will arrive, if at all, and keep its segment."""
    undelivered.segment[t % undelivered.segment.shape[0]] = int(undelivered.workspace.current[0])
    return _deliver_late(
        update, draw_delay, t, arm, payment, feedback, responds, ledger, memory, policy_params,
        params, undelivered.pending, all_pulls, stream,
    )  # fmt: skip


LATE = Delivery(_clear_pending, _receive_pending, _deliver_pending)
"""Ratings are late, or lost."""


@compiled
def _clear_counted(
    undelivered: CountedSegmentRatings, all_pulls: Counts, effective_pulls: Floats
) -> None:
    clear_segments(undelivered.workspace.ledgers)
    _clear_late(undelivered.pending, all_pulls, effective_pulls)
    clear_in_flight(undelivered.flight)


@compiled
def _receive_counted(
    update: Callable[..., None],
    t: int,
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    effective_pulls: Floats,
    undelivered: CountedSegmentRatings,
) -> int:
    """Record the ratings due in round t, and count those still expected."""
    pending, arms = undelivered.pending, ledger.pulls.shape[0]
    slot = pending.first[t % pending.first.shape[0]]
    while slot != EMPTY:
        cell = undelivered.segment[slot] * arms + pending.arm[slot]
        remove_pull(undelivered.flight, pending.round_pulled[slot], cell, RATED)
        slot = pending.next_slot[slot]
    ratings = _receive_pending(update, t, ledger, memory, params, effective_pulls, undelivered)
    count_expected(undelivered.flight, undelivered.cell_pulls, undelivered.workspace.cell_counts)
    return ratings


@compiled
def _deliver_counted(
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
    undelivered: CountedSegmentRatings,
    all_pulls: Counts,
    stream: Stream,
) -> tuple[int, float, float]:
    """Draw when the rating will arrive, and count the pull as in flight."""
    delivered = _deliver_pending(
        update, draw_delay, t, arm, payment, feedback, responds, ledger, memory, policy_params,
        params, undelivered, all_pulls, stream,
    )  # fmt: skip
    cell = int(undelivered.workspace.current[0]) * ledger.pulls.shape[0] + arm
    update_ages(undelivered.flight, t + 1)
    add_pull(undelivered.flight, t, t + 1, cell)
    return delivered


LATE_COUNTED = Delivery(_clear_counted, _receive_counted, _deliver_counted)
"""Ratings are late, and the policy counts those that it still expects."""
