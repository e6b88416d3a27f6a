"""How ratings reach the principal: at once, or late and with losses.

Each way is three functions that the kernel takes: `clear_undelivered`, `receive` at the start of a
round and `deliver` at its end. They share one tuple of arrays, `undelivered`.

At the start of a round, the ages of the pulls in flight are those of the round, and include the
pull of the last round. Then the due ratings are recorded. So the age of a pull is the delay that
its rating would have if it arrived now.

A `Recorder` records the ratings. It numbers the cells that ratings and pulls in flight are counted
by: arms or, if the principal knows visitors' segments, arms and segments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.pending_ratings import EMPTY, PendingRatings, pop_due, schedule_rating
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
from entice.model.step import settle
from entice.rng import Stream, uniform

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Delivery(NamedTuple):
    """The functions of one way in which ratings reach the principal."""

    clear_undelivered: Callable[..., None]
    """Called before each replication, with the arrays that the others fill."""
    receive: Callable[..., int]
    """Record the ratings that are due, and return their number."""
    deliver: Callable[..., tuple[int, float, float]]
    """Deliver the rating of a round, or send it on its way.

    Returns the number of ratings recorded at once, the feedback (nan if it will never arrive) and
    the round from which it is visible."""


class DeliveryParams(NamedTuple):
    """The settings of late delivery."""

    loss: float
    """The probability that a rating never arrives."""
    rating_window: float
    """Ratings with at least this delay never arrive; infinite if there is no window."""
    delay: tuple[Any, ...]
    """The parameters of `draw_delay`."""


class Recorder(NamedTuple):
    """The functions that record ratings. `records` are their arrays."""

    clear: Callable[..., None]
    """`clear(records)`: called before each replication."""
    cell: Callable[..., int]
    """`cell(records, arm)`: the cell of the round's visitor and an arm."""
    settle: Callable[..., None]
    """`settle(update, records, ledger, memory, params, cell, payment, feedback)`."""
    count_cells: Callable[..., None]
    """`count_cells(records, flight, ledger, effective_pulls)`: also those still expected."""


class Undelivered(NamedTuple):
    """The arrays of a delivery. Those that it does not need are empty tuples."""

    records: Any
    """Those of the recorder."""
    pending: Any
    """`PendingRatings` that are late. Their arms are cells."""
    flight: Any
    """Pulls `InFlight` of each cell, for a policy that counts them; times are rounds."""


class Deliveries(NamedTuple):
    """The ways in which ratings reach a principal."""

    immediate: Delivery
    """Every rating is recorded in its own round."""
    late: Delivery
    """Ratings are late, or lost."""
    late_counted: Delivery
    """Ratings are late, and the policy counts those that it still expects."""


