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


class UnderWay(NamedTuple):
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


def new_under_way(places: int) -> UnderWay:
    """Make room for ratings that are seen after at most so many rounds."""
    first, last, following, pulled, arm = (np.full(places, NONE) for _ in range(5))
    return UnderWay(first, last, following, pulled, arm, np.zeros(places), np.zeros(places))


@compiled
def send(
    under_way: UnderWay, t: int, delay: int, arm: int, payment: float, feedback: float
) -> None:
    """Put a rating of round t on its way: it is due in round t + 1 + `delay`."""
    places = under_way.first.shape[0]
    place = t % places
    coming = place + 1 + delay
    if coming >= places:  # never twice as large: a second division would cost more than all else
        coming -= places
    under_way.following[place] = NONE
    under_way.pulled[place] = t
    under_way.arm[place] = arm
    under_way.payment[place] = payment
    under_way.feedback[place] = feedback
    if under_way.first[coming] == NONE:
        under_way.first[coming] = place
    else:
        under_way.following[under_way.last[coming]] = place
    under_way.last[coming] = place


@compiled
def take_due(under_way: UnderWay, t: int) -> int:
    """Return the place of the first rating that is due in round t, or `NONE`."""
    coming = t % under_way.first.shape[0]
    place: int = under_way.first[coming]
    under_way.first[coming] = NONE
    return place
