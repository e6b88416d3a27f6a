"""Expected ratings of pulls in flight, in plain Python: the reference for `model/in_flight.py`.

Written for readability: a cohort is a list of pulls, and every count is recomputed from them. Sums
and products are formed in the order of the definition, so that results agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal

BUCKETS = 12
COHORTS = 64

Outcome = Literal["rated", "unrated", "withdrawn"]


@dataclass
class Cohort:
    """Pulls of about the same age, unrated so far."""

    first: int
    since: int
    until: int
    bucket: int = 0
    pulls: dict[int, Hashable] = field(default_factory=dict)
    """The arm of each pull, by its number."""


class ReferenceInFlight:
    """Pulls whose ratings may still arrive, and the hazards estimated from earlier ones."""

    def __init__(self, window: int) -> None:
        self.edges = sorted({window // 2**k for k in range(BUCKETS)} - {0})
        self.reached = [0] * len(self.edges)
        self.rated = [0] * len(self.edges)
        self.cohorts: list[Cohort] = []

    def update_ages(self, at: int) -> None:
        """Move each cohort to the bucket of its oldest pull; drop those older than the window."""
        for cohort in self.cohorts:
            while cohort.bucket < len(self.edges):
                if at - cohort.since < self.edges[cohort.bucket]:
                    break
                cohort.bucket += 1
                if cohort.bucket < len(self.edges):
                    self.reached[cohort.bucket] += len(cohort.pulls)
        self.cohorts = [c for c in self.cohorts if c.bucket < len(self.edges)]

    def begin(self, n: int, at: int, arm: Hashable) -> None:
        """Add a pull to the newest cohort if that is new enough, else to a new cohort."""
        self.update_ages(at)
        newest = self.cohorts[-1] if self.cohorts else None
        if newest is None or newest.bucket > 0 or at - newest.since > self.edges[0] // 4:
            if len(self.cohorts) == COHORTS:
                self._merge(at)
            newest = Cohort(n, at, at)
            self.cohorts.append(newest)
        newest.until = at
        newest.pulls[n] = arm
        self.reached[0] += 1

    def _merge(self, at: int) -> None:
        """Merge the neighbours in one bucket that lie closest, relative to their age."""
        neighbours = [
            (i, a, b)
            for i, (a, b) in enumerate(zip(self.cohorts, self.cohorts[1:], strict=False))
            if a.bucket == b.bucket
        ]
        i, older, newer = min(
            neighbours, key=lambda p: (p[2].until - p[1].since + 1) / (at - p[1].since + 1)
        )
        older.until = newer.until
        older.pulls.update(newer.pulls)
        del self.cohorts[i + 1]

    def end(self, n: int, at: int, outcome: Outcome) -> None:
        """Remove a pull; if it has left all buckets, nothing changes."""
        self.update_ages(at)
        for cohort in self.cohorts:
            if n in cohort.pulls:
                del cohort.pulls[n]
                if outcome == "rated":
                    self.rated[cohort.bucket] += 1
                elif outcome == "withdrawn":
                    for k in range(cohort.bucket + 1):
                        self.reached[k] = max(0, self.reached[k] - 1)

    def inside(self, bucket: int) -> list[Hashable]:
        """Return the arms of the unrated pulls in a bucket."""
        cohorts = [c for c in self.cohorts if c.bucket == bucket]
        return [arm for cohort in cohorts for arm in cohort.pulls.values()]

    def rating_probabilities(self) -> list[float]:
        """Return, for each bucket, the probability that a rating still arrives."""
        hazards, prior, whole = [], 0.1, 1.0  # the prior is prior / whole
        for k in range(len(self.edges)):
            exposed = max(float(self.rated[k]), self.reached[k] - 0.5 * len(self.inside(k)))
            rated = self.rated[k] * whole + 4.0 * prior
            seen = (exposed + 4.0) * whole
            hazards.append(rated / seen)
            prior, whole = 1.5 * rated, seen + 0.5 * rated  # its odds are the hazard's, times 1.5
        unrated, rating_probabilities = 1.0, []
        for hazard in reversed(hazards):
            unrated *= 1.0 - hazard
            rating_probabilities.append(1.0 - unrated)
        return rating_probabilities[::-1]

    def expected(self, arm: Hashable) -> float:
        """Return the number of ratings expected from an arm's pulls in flight."""
        total = 0.0
        for k, probability in enumerate(self.rating_probabilities()):
            total += self.inside(k).count(arm) * probability
        return total
