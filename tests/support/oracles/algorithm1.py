"""A plain-Python oracle of Liu et al. (AAAI 2020), written independently of the package.

It follows Algorithm 1 ("Incentivized MAB under Reward Drift") line by line, and recomputes every
average from all feedback in each round: slow and simple on purpose. Its draws are passed in, so
that a test can feed the same numbers to the package and compare round by round.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Round:
    """One pass of Algorithm 1: I_t, G_t, the compensation, b_t (unprojected) and the feedback."""

    t: int
    arm: int
    greedy: int
    payment: float
    drift: float
    feedback: float


@dataclass(frozen=True)
class UCB:
    """Algorithm 2, step 2: argmax of m_i + noise · sqrt(2 log t / n_i), noise 1 in the paper."""

    noise: float = 1.0


@dataclass(frozen=True)
class EpsilonGreedy:
    """Algorithm 3, steps 2 and 3: explore with probability min(1, cK/t)."""

    c: float


@dataclass(frozen=True)
class Thompson:
    """Algorithm 4, step 2: argmax of N(m_i, 1/(n_i+1)), read as a "variance" or as a "std".

    The standard deviation is multiplied by the noise, 1 in the paper.
    """

    scale: str
    noise: float = 1.0


@dataclass(frozen=True)
class Greedy:
    """The player's own choice, argmax of m_i: never pays, never explores."""


@dataclass(frozen=True)
class BetaThompson:
    """Agrawal and Goyal 2012: argmax of Beta(1 + s_i, 1 + n_i − s_i), s_i within 0 and n_i."""


@dataclass(frozen=True)
class KLUCB:
    """Garivier and Cappé 2011: argmax of max {q : n_i · kl(m_i, q) ≤ log t + c log log t}."""

    c: float = 0.0


Policy = UCB | EpsilonGreedy | Thompson | Greedy | BetaThompson | KLUCB


def total(values: Iterable[float]) -> float:
    """Add from left to right in plain floats (`sum` compensates rounding since Python 3.12)."""
    result = 0.0
    for value in values:
        result += value
    return result


def argmax(values: Sequence[float]) -> int:
    """Return the position of the highest value, ties to the lowest index."""
    return values.index(max(values))


def average(ratings: Sequence[float], prior: float | None) -> float:
    """Return an arm's displayed value: the average drifted reward, or the prior without ratings."""
    if ratings:
        return total(ratings) / len(ratings)
    if prior is None:
        raise ValueError("an arm without ratings has no average; pass a prior")
    return prior


def select(
    policy: Policy,
    t: int,
    pulls: Sequence[float],
    means: Sequence[float],
    uniform: Callable[[], float],
    normal: Callable[[], float],
) -> int:
    """Algorithm 1, step 2: the principal selects I_t from (t, n, m) and the policy's own draws."""
    arms = len(pulls)
    match policy:
        case UCB(noise):
            if 0 in pulls:
                return pulls.index(0)
            widths = [noise * math.sqrt(2 * math.log(t) / pulls[i]) for i in range(arms)]
            return argmax([means[i] + widths[i] for i in range(arms)])
        case EpsilonGreedy(c):
            epsilon = min(1.0, c * arms / t)
            if uniform() < epsilon:
                return min(int(uniform() * arms), arms - 1)
            return argmax(means)
        case Thompson("variance", noise):
            spreads = [noise / math.sqrt(pulls[i] + 1) for i in range(arms)]
            return argmax([means[i] + spreads[i] * normal() for i in range(arms)])
        case Thompson("std", noise):
            spreads = [noise / (pulls[i] + 1) for i in range(arms)]
            return argmax([means[i] + spreads[i] * normal() for i in range(arms)])
        case BetaThompson():
            ones = [pulls[i] * project(means[i], (0.0, 1.0)) for i in range(arms)]
            return argmax(
                [beta(1 + ones[i], 1 + pulls[i] - ones[i], uniform, normal) for i in range(arms)]
            )
        case KLUCB(c):
            if 0 in pulls:
                return pulls.index(0)
            level = math.log(t) + (c * math.log(math.log(t)) if t >= 3 else 0.0)
            shares = [project(mean, (0.0, 1.0)) for mean in means]
            return argmax([kl_bound(shares[i], level / pulls[i]) for i in range(arms)])
        case Greedy():
            return argmax(means)
    raise ValueError(f"unknown policy {policy}")


