"""A plain-Python oracle of worlds beyond the paper: slow and obvious on purpose.

It plays Algorithm 1 through `naive.select`, with ratings that come late or never, players who
decline, probes, feedback that depends on more than the payment, and meddlers. All draws are handed
in, so that a test can feed the same numbers to the package and compare round for round.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import naive


@dataclass(frozen=True)
class Round:
    """What a trace shows of a round; `feedback` is None if it never comes."""

    t: int
    arm: int
    greedy: int
    payment: float
    drift: float
    feedback: float | None
    offered: int
    probe: int | None


def play(
    *,
    policy: naive.Policy,
    arms: int,
    horizon: int,
    reward: Callable[[int], float],
    bend: Callable[[float, float, int, int], float],
    accepts: Callable[[float], bool],
    coin: Callable[[], int | None],
    probe_amount: float,
    is_lost: Callable[[], bool],
    delay: int,
    meddle: Callable[[float, int, Sequence[Sequence[float]]], float],
    uniform: Callable[[], float],
    normal: Callable[[], float],
    in_flight_counts: bool,
    prior: float = 0.0,
) -> list[Round]:
    """Play rounds 1 ... horizon; each arm is tried once, unpaid, first.

    In a round, in this order: ratings that are due arrive; the policy draws; the coin is thrown;
    the player decides; the reward is drawn; the player's feedback is bent, and meddled with; it is
    lost or put on its way. A rating of round t is seen from round t + 1 + delay on.
    """
    ratings: list[list[float]] = [[] for _ in range(arms)]
    under_way: dict[int, tuple[int, float | None]] = {}
    rounds: list[Round] = []
    for t in range(1, horizon + 1):
        due = under_way.pop(t, None)
        if due is not None and due[1] is not None:
            ratings[due[0]].append(due[1])
        means = [naive.average(of_arm, prior) for of_arm in ratings]
        if t <= arms:
            offered = greedy = t - 1
            payment = 0.0
        else:
            pulls = [len(of_arm) for of_arm in ratings]
            if in_flight_counts:
                for arm, _ in under_way.values():
                    pulls[arm] += 1
            offered = naive.select(policy, t, pulls, means, uniform, normal)
            greedy = naive.greedy_choice(offered, means)
            payment = means[greedy] - means[offered] if offered != greedy else 0.0
        probe = coin()
        if probe == 1:
            payment += probe_amount
        arm = offered
        if arm != greedy and not accepts(payment):
            arm, payment = greedy, 0.0
        r = reward(arm)
        b = bend(r, payment, t, arm)
        felt = r + b
        felt += meddle(felt, arm, ratings)
        feedback: float | None = felt
        if is_lost():
            feedback = None
        under_way[t + 1 + delay] = (arm, feedback)
        rounds.append(Round(t, arm, greedy, payment, b, feedback, offered, probe))
    return rounds


def strategic(budget: float, at_most: float, best: int) -> Callable[..., float]:
    """Each arm but the best adds to its own feedback until its budget is spent."""
    spent: dict[int, float] = {}

    def meddle(felt: float, arm: int, ratings: Sequence[Sequence[float]]) -> float:
        if arm == best:
            return 0.0
        added = min(at_most, budget - spent.get(arm, 0.0))
        spent[arm] = spent.get(arm, 0.0) + added
        return added

    return meddle


def attack(target: int, sigma: float, delta: float, margin: float) -> Callable[..., float]:
    """Jun et al. 2018: lower the others' averages below the target's lower confidence bound."""

    def meddle(felt: float, arm: int, ratings: Sequence[Sequence[float]]) -> float:
        n = len(ratings[target])
        if arm == target or n == 0:
            return 0.0
        K = len(ratings)
        beta = math.sqrt(2 * sigma**2 / n * math.log(math.pi**2 * K * n**2 / (3 * delta)))
        ceiling = naive.total(ratings[target]) / n - 2 * beta - margin
        would_be = ceiling * (len(ratings[arm]) + 1) - naive.total(ratings[arm])
        return min(0.0, would_be - felt)

    return meddle
