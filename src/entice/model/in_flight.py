"""The number of ratings still expected from pulls in flight, that is, pulls not yet rated.

A pull in flight counts with the probability that its rating still arrives, given its age. That
probability is estimated from the campaign's own history. Ages are divided into buckets whose edges
double up to the rating window. Each bucket keeps two integers: how many pulls reached it unrated,
and how many were rated in it. Their ratio is the bucket's hazard. One estimate covers ratings that
are late and ratings that never arrive.

Individual ages are not stored. Pulls of about the same age form a cohort, which moves from bucket
to bucket as a unit. So the state is small and bounded, and the event log need not be read to update
ages.

All quantities are integers and results of + − × ÷ on integers: a replay of the same events at the
same times gives bit-identical counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled, compiled_noinline

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

BUCKETS = 12
"""Maximum number of buckets. With a window of 30 days, the first one ends after 21 minutes."""
COHORTS = 64
"""Maximum number of cohorts: about five per bucket, which keeps errors of age below a fifth."""
PRIOR_HAZARD = 0.1
"""Prior hazard of the first bucket; values from 0.02 to 0.5 gave the same results."""
PRIOR_WEIGHT = 4.0
"""The number of pulls that a bucket's prior is worth."""
PRIOR_GROWTH = 1.5
"""A bucket's prior odds relative to those of the bucket before it, which is half as long."""

FOREVER = 2**62
"""A time later than all others."""

RATED, UNRATED, WITHDRAWN = 0, 1, 2
"""Outcomes of a pull. A withdrawn pull counts as if it had never been made."""


class InFlight(NamedTuple):
    """Pulls in flight by age, and the history from which their ratings are predicted."""

    edges: Counts
    """The age at which each bucket ends; the last edge is the rating window."""
    reached: Counts
    """For each bucket, the number of pulls that reached it unrated."""
    rated: Counts
    """For each bucket, the number of pulls that were rated in it."""
    unrated_by_arm: Counts
    """For each bucket and arm, the number of unrated pulls in it now."""
    unrated: Counts
    """For each bucket, the number of unrated pulls in it now, over all arms."""
    cohort_count: Counts
    """One element: the number of cohorts. They are ordered from the oldest to the newest."""
    first_pull: Counts
    """The serial number of each cohort's first pull."""
    first_time: Counts
    """The time of each cohort's first pull."""
    last_time: Counts
    """The time of each cohort's last pull."""
    bucket: Counts
    """The bucket of each cohort."""
    members: Counts
    """For each cohort and arm, the number of unrated pulls in it."""
    cohorts_in_bucket: Counts
    """For each bucket, the number of cohorts in it."""
    next_move: Counts
    """One element: the earliest time at which a cohort leaves its bucket."""
    rating_probabilities: Floats
    """For each bucket, the probability that an unrated pull in it is still rated."""


def bucket_edges(window: int) -> Counts:
    """Return the ages at which buckets end: the window, half of it, a quarter and so on.

    >>> from entice.model.in_flight import bucket_edges
    >>> bucket_edges(100).tolist()
    [1, 3, 6, 12, 25, 50, 100]
    """
    edges = sorted({window >> k for k in range(BUCKETS)} - {0})
    return np.array(edges, dtype=np.int64)


def new_in_flight(arms: int, window: int) -> InFlight:
    """Return the state of a campaign without pulls; `window` has the unit of all times."""
    edges = bucket_edges(window)
    buckets = len(edges)
    return InFlight(
        edges,
        np.zeros(buckets, np.int64),
        np.zeros(buckets, np.int64),
        np.zeros((buckets, arms), np.int64),
        np.zeros(buckets, np.int64),
        np.zeros(1, np.int64),
        np.zeros(COHORTS, np.int64),
        np.zeros(COHORTS, np.int64),
        np.zeros(COHORTS, np.int64),
        np.zeros(COHORTS, np.int64),
        np.zeros((COHORTS, arms), np.int64),
        np.zeros(buckets, np.int64),
        np.zeros(1, np.int64),
        np.zeros(buckets),
    )


@compiled
def clear_in_flight(flight: InFlight) -> None:
    """Remove all pulls and their history."""
    flight.reached[:] = 0
    flight.rated[:] = 0
    flight.unrated_by_arm[:] = 0
    flight.unrated[:] = 0
    flight.cohort_count[0] = 0
    flight.members[:] = 0
    flight.cohorts_in_bucket[:] = 0
    flight.next_move[0] = 0


