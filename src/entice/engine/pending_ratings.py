"""Ratings under way in a simulated world: a list of them for each round in which some are due."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

NONE = -1
"""Stands for the place of a rating where there is none."""


class PendingRatings(NamedTuple):
    """Ratings that will be seen, in as many places as a rating may be under way rounds.

    There is a pull each round, so its place is free again by the time that the next one needs it.
    """

    first: Counts
    """For each of the coming rounds, the place of the first rating that is due …"""
    last: Counts
    """… and of the last one. They follow each other in the order of their pulls."""
    following: Counts
    """For each place, that of the next rating which is due in the same round."""
    pulled: Counts
    """The round of the pull."""
    arm: Counts
    payment: Floats
    feedback: Floats


def new_pending_ratings(places: int) -> PendingRatings:
    """Make room for ratings that are seen after at most so many rounds."""
    first, last, following, pulled, arm = (np.full(places, NONE) for _ in range(5))
    return PendingRatings(first, last, following, pulled, arm, np.zeros(places), np.zeros(places))


@compiled
def schedule_rating(
    pending: PendingRatings, t: int, delay: int, arm: int, payment: float, feedback: float
) -> None:
    """Put a rating of round t on its way: it is due in round t + 1 + `delay`."""
    places = pending.first.shape[0]
    place = t % places
    coming = place + 1 + delay
    if coming >= places:  # never twice as large: a second division would cost more than all else
        coming -= places
    pending.following[place] = NONE
    pending.pulled[place] = t
    pending.arm[place] = arm
    pending.payment[place] = payment
    pending.feedback[place] = feedback
    if pending.first[coming] == NONE:
        pending.first[coming] = place
    else:
        pending.following[pending.last[coming]] = place
    pending.last[coming] = place


@compiled
def pop_due(pending: PendingRatings, t: int) -> int:
    """Return the place of the first rating that is due in round t, or `NONE`."""
    coming = t % pending.first.shape[0]
    place: int = pending.first[coming]
    pending.first[coming] = NONE
    return place