def new_deliveries(recorder: Recorder) -> Deliveries:
    """Return the ways to deliver ratings to a recorder."""
    clear_records, cell_of, settle_cell, count_cells = recorder

    @compiled
    def clear_immediate(
        undelivered: Undelivered, all_pulls: Counts, effective_pulls: npt.NDArray[Any]
    ) -> None:
        clear_records(undelivered.records)

    @compiled
    def nothing_due(
        update: Callable[..., None],
        t: int,
        ledger: Ledger,
        memory: Floats,
        params: tuple[Any, ...],
        effective_pulls: npt.NDArray[Any],
        undelivered: Undelivered,
    ) -> int:
        return 0

    @compiled
    def deliver_now(
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
        undelivered: Undelivered,
        all_pulls: Counts,
        stream: Stream,
    ) -> tuple[int, float, float]:
        records = undelivered.records
        cell = cell_of(records, arm)
        settle_cell(update, records, ledger, memory, policy_params, cell, payment, feedback)
        return 1, feedback, t + 1.0

    @compiled
    def clear_late(
        undelivered: Undelivered, all_pulls: Counts, effective_pulls: npt.NDArray[Any]
    ) -> None:
        clear_records(undelivered.records)
        all_pulls[:] = 0
        undelivered.pending.first[:] = EMPTY

    @compiled
    def receive_late(
        update: Callable[..., None],
        t: int,
        ledger: Ledger,
        memory: Floats,
        params: tuple[Any, ...],
        effective_pulls: npt.NDArray[Any],
        undelivered: Undelivered,
    ) -> int:
        """Record the ratings due in round t, in the order of their pulls."""
        ratings, pending = 0, undelivered.pending
        slot = pop_due(pending, t)
        while slot != EMPTY:
            settle_cell(
                update, undelivered.records, ledger, memory, params, pending.arm[slot],
                pending.payment[slot], pending.feedback[slot],
            )  # fmt: skip
            ratings += 1
            slot = pending.next_slot[slot]
        return ratings

    @compiled
    def deliver_late(
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
        undelivered: Undelivered,
        all_pulls: Counts,
        stream: Stream,
    ) -> tuple[int, float, float]:
        """Draw when the rating will arrive, if at all: `responds` is whether the player rates."""
        pending: PendingRatings = undelivered.pending
        all_pulls[arm] += 1
        delay = np.inf
        if responds and not (params.loss > 0.0 and uniform(stream) < params.loss):
            delay = draw_delay(params.delay, stream)
        if not delay < params.rating_window:
            feedback, delay = np.nan, np.inf
        elif delay < pending.first.shape[0]:
            cell = cell_of(undelivered.records, arm)
            schedule_rating(pending, t, int(delay), cell, payment, feedback)
        return 0, feedback, t + 1.0 + np.floor(delay)

    @compiled
    def clear_counted(
        undelivered: Undelivered, all_pulls: Counts, effective_pulls: npt.NDArray[Any]
    ) -> None:
        clear_late(undelivered, all_pulls, effective_pulls)
        clear_in_flight(undelivered.flight)

    @compiled
    def receive_counted(
        update: Callable[..., None],
        t: int,
        ledger: Ledger,
        memory: Floats,
        params: tuple[Any, ...],
        effective_pulls: npt.NDArray[Any],
        undelivered: Undelivered,
    ) -> int:
        """Record the ratings due in round t, and count those still expected."""
        pending, flight = undelivered.pending, undelivered.flight
        slot = pending.first[t % pending.first.shape[0]]
        while slot != EMPTY:
            remove_pull(flight, pending.round_pulled[slot], pending.arm[slot], RATED)
            slot = pending.next_slot[slot]
        ratings = receive_late(update, t, ledger, memory, params, effective_pulls, undelivered)
        count_cells(undelivered.records, flight, ledger, effective_pulls)
        return ratings

    @compiled
    def deliver_counted(
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
        undelivered: Undelivered,
        all_pulls: Counts,
        stream: Stream,
    ) -> tuple[int, float, float]:
        """Draw when the rating will arrive, and count the pull as in flight."""
        delivered = deliver_late(
            update, draw_delay, t, arm, payment, feedback, responds, ledger, memory,
            policy_params, params, undelivered, all_pulls, stream,
        )  # fmt: skip
        update_ages(undelivered.flight, t + 1)
        add_pull(undelivered.flight, t, t + 1, cell_of(undelivered.records, arm))
        return delivered

    return Deliveries(
        Delivery(clear_immediate, nothing_due, deliver_now),
        Delivery(clear_late, receive_late, deliver_late),
        Delivery(clear_counted, receive_counted, deliver_counted),
    )


@compiled
def _nothing_to_clear(records: tuple[()]) -> None:
    pass


@compiled
def _arm_itself(records: tuple[()], arm: int) -> int:
    return arm


@compiled
def _settle_arm(
    update: Callable[..., None],
    records: tuple[()],
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    cell: int,
    payment: float,
    feedback: float,
) -> None:
    settle(update, ledger, memory, params, cell, payment, feedback)


@compiled
def _count_arms(
    records: tuple[()], flight: InFlight, ledger: Ledger, effective_pulls: Floats
) -> None:
    count_expected(flight, ledger.pulls, effective_pulls)


FOR_ALL_VISITORS = new_deliveries(
    Recorder(_nothing_to_clear, _arm_itself, _settle_arm, _count_arms)
)
"""One ledger for all visitors. A cell is an arm."""
