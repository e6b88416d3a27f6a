"""The pulls in flight of a campaign, as its row in the database stores them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from entice.model.in_flight import COHORTS, InFlight, estimate_rating_probabilities, new_in_flight

SECOND = 1_000_000
"""One second in microseconds, the unit of all times."""


class FlightState(msgspec.Struct, array_like=True):
    """The fields of `InFlight` that cannot be recalculated, as lists.

    `first`, `since` and `until` are its `first_pull`, `first_time` and `last_time`.
    """

    reached: list[int]
    rated: list[int]
    first: list[int]
    since: list[int]
    until: list[int]
    bucket: list[int]
    cells: list[int]
    """The nonzero entries of `members`: arm × `COHORTS` + cohort. With segments, the cell of an arm
    and a segment takes the place of the arm."""
    counts: list[int]
    """The values of those entries."""


def pack(flight: InFlight) -> FlightState:
    """Convert pulls in flight to their stored form."""
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
    """Restore pulls in flight; without a stored state there are none. The window is in seconds."""
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
    """The share of offers that are rated, and the ratings expected from the offers in flight."""

    share: float | None
    """The share of accepted offers that are rated by the greatest age observed so far; None before
    the first offer."""
    ratings: list[float]
    """The expected number of ratings from each arm's offers in flight."""


def expectation(flight: InFlight, cells_per_arm: int = 1) -> Expectation:
    """Return the expectation at the time of the last event.

    With segments, each arm has several cells of `flight`, one after the other.
    """
    # The uncompiled function: views are too rare for its compilation to pay off.
    estimate_rating_probabilities.py_func(flight)  # type: ignore[attr-defined]
    unrated_by_arm = flight.unrated_by_arm
    if cells_per_arm > 1:
        unrated_by_arm = unrated_by_arm.reshape(len(flight.edges), -1, cells_per_arm).sum(axis=2)
    ratings = (flight.rating_probabilities @ unrated_by_arm).tolist()
    if flight.reached[0] == 0:
        return Expectation(None, ratings)
    return Expectation(1.0 - float(np.prod(1.0 - _hazards(flight))), ratings)


def rated_by_age(flight: InFlight, ages: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the share of accepted offers that are rated by each age, in microseconds.

    Within a bucket, the hazard is constant.
    """
    logs = np.log1p(-np.minimum(_hazards(flight), 1.0 - 1e-12))
    edges = np.concatenate([[0], flight.edges]).astype(np.float64)
    unrated = np.exp(np.interp(ages, edges, np.concatenate([[0.0], np.cumsum(logs)])))
    return 1.0 - np.asarray(unrated)


def _hazards(flight: InFlight) -> npt.NDArray[np.float64]:
    """Return the share of the offers reaching each bucket that are rated in it.

    This is the Kaplan–Meier estimate. The prior is left out: early on it would predict a rating for
    almost every offer.
    """
    exposed = np.maximum(flight.rated, flight.reached - 0.5 * flight.unrated)
    return np.divide(flight.rated, exposed, out=np.zeros(len(exposed)), where=exposed > 0)