@compiled
def add_pull(flight: InFlight, n: int, now: int, arm: int) -> None:
    """Add pull number n; numbers and times must not decrease. Call `update_ages` first."""
    last = flight.cohort_count[0] - 1
    # A cohort spans at most a quarter of the first bucket, so that it skips no bucket.
    if last < 0 or now - flight.first_time[last] > flight.edges[0] // 4 or flight.bucket[last] > 0:
        if last + 1 == flight.first_pull.shape[0]:
            _merge_closest(flight, now)
            last -= 1
        last += 1
        flight.cohort_count[0] = last + 1
        flight.first_pull[last], flight.first_time[last], flight.bucket[last] = n, now, 0
        flight.cohorts_in_bucket[0] += 1
        flight.next_move[0] = min(flight.next_move[0], now + flight.edges[0])
        flight.members[last, :] = 0
    flight.last_time[last] = now
    flight.members[last, arm] += 1
    flight.unrated_by_arm[0, arm] += 1
    flight.unrated[0] += 1
    flight.reached[0] += 1


@compiled
def remove_pull(flight: InFlight, n: int, arm: int, outcome: int) -> None:
    """Remove pull number n: it was rated, is no longer awaited, or was withdrawn.

    A pull older than the window is in no bucket, so nothing changes. Call `update_ages` first.
    """
    cohort = flight.cohort_count[0] - 1
    while cohort >= 0 and flight.first_pull[cohort] > n:
        cohort -= 1
    if cohort < 0 or flight.members[cohort, arm] == 0:
        return
    bucket = flight.bucket[cohort]
    flight.members[cohort, arm] -= 1
    flight.unrated_by_arm[bucket, arm] -= 1
    flight.unrated[bucket] -= 1
    if outcome == RATED:
        flight.rated[bucket] += 1
    elif outcome == WITHDRAWN:
        for k in range(bucket + 1):
            # Pulls made before an upgrade were counted in their current bucket only.
            flight.reached[k] = max(0, flight.reached[k] - 1)


@compiled
def update_ages(flight: InFlight, now: int) -> None:
    """Move cohorts to the buckets of their ages; drop those older than the window."""
    if now >= flight.next_move[0]:
        _move_cohorts(flight, now)


@compiled_noinline
def _move_cohorts(flight: InFlight, now: int) -> None:
    """Move cohorts, bucket by bucket. Within a bucket, the oldest cohort moves first."""
    buckets, c, following = flight.edges.shape[0], 0, FOREVER
    for k in range(buckets - 1, -1, -1):
        staying = flight.cohorts_in_bucket[k]
        while staying > 0 and now - flight.first_time[c] >= flight.edges[k]:
            staying -= 1
            while flight.bucket[c] < buckets and (
                now - flight.first_time[c] >= flight.edges[flight.bucket[c]]
            ):
                _move_to_next_bucket(flight, c)
            if flight.bucket[c] == buckets:
                _drop_cohort(flight, c)
            else:
                flight.cohorts_in_bucket[flight.bucket[c]] += 1
                following = min(following, flight.first_time[c] + flight.edges[flight.bucket[c]])
                c += 1
        flight.cohorts_in_bucket[k] = staying
        if staying > 0:
            following = min(following, flight.first_time[c] + flight.edges[k])
        c += staying
    flight.next_move[0] = following


@compiled
def _move_to_next_bucket(flight: InFlight, cohort: int) -> None:
    """Move a cohort to the next bucket, or out of the last one."""
    bucket = flight.bucket[cohort]
    flight.bucket[cohort] = bucket + 1
    total = 0
    for arm in range(flight.members.shape[1]):
        count = flight.members[cohort, arm]
        flight.unrated_by_arm[bucket, arm] -= count
        total += count
    flight.unrated[bucket] -= total
    if bucket + 1 < flight.edges.shape[0]:
        for arm in range(flight.members.shape[1]):
            flight.unrated_by_arm[bucket + 1, arm] += flight.members[cohort, arm]
        flight.unrated[bucket + 1] += total
        flight.reached[bucket + 1] += total


