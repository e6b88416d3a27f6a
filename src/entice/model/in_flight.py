"""How many ratings are still expected from pulls that nobody has rated yet.

A pull whose rating has not come is neither evidence nor nothing: it counts with the probability
that its rating still comes, given its age. That probability is learnt from the campaign itself.
Ages are divided into buckets whose edges double up to the rating window. For each bucket two whole
numbers are kept, how many pulls reached it unrated and how many were rated in it; their ratio is
the bucket's hazard. Ratings that are late and ratings that never come are learnt together.

Single ages are not kept. Pulls of about the same age form a cohort, which moves from bucket to
bucket as one. So the state is small and bounded, and no log has to be read to let pulls grow older.

Everything is whole numbers, and + − × ÷ of them: a replay of the same events at the same times
gives the same counts to the last bit.
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
"""At most; the first of a window of 30 days ends after 21 minutes."""
COHORTS = 64
"""At most: some five in each bucket, which makes ages wrong by less than a fifth."""
PRIOR_HAZARD = 0.1
"""Assumed for the first bucket; 0.02 to 0.5 gave the same results."""
PRIOR_WEIGHT = 4.0
"""How many pulls a bucket's prior is worth."""
PRIOR_GROWTH = 1.5
"""A bucket is twice as long as the one before it: its prior odds are those odds times this."""

FOREVER = 2**62
"""Later than any time."""

RATED, UNRATED, WITHDRAWN = 0, 1, 2
"""How a pull may end. One that is withdrawn counts as if it had never been made."""


class InFlight(NamedTuple):
    """Pulls under way by age, and what earlier pulls say about whether they will be rated."""

    edges: Counts
    """The age at which each bucket ends; the last one is the rating window."""
    reached: Counts
    """For each bucket, the pulls that reached it unrated …"""
    rated: Counts
    """… and those that were rated in it."""
    unrated_by_arm: Counts
    """For each bucket and arm, the unrated pulls that are in it now."""
    unrated: Counts
    """The same for all arms together."""
    cohort_count: Counts
    """One element: how many cohorts there are, the oldest first."""
    first_pull: Counts
    """The number of each cohort's first pull."""
    first_time: Counts
    """The time of each cohort's first pull."""
    last_time: Counts
    """The time of its last pull."""
    bucket: Counts
    """The bucket that each cohort is in."""
    members: Counts
    """For each cohort and arm, the unrated pulls in it."""
    cohorts_in_bucket: Counts
    """For each bucket, the cohorts in it."""
    next_move: Counts
    """One element: until then every cohort stays in its bucket."""
    rating_probabilities: Floats
    """For each bucket, the probability that the rating of an unrated pull in it still comes."""


def bucket_edges(window: int) -> Counts:
    """Return the ages at which buckets end: the window, its half, its quarter and so on.

    >>> from entice.model.in_flight import bucket_edges
    >>> bucket_edges(100).tolist()
    [1, 3, 6, 12, 25, 50, 100]
    """
    edges = sorted({window >> k for k in range(BUCKETS)} - {0})
    return np.array(edges, dtype=np.int64)


def new_in_flight(arms: int, window: int) -> InFlight:
    """Make the state of a campaign without pulls; `window` is in the unit of all times."""
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
    """Forget all pulls."""
    flight.reached[:] = 0
    flight.rated[:] = 0
    flight.unrated_by_arm[:] = 0
    flight.unrated[:] = 0
    flight.cohort_count[0] = 0
    flight.members[:] = 0
    flight.cohorts_in_bucket[:] = 0
    flight.next_move[0] = 0


@compiled
def add_pull(flight: InFlight, n: int, at: int, arm: int) -> None:
    """Enter pull number n; numbers and times never decrease. Call `update_ages` first."""
    last = flight.cohort_count[0] - 1
    # A cohort spans a quarter of the first bucket, so that no bucket is left out.
    if last < 0 or at - flight.first_time[last] > flight.edges[0] // 4 or flight.bucket[last] > 0:
        if last + 1 == flight.first_pull.shape[0]:
            _merge_closest(flight, at)
            last -= 1
        last += 1
        flight.cohort_count[0] = last + 1
        flight.first_pull[last], flight.first_time[last], flight.bucket[last] = n, at, 0
        flight.cohorts_in_bucket[0] += 1
        flight.next_move[0] = min(flight.next_move[0], at + flight.edges[0])
        flight.members[last, :] = 0
    flight.last_time[last] = at
    flight.members[last, arm] += 1
    flight.unrated_by_arm[0, arm] += 1
    flight.unrated[0] += 1
    flight.reached[0] += 1


