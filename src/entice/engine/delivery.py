"""How ratings reach the principal: at once, or late and with losses.

Each way is three functions that the kernel takes: `clear_undelivered`, `receive` at the start of a
round and `deliver` at its end. They share one tuple of arrays, `undelivered`, which is empty if
ratings are immediate.

At the start of a round, the ages of the pulls in flight are those of the round, and include the
pull of the last round. Then the due ratings are recorded. So the age of a pull is the delay that
its rating would have if it arrived now.
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


class CountedRatings(NamedTuple):
    """The arrays of late delivery to a policy that counts pulls in flight."""

    pending: PendingRatings
    flight: InFlight
    """Pulls in flight; times are rounds."""


@compiled
def _nothing_to_clear(undelivered: tuple[()], all_pulls: Counts, effective_pulls: Counts) -> None:
    pass


@compiled
def _nothing_due(
    update: Callable[..., None],
    t: int,
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    effective_pulls: Counts,
    undelivered: tuple[()],
) -> int:
    return 0


@compiled
def _deliver_now(
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
    undelivered: tuple[()],
    all_pulls: Counts,
    stream: Stream,
) -> tuple[int, float, float]:
    settle(update, ledger, memory, policy_params, arm, payment, feedback)
    return 1, feedback, t + 1.0


IMMEDIATE = Delivery(_nothing_to_clear, _nothing_due, _deliver_now)
"""Every rating is recorded in its own round."""


@compiled
def _clear_late(
    pending: PendingRatings, all_pulls: Counts, effective_pulls: npt.NDArray[Any]
) -> None:
    all_pulls[:] = 0
    pending.first[:] = EMPTY


@compiled
def _receive_late(
    update: Callable[..., None],
    t: int,
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    effective_pulls: npt.NDArray[Any],
    pending: PendingRatings,
) -> int:
    """Record the ratings due in round t, in the order of their pulls."""
    ratings = 0
    slot = pop_due(pending, t)
    while slot != EMPTY:
        settle(
            update, ledger, memory, params, pending.arm[slot], pending.payment[slot],
            pending.feedback[slot],
        )  # fmt: skip
        ratings += 1
        slot = pending.next_slot[slot]
    return ratings


@compiled
def _deliver_late(
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
    pending: PendingRatings,
    all_pulls: Counts,
    stream: Stream,
) -> tuple[int, float, float]:
    """Draw when the rating will arrive, if at all: `responds` tells whether the player rates."""
    all_pulls[arm] += 1
    delay = np.inf
    if responds and not (params.loss > 0.0 and uniform(stream) < params.loss):
        delay = draw_delay(params.delay, stream)
    if not delay < params.rating_window:
        feedback, delay = np.nan, np.inf
    elif delay < pending.first.shape[0]:
        schedule_rating(pending, t, int(delay), arm, payment, feedback)
    return 0, feedback, t + 1.0 + np.floor(delay)


LATE = Delivery(_clear_late, _receive_late, _deliver_late)
"""Ratings are late, or lost."""


@compiled
def _clear_counted(counted: CountedRatings, all_pulls: Counts, effective_pulls: Floats) -> None:
    _clear_late(counted.pending, all_pulls, effective_pulls)
    clear_in_flight(counted.flight)
    effective_pulls[:] = 0


@compiled
def _receive_counted(
    update: Callable[..., None],
    t: int,
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    effective_pulls: Floats,
    counted: CountedRatings,
) -> int:
    """Record the ratings due in round t, and count those still expected."""
    pending, flight = counted.pending, counted.flight
    slot = pending.first[t % pending.first.shape[0]]
    while slot != EMPTY:
        remove_pull(flight, pending.round_pulled[slot], pending.arm[slot], RATED)
        slot = pending.next_slot[slot]
    ratings = _receive_late(update, t, ledger, memory, params, effective_pulls, counted.pending)
    count_expected(flight, ledger.pulls, effective_pulls)
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
    counted: CountedRatings,
    all_pulls: Counts,
    stream: Stream,
) -> tuple[int, float, float]:
    """Draw when the rating will arrive, and count the pull as in flight."""
    delivered = _deliver_late(
        update, draw_delay, t, arm, payment, feedback, responds, ledger, memory, policy_params,
        params, counted.pending, all_pulls, stream,
    )  # fmt: skip
    update_ages(counted.flight, t + 1)
    add_pull(counted.flight, t, t + 1, arm)
    return delivered


LATE_COUNTED = Delivery(_clear_counted, _receive_counted, _deliver_counted)
"""Ratings are late, and the policy counts those that it still expects."""
