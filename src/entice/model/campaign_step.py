"""The compiled calls that the service and the planner make for one decision of a campaign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled_noinline
from entice.model.in_flight import (
    InFlight,
    add_pull,
    count_all_in_flight,
    count_expected,
    mark_awaited_arms,
    remove_pull,
    update_ages,
)
from entice.model.ledger import Ledger, set_arm_ratings
from entice.model.overlap import NOT_DRAWN, draw_overlap, offer_drawn_arm
from entice.model.probe import draw_probe
from entice.model.segments import (
    NO_SEGMENT,
    CampaignSegments,
    count_expected_by_segments,
    mark_awaited_by_all,
    see_as_visitor,
)
from entice.model.step import NO_SUCH_ARM, constrained_offer
from entice.rng import OVERLAP, POLICY, PROBE, Stream, seed_stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

EXPECTED_RATINGS = 2
"""First version of the rules under which pulls in flight count as expected ratings."""


@compiled_noinline
def decide(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    seed: int,
    t: int,
    now: int,
    rules_version: int,
    ledger: Ledger,
    segments: CampaignSegments,
    flight: InFlight,
    open_pulls: Counts,
    memory: Floats,
    params: tuple[Any, ...],
    max_payment: float,
    limit_slot: int,
    probe_share: float,
    probe_amounts: Floats,
    overlap: float,
    eligible: Bools,
    display_override: Floats,
    displayed: Floats,
    permitted: Bools,
    policy_means: Floats,
    policy_counts: Floats,
    effective_pulls: Floats,
    awaited: Bools,
    stream: Stream,
) -> tuple[int, int, float, int, int, int, float, int]:
    """Make decision t of a campaign. Its random numbers depend on the seed and t only.

    `segments.current` is the segment of the visitor, whose averages decide. The cells of pulls in
    flight are then those of `SegmentLedgers`. Without segments, the cells are arms.
    `now` is the time of the decision; it determines the ages of the pulls in flight.
    `rules_version` is the campaign's version of the rules: before `EXPECTED_RATINGS`, each of the
    `open_pulls` counted in full. `probe_share` and `probe_amounts` are the settings of the probe.
    `overlap` is the share of decisions in which the arm is drawn from the permitted ones.

    Returns the values that `constrained_offer` returns; the probe's coin and amount, whether or not
    the caller uses them; and the arm that the policy chose, from which a drawn arm may differ.
    """
    seen, strength = see_as_visitor(segments, ledger, effective_pulls)
    segment = segments.current[0]
    if segment != NO_SEGMENT:
        awaited[:] = False
        if rules_version >= EXPECTED_RATINGS:
            update_ages(flight, now)
            cells = segments.ledgers.pulls.reshape(-1)
            count_expected(flight, cells, segments.cell_counts)
            mark_awaited_by_all(segments.cell_counts, ledger.pulls, awaited)
            count_expected_by_segments(segments.cell_counts, segment, strength, effective_pulls)
    elif rules_version >= EXPECTED_RATINGS:
        update_ages(flight, now)
        count_expected(flight, ledger.pulls, effective_pulls)
        mark_awaited_arms(ledger.pulls, effective_pulls, awaited)
    else:
        count_all_in_flight(t, ledger.pulls, open_pulls, effective_pulls, awaited)
    seed_stream(stream, seed, t, POLICY)
    arm, players_choice, payment, unaffordable, first = constrained_offer(
        select, display, payment_rule, t, seen, effective_pulls, awaited, memory, params, stream,
        max_payment, limit_slot, eligible, display_override, displayed, permitted, policy_means,
        policy_counts,
    )  # fmt: skip
    seed_stream(stream, seed, t, PROBE)
    coin, amount = draw_probe(probe_share, probe_amounts, stream)
    chosen = arm
    if overlap > 0.0 and players_choice != NO_SUCH_ARM:
        seed_stream(stream, seed, t, OVERLAP)
        drawn = draw_overlap(overlap, permitted, stream)
        if drawn not in (NOT_DRAWN, chosen):
            arm, players_choice, payment = offer_drawn_arm(displayed, first, drawn)
    return arm, players_choice, payment, unaffordable, first, coin, amount, chosen


@compiled_noinline
def begin_pull(flight: InFlight, n: int, now: int, cell: int) -> None:
    """Add offer n to the pulls in flight. The cell is its arm, or its arm and segment."""
    update_ages(flight, now)
    add_pull(flight, n, now, cell)


@compiled_noinline
def end_pull(flight: InFlight, n: int, now: int, cell: int, outcome: int) -> None:
    """Remove offer n from the pulls in flight; see `remove_pull`."""
    update_ages(flight, now)
    remove_pull(flight, n, cell, outcome)


@compiled_noinline
def record_rating(
    update: Callable[..., None],
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    arm: int,
    pulls: int,
    total: float,
    mean: float,
    new: bool,
    payment: float,
    feedback: float,
) -> None:
    """Set an arm's ratings and, if one of them is new, update the policy's memory with it."""
    set_arm_ratings(ledger, arm, pulls, total, mean)
    if new:
        update(memory, params, arm, payment, feedback)


@compiled_noinline
def displayed_averages(
    display: Callable[..., int],
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    displayed: Floats,
) -> int:
    """Fill `displayed` with the averages that players see, and return the arm they would pick."""
    for i in range(displayed.shape[0]):
        displayed[i] = ledger.means[i]
    return display(ledger, memory, params, displayed)
