"""Pulls in flight: equal to the reference, consistent, of the right age, and well estimated."""

from __future__ import annotations

import bisect
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.in_flight import ReferenceInFlight

from entice.model.in_flight import (
    BUCKETS,
    COHORTS,
    RATED,
    UNRATED,
    WITHDRAWN,
    InFlight,
    add_pull,
    bucket_edges,
    clear_in_flight,
    count_expected,
    estimate_rating_probabilities,
    new_in_flight,
    remove_pull,
    update_ages,
)

pytestmark = pytest.mark.usefixtures("unmeasured")

ARMS = 3
OUTCOMES = {RATED: "rated", UNRATED: "unrated", WITHDRAWN: "withdrawn"}
WINDOWS = [1, 2, 5, 50, 100, 1_000, 20_000, 10**6, 30 * 86_400_000_000]


class Event(NamedTuple):
    """A pull of an arm, or the end of an earlier one."""

    at: int
    n: int
    arm: int
    outcome: int | None


def stream(seed: int, window: int, events: int) -> Iterator[Event]:
    """Generate random pulls, alternately dense and rare, and the ends of some of them.

    Some pulls end only after the window. Pauses are a fraction of the window on average, so that
    between a few and thousands of pulls are in flight.
    """
    chance = random.Random(seed)
    at, pulls, unrated = 0, 0, []
    rate = 0.0
    for i in range(events):
        if i % 100 == 0:
            rate = 10 ** chance.uniform(-4, 0) * window
        at += int(chance.expovariate(1 / rate))
        if unrated and chance.random() < 0.4:
            n, arm = unrated.pop(int(chance.triangular(0, len(unrated), len(unrated))))
            yield Event(at, n, arm, chance.choice([RATED, RATED, UNRATED, WITHDRAWN]))
        else:
            arm = chance.randrange(ARMS)
            unrated.append((pulls, arm))
            yield Event(at, pulls, arm, None)
            pulls += 1


def apply(flight: InFlight, event: Event) -> None:
    update_ages(flight, event.at)
    if event.outcome is None:
        add_pull(flight, event.n, event.at, event.arm)
    else:
        remove_pull(flight, event.n, event.arm, event.outcome)


def cohorts_of(flight: InFlight) -> list[tuple[Any, ...]]:
    count = int(flight.cohort_count[0])
    columns = flight.first_pull, flight.first_time, flight.last_time, flight.bucket, flight.members
    return list(zip(*(column[:count].tolist() for column in columns), strict=True))


# --- Against the reference --------------------------------------------------------------------


def assert_same(flight: InFlight, reference: ReferenceInFlight) -> None:
    """Compare the whole state, and the estimates from it, bit for bit."""
    assert flight.reached.tolist() == reference.reached
    assert flight.rated.tolist() == reference.rated
    theirs = []
    for cohort in reference.cohorts:
        of_arm = Counter(cohort.pulls.values())
        members = [of_arm[arm] for arm in range(ARMS)]
        theirs.append((cohort.first, cohort.since, cohort.until, cohort.bucket, members))
    assert cohorts_of(flight) == theirs
    pulls, effective_pulls = np.array([4, 0, 1]), np.empty(ARMS)
    count_expected(flight, pulls, effective_pulls)
    assert flight.rating_probabilities.tolist() == reference.rating_probabilities()
    assert effective_pulls.tolist() == [pulls[arm] + reference.expected(arm) for arm in range(ARMS)]


def play_both(
    seed: int, window: int, make: Callable[[int], ReferenceInFlight] = ReferenceInFlight
) -> InFlight:
    flight, reference = new_in_flight(ARMS, window), make(window)
    for i, event in enumerate(stream(seed, window, 600)):
        apply(flight, event)
        if event.outcome is None:
            reference.begin(event.n, event.at, event.arm)
        else:
            reference.end(event.n, event.at, OUTCOMES[event.outcome])  # type: ignore[arg-type]
        if i % 20 == 0 or i > 590:
            assert_same(flight, reference)
    return flight


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32), window=st.sampled_from(WINDOWS))
def test_the_state_equals_that_of_the_reference(seed: int, window: int) -> None:
    play_both(seed, window)


def test_random_streams_fill_all_cohorts_and_buckets() -> None:
    """Otherwise the comparison would never cover a merger."""
    flights = [play_both(seed, 20_000) for seed in range(10)]
    assert max(int(flight.cohort_count[0]) for flight in flights) == COHORTS
    assert all((flight.reached > 0).all() for flight in flights)
    assert any(len(c.edges) == BUCKETS for c in flights)


