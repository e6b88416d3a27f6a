"""A plain-Python oracle of segments: every estimate from all ratings, by its definition.

The variances are sums of squared deviations, and the effective count is the variance of a weighted
sum of the segments' averages: slow and simple on purpose.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracles import algorithm1 as oracle
from oracles.in_flight import ReferenceInFlight

Ratings = Sequence[Sequence[Sequence[float]]]
"""The ratings of each segment and arm, in the order in which they arrived."""


@dataclass(frozen=True)
class Round:
    """One round, with the averages that its visitor saw."""

    segment: int
    arm: int
    greedy: int
    payment: float
    feedback: float
    displayed: list[float]


def everyone(ratings: Ratings, arm: int) -> list[float]:
    return [x for of_segment in ratings for x in of_segment[arm]]


def strength(ratings: Ratings) -> float:
    """λ: the variance within segments, divided by that between segments."""
    within = between = spread = 0.0
    freedom = groups = 0
    for arm in range(len(ratings[0])):
        cells = [of_segment[arm] for of_segment in ratings if of_segment[arm]]
        if not cells:
            continue
        n = sum(map(len, cells))
        mean = math.fsum(x for cell in cells for x in cell) / n
        for cell in cells:
            own = math.fsum(cell) / len(cell)
            within += math.fsum((x - own) ** 2 for x in cell)
            between += len(cell) * (own - mean) ** 2
        freedom += n - len(cells)
        groups += len(cells) - 1
        spread += n - sum(len(cell) ** 2 for cell in cells) / n
    if freedom == 0 or groups == 0:
        return math.inf
    noise = within / freedom
    variance = (between - groups * noise) / spread
    return noise / variance if variance > 0 else math.inf


def average(ratings: Ratings, segment: int, arm: int, lam: float, prior: float) -> float:
    """The average that a segment sees: its own, shrunk towards that of all visitors."""
    own, together = ratings[segment][arm], everyone(ratings, arm)
    target = oracle.average(together, prior)
    if lam == math.inf or not own:
        return target
    return (oracle.total(own) + lam * target) / (len(own) + lam)


def effective_count(counts: Sequence[float], segment: int, lam: float) -> float:
    """σ² / E[(m̂ − μ)²] of a segment's shrunk average, from the weights of all segments' averages.

    The average of segment r has the variance σ²/n_r + τ²; μ is the mean of the segment itself.
    """
    n, own = sum(counts), counts[segment]
    if n == 0 or lam == math.inf:
        return float(n)
    if lam == 0:
        return float(own)
    weights = [lam * n_r / n / (own + lam) for n_r in counts]
    weights[segment] += own / (own + lam)
    noise = math.fsum(w * w / n_r for w, n_r in zip(weights, counts, strict=True) if n_r)
    offsets = [w - (r == segment) for r, w in enumerate(weights)]
    return 1 / (noise + math.fsum(w * w for w in offsets) / lam)


def play(
    *,
    policy: oracle.Policy,
    segments: Sequence[int],
    count: int,
    known: bool,
    arms: int,
    reward: Callable[[int, int], float],
    slope: float,
    delay: int,
    is_lost: Callable[[], bool],
    uniform: Callable[[], float],
    normal: Callable[[], float],
    in_flight_counts: bool = False,
    prior: float = 0.0,
) -> list[Round]:
    """Run a round for each visitor's segment; first each arm is tried once, unpaid.

    If segments are not known, all visitors are recorded in one.
    """
    ratings: list[list[list[float]]] = [
        [[] for _ in range(arms)] for _ in range(count if known else 1)
    ]
    pending: list[tuple[int, int, int, int, float]] = []
    flight = ReferenceInFlight(len(segments))
    rounds: list[Round] = []
    for t, segment in enumerate(segments, start=1):
        flight.update_ages(t)
        for due, pulled, seen_by, arm, feedback in pending:
            if due == t:
                ratings[seen_by][arm].append(feedback)
                flight.end(pulled, t, "rated")
        own = segment if known else 0
        lam = strength(ratings)
        means = [average(ratings, own, i, lam, prior) for i in range(arms)]
        if t <= arms:
            arm = greedy = t - 1
            payment = 0.0
        else:
            counts = []
            for i in range(arms):
                of_arm: list[float] = [len(of_segment[i]) for of_segment in ratings]
                if in_flight_counts:
                    of_arm = [n + flight.expected(s * arms + i) for s, n in enumerate(of_arm)]
                counts.append(effective_count(of_arm, own, lam))
            arm = oracle.select(policy, t, counts, means, uniform, normal)
            greedy = oracle.greedy_choice(arm, means)
            payment = means[greedy] - means[arm] if arm != greedy else 0.0
        feedback = reward(segment, arm) + slope * payment
        if not is_lost():
            pending.append((t + 1 + delay, t, own, arm, feedback))
        flight.begin(t, t + 1, own * arms + arm)
        rounds.append(Round(segment, arm, greedy, payment, feedback, means))
    return rounds