def kl_bound(p: float, radius: float) -> float:
    """Return the largest q with p log(p/q) + (1−p) log((1−p)/(1−q)) ≤ radius, by bisection.

    Bounds that differ from 1 by less than 10⁻¹² are 1, so that arms can tie there.
    """

    def kl(q: float) -> float:
        below = p * math.log(p / q) if p > 0 else 0.0
        above = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
        return below + above

    low, high = p, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if p < 1 and (middle == 1 or kl(middle) > radius):
            high = middle
        else:
            low = middle
    return 1.0 if high > 1 - 1e-12 else high


def beta(a: float, b: float, uniform: Callable[[], float], normal: Callable[[], float]) -> float:
    """Draw a Beta(a, b) variable from two gamma variables, the second one first."""
    second = gamma(b, uniform, normal)
    first = gamma(a, uniform, normal)
    return first / (first + second)


def gamma(shape: float, uniform: Callable[[], float], normal: Callable[[], float]) -> float:
    """Draw a gamma variable (Marsaglia and Tsang 2000), for shapes of at least 1."""
    d = shape - 1 / 3
    while True:
        x = normal()
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(1 - uniform()) < x**2 / 2 + d * (1 - v + math.log(v)):
            return d * v


def greedy_choice(arm: int, means: Sequence[float]) -> int:
    """Algorithm 1, step 3: G_t = argmax m_i; the selected arm itself if it ties for the best."""
    return arm if means[arm] == max(means) else argmax(means)


def project(value: float, feedback_range: tuple[float, float] | None) -> float:
    """Algorithm 3, step 4: [r_t + b_t] projected onto the range, if there is one."""
    if feedback_range is None:
        return value
    low, high = feedback_range
    return min(max(value, low), high)


def play(
    *,
    policy: Policy,
    arms: int,
    horizon: int,
    reward: Callable[[int], float],
    drift: Callable[[float, int, int], float],
    uniform: Callable[[], float],
    normal: Callable[[], float],
    prior: float | None,
    feedback_range: tuple[float, float] | None,
) -> list[Round]:
    """Run Algorithm 1 for rounds 1 ... horizon and return all rounds.

    Without a prior, rounds 1 ... K pull each arm once, unpaid and without a policy draw. With a
    prior, unrated arms display it and are paid for like any other. `drift(payment, t, arm)` is
    called in compensated rounds only. In a round, the policy draws first, `reward(arm)` last.
    """
    ratings: list[list[float]] = [[] for _ in range(arms)]
    rounds: list[Round] = []
    for t in range(1, horizon + 1):
        payment, b = 0.0, 0.0
        if prior is None and t <= arms:
            arm = greedy = t - 1
        else:
            pulls = [len(of_arm) for of_arm in ratings]
            means = [average(of_arm, prior) for of_arm in ratings]
            arm = select(policy, t, pulls, means, uniform, normal)  # step 2
            greedy = greedy_choice(arm, means)  # step 3
            if arm != greedy:  # steps 4 to 7
                payment = means[greedy] - means[arm]  # step 8
                b = drift(payment, t, arm)  # step 9
        feedback = project(reward(arm) + b, feedback_range)  # steps 6 and 9
        ratings[arm].append(feedback)  # step 11
        rounds.append(Round(t, arm, greedy, payment, b, feedback))
    return rounds


def regret(rounds: Sequence[Round], means: Sequence[float]) -> float:
    """R(T): the sum of differences between the best true mean and the pulled arms'."""
    return total(max(means) - means[r.arm] for r in rounds)


def compensation(rounds: Sequence[Round]) -> float:
    """C(T): the total of payments (the paper's formula has the sign of step 8 reversed)."""
    return total(r.payment for r in rounds)


def compensated_pulls(rounds: Sequence[Round]) -> int:
    """Table 2 (N): the rounds in which the principal's arm was not the player's."""
    return len([r for r in rounds if r.arm != r.greedy])


def total_drift(rounds: Sequence[Round]) -> float:
    """B(T), over all arms: the sum of b_t, before any projection."""
    return total(r.drift for r in rounds)


def best_arm_error(rounds: Sequence[Round], means: Sequence[float], prior: float | None) -> float:
    """Table 2 (E): the relative error of the best arm's average against its true mean."""
    best = argmax(means)
    displayed = average([r.feedback for r in rounds if r.arm == best], prior)
    return abs(displayed - means[best]) / abs(means[best])