@compiled
def remove_pull(flight: InFlight, n: int, arm: int, outcome: int) -> None:
    """Take pull number n out: it was rated, is no longer awaited, or was withdrawn.

    A pull that is older than the window is in no bucket, and nothing changes. Call `update_ages`
    first.
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
            # Pulls from before an upgrade have reached their current bucket only.
            flight.reached[k] = max(0, flight.reached[k] - 1)


@compiled
def update_ages(flight: InFlight, at: int) -> None:
    """Move cohorts to the buckets of their ages; what is older than the window leaves."""
    if at >= flight.next_move[0]:
        _move_cohorts(flight, at)


@compiled_noinline
def _move_cohorts(flight: InFlight, at: int) -> None:
    """Move cohorts, bucket by bucket: the oldest one of each is the first that may have to."""
    buckets, c, following = flight.edges.shape[0], 0, FOREVER
    for k in range(buckets - 1, -1, -1):
        staying = flight.cohorts_in_bucket[k]
        while staying > 0 and at - flight.first_time[c] >= flight.edges[k]:
            staying -= 1
            while flight.bucket[c] < buckets and (
                at - flight.first_time[c] >= flight.edges[flight.bucket[c]]
            ):
                _move_on(flight, c)
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
def _move_on(flight: InFlight, cohort: int) -> None:
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
def _merge_closest(flight: InFlight, at: int) -> None:
    """Merge the two neighbours in one bucket whose ages differ least, relative to their age.

    There are more cohorts than buckets, so there is such a pair.
    """
    best, least = 0, np.inf
    for c in range(flight.cohort_count[0] - 1):
        if flight.bucket[c] == flight.bucket[c + 1]:
            width = flight.last_time[c + 1] - flight.first_time[c]
            relative = (width + 1.0) / (at - flight.first_time[c] + 1.0)
            if relative < least:
                best, least = c, relative
    flight.last_time[best] = flight.last_time[best + 1]
    for arm in range(flight.members.shape[1]):
        flight.members[best, arm] += flight.members[best + 1, arm]
    flight.cohorts_in_bucket[flight.bucket[best]] -= 1
    _drop_cohort(flight, best + 1)


@compiled
def _drop_cohort(flight: InFlight, cohort: int) -> None:
    """Take a cohort out of the row, and move those after it up."""
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
    """Work out, for each bucket, the probability that a rating still comes."""
    buckets = flight.edges.shape[0]
    # The prior as a fraction: of divisions, each would have to wait for the one before.
    prior, whole = PRIOR_HAZARD, 1.0
    for k in range(buckets):
        # Pulls that are in the bucket now have on average been through half of it.
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
def count_expected(flight: InFlight, pulls: Counts, counted: Floats) -> None:
    """Fill in n_i + e_i: the ratings of each arm, and those still expected."""
    estimate_rating_probabilities(flight)
    arms = pulls.shape[0]
    for i in range(arms):
        counted[i] = 0.0
    for k in range(flight.edges.shape[0]):
        if flight.unrated[k] > 0:
            for i in range(arms):
                counted[i] += flight.unrated_by_arm[k, i] * flight.rating_probabilities[k]
    for i in range(arms):
        counted[i] += pulls[i]


@compiled
def mark_awaited_arms(pulls: Counts, counted: Floats, awaited: Bools) -> None:
    """Mark the arms whose first rating is awaited: nobody else is paid for the same answer."""
    for i in range(pulls.shape[0]):
        awaited[i] = pulls[i] == 0 and counted[i] >= 1.0


@compiled
def count_all_in_flight(
    t: int, pulls: Counts, under_way: Counts, counted: Floats, awaited: Bools
) -> None:
    """Count every pull under way as if its rating were certain to come.

    That is how campaigns counted before ratings were expected ones (rules of version 1); their
    logs are replayed with it. An unrated arm is paid for once while its first rating is under way,
    and once more each time the number of rounds has doubled.
    """
    asked = 1
    while pulls.shape[0] << asked <= t:
        asked += 1
    for i in range(pulls.shape[0]):
        counted[i] = pulls[i] + under_way[i]
        awaited[i] = pulls[i] == 0 and counted[i] >= asked
