"""Visitors of segments in the loop: who arrives, and by which averages their round is decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.delivery import Recorder, new_deliveries
from entice.jit.cache_aligned import cache_aligned
from entice.jit.decorators import compiled
from entice.model.in_flight import InFlight, count_expected
from entice.model.ledger import Ledger, new_ledger
from entice.model.segments import (
    SegmentLedgers,
    clear_segments,
    count_expected_by_segments,
    new_segment_ledgers,
    record_in_segment,
    see_segment,
)
from entice.model.step import offer, settle
from entice.policies import Policy
from entice.policies import segments as policies_in_segments
from entice.rng import Stream
from entice.worlds.segments import Segments, draw_segment

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class SegmentWorkspace(NamedTuple):
    """Arrays of a replication whose visitors belong to known segments."""

    cumulative: Floats
    """The cumulative shares of the segments."""
    stream: Stream
    """The stream that segments are drawn from."""
    current: Floats
    """One element: the segment of the round's visitor; the last one of `arms_memory`."""
    ledgers: SegmentLedgers
    seen: Ledger
    """The averages that the round's visitor sees; counts and sums are those of all visitors."""
    counts: Floats
    """The effective counts of these averages."""
    cell_counts: Floats
    """The ratings of each arm and segment, with those expected from pulls in flight. Empty if the
    policy does not count them."""


def new_segment_workspace(
    segments: Segments, ledger: Ledger, stream: Stream, arms_memory: Floats, *, counting: bool
) -> SegmentWorkspace:
    """Allocate the arrays for known segments, beside the ledger of all visitors."""
    arms, count = ledger.pulls.shape[0], len(segments.shares)
    own: SegmentWorkspace = cache_aligned(
        SegmentWorkspace(
            segments.cumulative_shares(),
            stream,
            arms_memory,
            new_segment_ledgers(count, arms),
            new_ledger(arms, 0.0),
            np.zeros(arms),
            np.zeros(count * arms if counting else 0),
        )
    )
    seen = own.seen._replace(pulls=ledger.pulls, sums=ledger.sums)
    return own._replace(stream=stream, current=arms_memory[-1:], seen=seen)


@compiled
def offer_to_known_segment(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    segments: SegmentWorkspace,
    displayed: Floats,
    memory: Floats,
    params: tuple[Any, ...],
    stream: Stream,
    each_arm_once: bool,
) -> tuple[int, int, float]:
    """Draw the visitor's segment, and decide the round as `offer` does, by what the segment sees.

    Takes the place of `offer`, with the arrays of the segments instead of counts.
    """
    segment = draw_segment(segments.cumulative, segments.stream)
    segments.current[0] = segment
    strength = see_segment(segments.ledgers, ledger, segment, segments.seen, segments.counts)
    if segments.cell_counts.shape[0] > 0:
        count_expected_by_segments(segments.cell_counts, segment, strength, segments.counts)
    return offer(
        select, display, payment_rule, t, segments.seen, segments.counts, displayed, memory, params,
        stream, each_arm_once,
    )  # fmt: skip


@compiled
def _clear_ledgers(segments: SegmentWorkspace) -> None:
    clear_segments(segments.ledgers)


@compiled
def _current_cell(segments: SegmentWorkspace, arm: int) -> int:
    segment = int(segments.current[0])
    return arm * int(segments.ledgers.pulls.shape[1]) + segment


@compiled
def _settle_cell(
    update: Callable[..., None],
    segments: SegmentWorkspace,
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    cell: int,
    payment: float,
    feedback: float,
) -> None:
    """Record a rating twice: in the ledger of its segment, and in that of all visitors."""
    arm, segment = divmod(cell, segments.ledgers.pulls.shape[1])
    record_in_segment(segments.ledgers, segment, arm, feedback)
    settle(update, ledger, memory, params, arm, payment, feedback)


@compiled
def _count_cells(
    segments: SegmentWorkspace, flight: InFlight, ledger: Ledger, effective_pulls: SegmentWorkspace
) -> None:
    count_expected(flight, segments.ledgers.pulls.reshape(-1), segments.cell_counts)


FOR_SEGMENTS = new_deliveries(Recorder(_clear_ledgers, _current_cell, _settle_cell, _count_cells))
"""A ledger for each known segment. A cell is an arm and a segment, as in `SegmentLedgers`."""


def offer_function(arms: object) -> Callable[..., tuple[int, int, float]]:
    """Return the function that decides the rounds of a study with these arms."""
    return offer_to_known_segment if isinstance(arms, Segments) and arms.known else offer


def check_segments(where: str, policy: Policy, arms: object) -> None:
    """Reject a policy that cannot decide by the averages and counts of a known segment."""
    if isinstance(arms, Segments) and arms.known:
        count, todo = len(arms.true_means()), "Segments(…, known=False)"
        policies_in_segments.check_segments(where, policy, count, todo)


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
        rated[1] += reward - arms_memory[-2]
