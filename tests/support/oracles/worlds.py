"""A plain-Python oracle of worlds beyond the paper: slow and simple on purpose.

It runs Algorithm 1 through `oracle.select`, with late or missing ratings, players who decline,
probes, feedback that depends on more than the payment, and adversaries. All draws are passed in, so
that a test can feed the same numbers to the package and compare round by round.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracles import algorithm1 as oracle
from oracles.in_flight import ReferenceInFlight


@dataclass(frozen=True)
class Round:
    """The columns of a trace for one round; `feedback` is None if it never arrives."""

    t: int
    arm: int
    greedy: int
    payment: float
    drift: float
    feedback: float | None
    offered: int
    probe: int | None
    seen_from: int | None
    """The round from which the feedback is visible, if it is within the horizon."""
    reward: float


@dataclass(frozen=True)
class Rating:
    """A rating that has not arrived yet."""

    due: int
    t: int
    arm: int
    feedback: float


def play(
    *,
    policy: oracle.Policy,
    arms: int,
    horizon: int,
    reward: Callable[[int], float],
    drift: Callable[[float, float, int, int], float],
    accepts: Callable[[float], bool],
    coin: Callable[[], int | None],
    probe_amount: float,
    is_lost: Callable[[], bool],
    delay: Callable[[], float],
    rating_window: int | None,
    manipulate: Callable[[float, int, Sequence[Sequence[float]]], float],
    uniform: Callable[[], float],
    normal: Callable[[], float],
    in_flight_counts: bool,
    responds: Callable[[float, float], bool] = lambda reward, payment: True,
    prior: float = 0.0,
) -> list[Round]:
    """Run rounds 1 ... horizon; first each arm is tried once, unpaid.

    The order within a round: ages of pulls in flight are updated; due ratings arrive, in the order
    of their pulls; the policy draws; the coin is tossed; the player decides; the reward is drawn;
    the drift and the adversary change the feedback; the player rates or not, depending on reward
    and payment; the rating is lost or scheduled. A rating of round t with delay d is visible from
    round t + 1 + floor(d) on: its age is then d, because a pull's age counts from the round after
    it.
    """
    ratings: list[list[float]] = [[] for _ in range(arms)]
    pending: list[Rating] = []
    flight = ReferenceInFlight(rating_window or horizon)
    rounds: list[Round] = []
    for t in range(1, horizon + 1):
        flight.update_ages(t)
        for rating in sorted((r for r in pending if r.due == t), key=lambda r: r.t):
            ratings[rating.arm].append(rating.feedback)
            flight.end(rating.t, t, "rated")
        pending = [r for r in pending if r.due > t]
        means = [oracle.average(of_arm, prior) for of_arm in ratings]
        if t <= arms:
            offered = greedy = t - 1
            payment = 0.0
        else:
            pulls: list[float] = [len(of_arm) for of_arm in ratings]
            if in_flight_counts:
                pulls = [n + flight.expected(i) for i, n in enumerate(pulls)]
            offered = oracle.select(policy, t, pulls, means, uniform, normal)
            greedy = oracle.greedy_choice(offered, means)
            payment = means[greedy] - means[offered] if offered != greedy else 0.0
        probe = coin()
        if probe == 1:
            payment += probe_amount
        arm = offered
        if arm != greedy and not accepts(payment):
            arm, payment = greedy, 0.0
        r = reward(arm)
        b = drift(r, payment, t, arm)
        rating_value = r + b
        rating_value += manipulate(rating_value, arm, ratings)
        d = delay() if responds(r, payment) and not is_lost() else math.inf
        feedback = rating_value if d < (rating_window or math.inf) else None
        seen_from = None
        if feedback is not None and t + 1 + math.floor(d) <= horizon:
            seen_from = t + 1 + math.floor(d)
            pending.append(Rating(seen_from, t, arm, feedback))
        flight.begin(t, t + 1, arm)
        rounds.append(Round(t, arm, greedy, payment, b, feedback, offered, probe, seen_from, r))
    return rounds


def strategic(budget: float, at_most: float, best: int) -> Callable[..., float]:
    """Every arm but the best raises its own feedback until its budget is spent."""
    spent: dict[int, float] = {}

    def manipulate(feedback: float, arm: int, ratings: Sequence[Sequence[float]]) -> float:
        if arm == best:
            return 0.0
        added = min(at_most, budget - spent.get(arm, 0.0))
        spent[arm] = spent.get(arm, 0.0) + added
        return added

    return manipulate


def attack(target: int, sigma: float, delta: float, margin: float) -> Callable[..., float]:
    """Jun et al. 2018: lower the others' averages below the target's lower confidence bound."""

    def manipulate(feedback: float, arm: int, ratings: Sequence[Sequence[float]]) -> float:
        n = len(ratings[target])
        if arm == target or n == 0:
            return 0.0
        K = len(ratings)
        beta = math.sqrt(2 * sigma**2 / n * math.log(math.pi**2 * K * n**2 / (3 * delta)))
        ceiling = oracle.total(ratings[target]) / n - 2 * beta - margin
        needed = ceiling * (len(ratings[arm]) + 1) - oracle.total(ratings[arm])
        return min(0.0, needed - feedback)

    return manipulate


def jumping(
    start: Sequence[float], at: Sequence[int], means: Sequence[Sequence[float]], horizon: int
) -> list[list[float]]:
    """The means of rounds 1 ... horizon: from round at[j] on, those of row j."""
    changes = dict(zip(at, means, strict=True))
    path = [list(start)]
    for t in range(2, horizon + 1):
        path.append(list(changes.get(t, path[-1])))
    return path


def wandering(
    start: Sequence[float],
    rate: float,
    bounds: tuple[float, float] | None,
    horizon: int,
    normal: Callable[[], float],
    uniform: Callable[[], float],
) -> tuple[list[list[float]], list[float]]:
    """The means of all rounds and, with bounds, the draw of each that may replace its reward."""
    path, draws = [list(start)], [uniform() if bounds else 0.0]
    for _ in range(2, horizon + 1):
        means = [mean + rate * normal() for mean in path[-1]]
        while bounds and not all(bounds[0] <= mean <= bounds[1] for mean in means):
            means = [2 * bounds[0] - mean if mean < bounds[0] else mean for mean in means]
            means = [2 * bounds[1] - mean if mean > bounds[1] else mean for mean in means]
        path.append(means)
        draws.append(uniform() if bounds else 0.0)
    return path, draws


def moved(
    reward: float, usual: float, mean: float, bounds: tuple[float, float] | None, u: float
) -> float:
    """A reward of an arm whose mean has moved: shifted or, with bounds, perhaps replaced."""
    if bounds is None:
        return reward + (mean - usual)
    low, high = bounds
    if mean < usual and u < (usual - mean) / (usual - low):
        return low
    if mean > usual and u < (mean - usual) / (high - usual):
        return high
    return reward


def regret_by_round(arms: Sequence[int], path: Sequence[Sequence[float]]) -> float:
    """The sum over rounds of the best mean of the round minus that of the arm pulled in it."""
    return oracle.total(max(means) - means[arm] for arm, means in zip(arms, path, strict=True))
