"""Pending ratings in a simulated world: given but not yet seen, in one list per due round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

EMPTY = -1
"""The slot number that stands for no rating."""


class PendingRatings(NamedTuple):
    """Ratings that will be seen later, in as many slots as the longest delay has rounds.

    There is one pull per round, so a slot is free again by the time it is reused.
    """

    first: Counts
    """For each of the coming rounds, the slot of the first rating due in it."""
    last: Counts
    """For each of the coming rounds, the slot of the last rating due in it."""
    next_slot: Counts
    """For each slot, that of the next rating due in the same round, in the order of pulls."""
    round_pulled: Counts
    """The round of the pull."""
    arm: Counts
    """The arm, or another cell of `delivery`."""
    payment: Floats
    feedback: Floats


def new_pending_ratings(slots: int) -> PendingRatings:
    """Allocate slots for ratings that are seen after at most `slots` rounds."""
    first, last, next_slot, round_pulled, arm = (np.full(slots, EMPTY) for _ in range(5))
    return PendingRatings(
        first, last, next_slot, round_pulled, arm, np.zeros(slots), np.zeros(slots)
    )


@compiled
def schedule_rating(
    pending: PendingRatings, t: int, delay: int, arm: int, payment: float, feedback: float
) -> None:
    """Schedule the rating of round t for round t + 1 + `delay`."""
    slots = pending.first.shape[0]
    slot = t % slots
    due_slot = slot + 1 + delay
    if due_slot >= slots:  # below 2 · slots; a second modulo would cost more than everything else
        due_slot -= slots
    pending.next_slot[slot] = EMPTY
    pending.round_pulled[slot] = t
    pending.arm[slot] = arm
    pending.payment[slot] = payment
    pending.feedback[slot] = feedback
    if pending.first[due_slot] == EMPTY:
        pending.first[due_slot] = slot
    else:
        pending.next_slot[pending.last[due_slot]] = slot
    pending.last[due_slot] = slot


@compiled
def pop_due(pending: PendingRatings, t: int) -> int:
    """Return the slot of the first rating due in round t, or `EMPTY`, and clear the list."""
    due_slot = t % pending.first.shape[0]
    slot: int = pending.first[due_slot]
    pending.first[due_slot] = EMPTY
    return slot