class MergesTheOldest(ReferenceInFlight):
    """A planted fault: the oldest pair is merged, not the closest."""

    def _merge(self, at: int) -> None:
        i = next(i for i, c in enumerate(self.cohorts) if c.bucket == self.cohorts[i + 1].bucket)
        self.cohorts[i].until = self.cohorts[i + 1].until
        self.cohorts[i].pulls.update(self.cohorts[i + 1].pulls)
        del self.cohorts[i + 1]


class CountsThoseInsideInFull(ReferenceInFlight):
    """A planted fault: pulls that have just reached a bucket count as if they had passed it."""

    def rating_probabilities(self) -> list[float]:
        inside, self.reached = (
            self.reached,
            [reached + 0.5 * len(self.inside(k)) for k, reached in enumerate(self.reached)],
        )  # type: ignore[assignment]
        try:
            return super().rating_probabilities()
        finally:
            self.reached = inside


@pytest.mark.parametrize("fault", [MergesTheOldest, CountsThoseInsideInFull])
def test_the_comparison_detects_planted_faults(fault: Callable[[int], ReferenceInFlight]) -> None:
    with pytest.raises(AssertionError):
        play_both(0, 20_000, fault)


# --- Consistent with every single pull --------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32), window=st.sampled_from(WINDOWS))
def test_counts_agree_with_each_other_and_with_single_pulls(seed: int, window: int) -> None:
    """The pulls of a cohort are younger than its oldest pull by less than 0.3 of that age.

    Proof: cohorts span a quarter of the first bucket, so it holds 4 of 64 at most. The other 60
    lie in 11 buckets, so that 49 neighbours share one; the logarithms of their ages, each counted
    twice at most, span log 2¹² at most. The closest two are merged: they are apart by
    2 log 2¹² / 49 < 0.34 at most, and 1 − exp(−0.34) < 0.3. (A merger counts ages from 1.)
    """
    flight, edges = new_in_flight(ARMS, window), bucket_edges(window).tolist()
    unrated: dict[int, tuple[int, int]] = {}
    ended = np.zeros(len(edges), dtype=np.int64)
    for event in stream(seed, window, 600):
        outcome = UNRATED if event.outcome == WITHDRAWN else event.outcome
        before = flight.unrated.copy()
        update_ages(flight, event.at)
        if outcome == UNRATED:
            before = flight.unrated.copy()
        apply(flight, event._replace(outcome=outcome))
        if outcome is None:
            unrated[event.n] = event.at, event.arm
        else:
            del unrated[event.n]
            if outcome == UNRATED:
                ended += before - flight.unrated
        assert (flight.unrated_by_arm >= 0).all()
        assert (flight.unrated_by_arm.sum(axis=1) == flight.unrated).all()
        passed_on = flight.reached - flight.rated - flight.unrated - ended
        assert (passed_on[:-1] == flight.reached[1:]).all()
    cohorts, at = cohorts_of(flight), event.at
    slack = edges[0] // 4
    members: Counter[tuple[int, int]] = Counter()
    for n, (since, arm) in unrated.items():
        cohort = bisect.bisect_right([c[0] for c in cohorts], n) - 1
        age = at - since
        if cohort < 0:
            assert age + slack + 1 >= 0.7 * window
            continue
        taken_for = at - cohorts[cohort][1]
        assert age <= taken_for < window
        assert 0.7 * taken_for - slack - 1 <= age
        assert cohorts[cohort][3] == bisect.bisect_right(edges, taken_for)
        members[cohort, arm] += 1
    assert [c[4] for c in cohorts] == [
        [members[i, arm] for arm in range(ARMS)] for i in range(len(cohorts))
    ]


@pytest.mark.parametrize("window", [300, 2_000, 20_000])
def test_with_a_pull_a_round_ages_are_wrong_by_less_than_a_fifth(window: int) -> None:
    flight, slack = new_in_flight(1, window), bucket_edges(window)[0] // 4
    for at in range(1, 2 * window):
        apply(flight, Event(at, at, 0, None))
        count = int(flight.cohort_count[0])
        width = flight.last_time[:count] - flight.first_time[:count]
        assert ((width <= slack) | (width < 0.2 * (at - flight.first_time[:count]))).all()


def test_as_many_pulls_as_cohorts_are_kept_apart() -> None:
    """One pull a round, and a window of 64 rounds: every age is exact."""
    flight = new_in_flight(1, COHORTS)
    for at in range(1, 300):
        apply(flight, Event(at, at, 0, None))
        assert (
            flight.first_time[: flight.cohort_count[0]]
            == flight.last_time[: flight.cohort_count[0]]
        ).all()
    assert flight.unrated.tolist() == np.diff([0, *flight.edges]).tolist()