@compiled_noinline
def _merge_closest(flight: InFlight, now: int) -> None:
    """Merge the two neighbours in one bucket whose ages differ least, relative to their age.

    There are more cohorts than buckets, so there is such a pair.
    """
    best, least = 0, np.inf
    for c in range(flight.cohort_count[0] - 1):
        if flight.bucket[c] == flight.bucket[c + 1]:
            width = flight.last_time[c + 1] - flight.first_time[c]
            relative = (width + 1.0) / (now - flight.first_time[c] + 1.0)
            if relative < least:
                best, least = c, relative
    flight.last_time[best] = flight.last_time[best + 1]
    for arm in range(flight.members.shape[1]):
        flight.members[best, arm] += flight.members[best + 1, arm]
    flight.cohorts_in_bucket[flight.bucket[best]] -= 1
    _drop_cohort(flight, best + 1)


@compiled
def _drop_cohort(flight: InFlight, cohort: int) -> None:
    """Remove a cohort from the arrays, and shift the later ones."""
    left = flight.cohort_count[0] - 1
    flight.cohort_count[0] = left
    for c in range(cohort, left):
        flight.first_pull[c] = flight.first_pull[c + 1]
        flight.first_time[c] = flight.first_time[c + 1]
        flight.last_time[c] = flight.last_time[c + 1]
        flight.bucket[c] = flight.bucket[c + 1]
    for c in range(cohort, left):
        for arm in range(flight.members.shape[1]):
            flight.members[c, arm] = flight.members[c + 1, arm]


@compiled
def estimate_rating_probabilities(flight: InFlight) -> None:
    """Compute, for each bucket, the probability that an unrated pull is still rated."""
    buckets = flight.edges.shape[0]
    # The prior is kept as a fraction, prior / whole: a chain of divisions would be slower.
    prior, whole = PRIOR_HAZARD, 1.0
    for k in range(buckets):
        # Pulls now in the bucket have spent, on average, half of its length in it.
        through = flight.reached[k] - 0.5 * flight.unrated[k]
        exposed = max(float(flight.rated[k]), through)
        rated = flight.rated[k] * whole + PRIOR_WEIGHT * prior
        seen = (exposed + PRIOR_WEIGHT) * whole
        flight.rating_probabilities[k] = rated / seen
        prior, whole = PRIOR_GROWTH * rated, seen + (PRIOR_GROWTH - 1.0) * rated
    unrated = 1.0
    for k in range(buckets - 1, -1, -1):
        unrated *= 1.0 - flight.rating_probabilities[k]
        flight.rating_probabilities[k] = 1.0 - unrated


@compiled
def count_expected(flight: InFlight, pulls: Counts, effective_pulls: Floats) -> None:
    """Fill `effective_pulls` with n_i + e_i: each arm's ratings, and those still expected."""
    estimate_rating_probabilities(flight)
    arms = pulls.shape[0]
    for i in range(arms):
        effective_pulls[i] = 0.0
    for k in range(flight.edges.shape[0]):
        if flight.unrated[k] > 0:
            for i in range(arms):
                effective_pulls[i] += flight.unrated_by_arm[k, i] * flight.rating_probabilities[k]
    for i in range(arms):
        effective_pulls[i] += pulls[i]


@compiled
def mark_awaited_arms(pulls: Counts, effective_pulls: Floats, awaited: Bools) -> None:
    """Mark the unrated arms whose first rating is expected: no other player is paid for it."""
    for i in range(pulls.shape[0]):
        awaited[i] = pulls[i] == 0 and effective_pulls[i] >= 1.0


@compiled
def count_all_in_flight(
    t: int, pulls: Counts, open_pulls: Counts, effective_pulls: Floats, awaited: Bools
) -> None:
    """Count every pull in flight as if its rating were certain to arrive.

    Campaigns under version 1 of the rules counted this way, and their logs are replayed with it. An
    unrated arm is paid for once while its first rating is awaited, and once more each time the
    number of rounds has doubled.
    """
    times_paid = 1
    while pulls.shape[0] << times_paid <= t:
        times_paid += 1
    for i in range(pulls.shape[0]):
        effective_pulls[i] = pulls[i] + open_pulls[i]
        awaited[i] = pulls[i] == 0 and effective_pulls[i] >= times_paid
