"""The pulls in flight of a campaign, as its row in the database keeps them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from entice.model.in_flight import COHORTS, InFlight, estimate_rating_probabilities, new_in_flight

SECOND = 1_000_000
"""Microseconds, the unit of all times."""


class FlightState(msgspec.Struct, array_like=True):
    """What `InFlight` adds up to, without what can be worked out again; see there."""

    reached: list[int]
    rated: list[int]
    first: list[int]
    since: list[int]
    until: list[int]
    bucket: list[int]
    cells: list[int]
    """Where `members` is not 0: the arm times the greatest number of cohorts, plus the cohort."""
    counts: list[int]
    """What it is there."""


def pack(flight: InFlight) -> FlightState:
    """Write pulls in flight down."""
    cohorts = int(flight.cohort_count[0])
    arms, at = np.nonzero(flight.members[:cohorts].T)
    return FlightState(
        flight.reached.tolist(),
        flight.rated.tolist(),
        flight.first_pull[:cohorts].tolist(),
        flight.first_time[:cohorts].tolist(),
        flight.last_time[:cohorts].tolist(),
        flight.bucket[:cohorts].tolist(),
        (arms * COHORTS + at).tolist(),
        flight.members[at, arms].tolist(),
    )


def unpack(state: FlightState | None, arms: int, rating_window: int) -> InFlight:
    """Read pulls in flight back; none if nothing was kept. The window is in seconds."""
    flight = new_in_flight(arms, rating_window * SECOND)
    if state is None:
        return flight
    cohorts = len(state.first)
    flight.cohort_count[0] = cohorts
    flight.reached[:], flight.rated[:] = state.reached, state.rated
    for array, kept in (
        (flight.first_pull, state.first),
        (flight.first_time, state.since),
        (flight.last_time, state.until),
        (flight.bucket, state.bucket),
    ):
        array[:cohorts] = kept
    cells = np.array(state.cells, dtype=np.int64)
    flight.members[cells % COHORTS, cells // COHORTS] = state.counts
    np.add.at(flight.unrated_by_arm, flight.bucket[:cohorts], flight.members[:cohorts])
    flight.unrated[:] = flight.unrated_by_arm.sum(axis=1)
    flight.cohorts_in_bucket[:] = np.bincount(state.bucket, minlength=len(flight.edges))
    return flight


class Expectation(NamedTuple):
    """What is known about who rates, and what is expected of the pulls in flight."""

    share: float | None
    """The share of accepted offers that are rated, by the age that offers have reached so far;
    None before the first offer."""
    ratings: list[float]
    """For each arm, the ratings that its offers in flight are expected to bring."""


def expectation(flight: InFlight) -> Expectation:
    """Work out what is known and expected at the time of the last event."""
    estimate_rating_probabilities.py_func(flight)  # type: ignore[attr-defined]  # not worth compiling for a view
    ratings = (flight.rating_probabilities @ flight.unrated_by_arm).tolist()
    if flight.reached[0] == 0:
        return Expectation(None, ratings)
    # Kaplan and Meier's estimate: without the prior, which early on expects almost all to rate.
    exposed = np.maximum(flight.rated, flight.reached - 0.5 * flight.unrated)
    hazards = np.divide(flight.rated, exposed, out=np.zeros(len(exposed)), where=exposed > 0)
    return Expectation(1.0 - float(np.prod(1.0 - hazards)), ratings)