def test_a_cleared_state_is_like_a_new_one() -> None:
    flights = new_in_flight(ARMS, 1_000), new_in_flight(ARMS, 1_000)
    for event in stream(6, 1_000, 300):
        apply(flights[0], event)
    clear_in_flight(flights[0])
    for flight in flights:
        for event in stream(5, 1_000, 300):
            apply(flight, event)
        estimate_rating_probabilities(flight)
    assert cohorts_of(flights[0]) == cohorts_of(flights[1])
    for mine, expected in zip(flights[0][:6], flights[1][:6], strict=True):
        assert (mine == expected).all()
    assert (flights[0].rating_probabilities == flights[1].rating_probabilities).all()


# --- Estimates --------------------------------------------------------------------------------


def flight_after(window: int, pulls: int, delay: Callable[[random.Random], float]) -> InFlight:
    """Simulate one pull per round, and remove each when its rating arrives."""
    flight, chance = new_in_flight(1, window), random.Random(7)
    due: dict[int, list[int]] = {}
    for at in range(1, pulls + 1):
        update_ages(flight, at)
        add_pull(flight, at, at, 0)
        d = delay(chance)
        if d < window:
            due.setdefault(at + int(d), []).append(at)
        for n in due.pop(at, []):
            remove_pull(flight, n, 0, RATED)
    estimate_rating_probabilities(flight)
    return flight


@pytest.mark.parametrize("share", [0.05, 0.4, 0.95])
@pytest.mark.parametrize("mean", [20.0, 300.0])
def test_the_delay_and_the_share_who_rate_are_recovered(share: float, mean: float) -> None:
    """Delays are exponential, and a share of ratings arrives: compare the estimates per bucket.

    Each estimate is a probability from the pulls that reached its bucket: it is off by 4.5 standard
    deviations with p < 7e-6; for 12 buckets and 6 cases p < 5e-4. The tolerance also allows for a
    prior worth four pulls in each bucket, and for pulls younger than their cohort by up to a fifth.
    """
    window, pulls = 2_000, 40_000

    def true(age: float, share: float, mean: float) -> float:
        left = math.exp(-age / mean) - math.exp(-window / mean)
        return share * left / (1 - share * (1 - math.exp(-age / mean)))

    def fits(share: float, mean: float) -> bool:
        for k, age in enumerate([0, *flight.edges[:-1]]):
            if flight.reached[k] < 200:
                continue
            low, high = true(age, share, mean), true(0.8 * age, share, mean)
            error = 4.5 * math.sqrt(high * (1 - high) / flight.reached[k])
            error += 4 * (len(flight.edges) - k) / flight.reached[k]
            if not low - error <= flight.rating_probabilities[k] <= high + error:
                return False
        return True

    flight = flight_after(
        window, pulls, lambda c: c.expovariate(1 / mean) if c.random() < share else math.inf
    )
    assert fits(share, mean)
    for other in ((0.8 * share, mean), (share, 2 * mean), (share, mean / 2)):  # a control
        assert not fits(*other)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32), window=st.sampled_from(WINDOWS[3:]), data=st.data())
def test_probabilities_decrease_with_age_and_increase_with_ratings(
    seed: int, window: int, data: Any
) -> None:
    flight = new_in_flight(ARMS, window)
    for event in stream(seed, window, data.draw(st.integers(0, 400), "events")):
        apply(flight, event)
    estimate_rating_probabilities(flight)
    rating_probabilities = flight.rating_probabilities.copy()
    assert ((rating_probabilities > 0) & (rating_probabilities < 1)).all()
    assert (np.diff(rating_probabilities) <= 0).all()  # the older, the less likely
    effective_pulls, pulls = np.empty(ARMS), np.array([0, 5, 0])
    count_expected(flight, pulls, effective_pulls)
    assert (
        (effective_pulls >= pulls) & (effective_pulls <= pulls + flight.unrated_by_arm.sum(axis=0))
    ).all()
    # A rating in a bucket raises the estimate for the pulls that have not passed it.
    bucket = data.draw(st.integers(0, len(rating_probabilities) - 1), "bucket")
    if flight.unrated[bucket] > 0:
        arm = int(flight.unrated_by_arm[bucket].argmax())
        flight.rated[bucket] += 1
        flight.unrated[bucket] -= 1
        flight.unrated_by_arm[bucket, arm] -= 1
        estimate_rating_probabilities(flight)
        assert (
            flight.rating_probabilities[: bucket + 1] >= rating_probabilities[: bucket + 1]
        ).all()


def test_without_data_nearly_all_pulls_are_expected_to_be_rated() -> None:
    flight = new_in_flight(1, 20_000)
    estimate_rating_probabilities(flight)
    assert flight.rating_probabilities[0] > 0.99
