"""A plain-Python oracle of the bounds in Liu et al. (AAAI 2020), independent of the package.

Each function implements one formula of the paper, with loops and the math module, for one horizon
T. "Stated" is the formula of the theorem; "proved" is the sum of the last lines of its proof.
`gaps` holds Delta_i of the K - 1 suboptimal arms, so K = len(gaps) + 1, and `displayed_gap` is the
paper's underlined Delta (Definition 2). Lemmas are numbered by their LaTeX labels: lemmas 1 and 2,
in the supplement, are printed as Lemmas 2 and 3; lemma 3, on Thompson sampling's paid pulls, is
printed as Lemma 1.
"""

import math
from collections.abc import Callable, Sequence


def payment_bound(t: int, n: int) -> float:
    """Proof of Theorem 1, (eq:cb): UCB's largest payment, at time t, for an arm with n pulls."""
    return math.sqrt(2 * math.log(t) / n)


def arm_drift_bound(t: int, n: int, l: float) -> float:
    """Proof of Theorem 1, (bound:B): B_i(t), the sum of the drifts of an arm with n pulls."""
    return 2 * l * math.sqrt(2 * n * math.log(t))


def theorem1_regret_stated(T: int, gaps: Sequence[float], l: float) -> float:
    """Theorem 1, first line: both terms are summed over i."""
    K = len(gaps) + 1
    bound = 0.0
    for gap in gaps:
        bound += 8 * (l + 1) ** 2 * math.log(T) / gap
        bound += gap * (K - 1) * math.pi**2 / 3
    return bound


def theorem1_regret_proved(T: int, gaps: Sequence[float], l: float) -> float:
    """Proof of Theorem 1: the bound on E(n_i(T)), times the gap, over all i."""
    bound = 0.0
    for gap in gaps:
        pulls = 8 * (l + 1) ** 2 * math.log(T) / gap**2 + math.pi**2 / 3
        bound += gap * pulls
    return bound


def theorem1_compensation(T: int, gaps: Sequence[float], l: float) -> float:
    """Theorem 1, second line; the last line of its proof is the same."""
    K = len(gaps) + 1
    bound = 0.0
    for gap in gaps:
        bound += 16 * (l + 1) * math.log(T) / gap
    bound += 16 * (l + 1) * math.log(T) / min(gaps)
    bound += 2 * math.pi * K * math.sqrt(2 * math.log(T) / 3)
    return bound


def theorem2_regret_stated(T: int, gaps: Sequence[float], l: float, c: float) -> float:
    """Theorem 2, (eq:egrb), with S_i(l) as printed, including 18c/gap^2."""
    K = len(gaps) + 1
    bound = 0.0
    for gap in gaps:
        S = 1.5 + 3 * (1 + math.sqrt(3 / c)) * l + 18 * c / gap**2
        bound += c * S * (math.log(T) + 1)
    return bound + c * (K - 1) * (K + math.pi**2 / 6)


def theorem2_regret_proved(T: int, gaps: Sequence[float], l: float, c: float) -> float:
    """Proof of Theorem 2: its bound on A (g read as l), plus lemma 2's on the sums, over all i."""
    K = len(gaps) + 1
    bound = 0.0
    for gap in gaps:
        A = c * (1 + 3 * l * (1 + math.sqrt(3 / c))) * (math.log(T) + 1)
        lemma2 = (c / 2 + 18 / gap**2) * math.log(T) + c * (K + math.pi**2 / gap**2) + 18 / gap**2
        bound += A + lemma2
    return bound


def theorem2_compensation_stated(T: int, gaps: Sequence[float], l: float, c: float) -> float:
    """Theorem 2, second line: with log T."""
    K = len(gaps) + 1
    return max(l, 1.0) * (c + math.sqrt(3 * c)) * K * math.log(T)


def theorem2_compensation_proved(T: int, gaps: Sequence[float], l: float, c: float) -> float:
    """Proof of Theorem 2, last line: with log T + 1."""
    K = len(gaps) + 1
    return max(l, 1.0) * (c + math.sqrt(3 * c)) * K * (math.log(T) + 1)


def lemma1_explorations(T: int, K: int, c: float, delta: float) -> float:
    """Supplement, lemma 1: m_i(T), the explorations of an arm, with probability 1 - delta."""
    expected = 0.0
    for t in range(1, T + 1):
        epsilon = min(1.0, c * K / t)
        expected += epsilon / K
    return expected + math.sqrt(3 * expected * math.log(K / delta))


def thompson_P(T: int, gap: float) -> float:  # noqa: N802
    """Theorem 3: P_i(T) = 18 log(T gap^2) / gap^2; 0 if the logarithm is negative."""
    return max(0.0, 18 * math.log(T * gap**2) / gap**2)


def thompson_Q_stated(T: int, gap: float, l: float, displayed_gap: float) -> int:  # noqa: N802
    """Theorem 3: Q_i(T) as printed."""
    first = (1 + 4 * gap * l / (3 * displayed_gap**2)) * math.log(T)
    second = math.sqrt(1 + 8 * gap * l * math.log(T) / (3 * displayed_gap**2))
    return math.ceil(9 / (2 * gap**2) * (first + second))


def thompson_Q_proved(T: int, gap: float, l: float, displayed_gap: float) -> int:  # noqa: N802
    """Proof of Theorem 3: the smallest integer n from which on the inequality before Q_i holds.

    gap^2/9 n + (2 l log T / displayed_gap^2)^2 / n >= (1 + 4 gap l / (3 displayed_gap^2)) log T.
    Multiplied by n, this is a parabola, negative at its vertex but not at twice that: bisect.
    """
    drift = 2 * l * math.log(T) / displayed_gap**2
    right = (1 + 4 * gap * l / (3 * displayed_gap**2)) * math.log(T)
    low = 9 * right / (2 * gap**2)
    high = 2 * low
    while True:
        middle = (low + high) / 2
        if middle <= low or middle >= high:
            return math.ceil(high)
        if gap**2 / 9 * middle * middle + drift**2 - right * middle < 0:
            low = middle
        else:
            high = middle


def theorem3_regret_stated(T: int, gaps: Sequence[float], l: float, displayed_gap: float) -> float:
    """Theorem 3, first line, with Q_i(T) as printed; no term is multiplied by its gap."""
    bound = 0.0
    for gap in gaps:
        bound += (4 * math.exp(11) + 21) * thompson_P(T, gap) + 5 / gap**2
        bound += thompson_Q_stated(T, gap, l, displayed_gap) + math.pi**2 / 6
    return bound


def theorem3_regret_proved(T: int, gaps: Sequence[float], l: float, displayed_gap: float) -> float:
    """Theorem 3, first line, with Q_i(T) from the inequality that its proof requires."""
    bound = 0.0
    for gap in gaps:
        bound += (4 * math.exp(11) + 21) * thompson_P(T, gap) + 5 / gap**2
        bound += thompson_Q_proved(T, gap, l, displayed_gap) + math.pi**2 / 6
    return bound


def theorem3_compensation(T: int, gaps: Sequence[float], l: float, displayed_gap: float) -> float:
    """Theorem 3, second line; the same as in its proof."""
    K = len(gaps) + 1
    return 2 * max(l, 1.0) * K * math.log(T) / displayed_gap**2


def lemma3_paid_pulls(T: int, displayed_gap: float) -> float:
    """Lemma 3, before Theorem 3: the expected paid pulls of one arm under Thompson sampling."""
    return 2 * math.log(T) / displayed_gap**2


def kl_bernoulli(p: float, q: float) -> float:
    """KL(Bernoulli(p) || Bernoulli(q)): the sum over both outcomes, 0 log 0 being 0."""
    divergence = 0.0
    for here, there in ((p, q), (1 - p, 1 - q)):
        if here > 0:
            if there <= 0:
                return math.inf
            divergence += here * math.log(here / there)
    return divergence


def trapezoid(f: Callable[[float], float], low: float, high: float, steps: int) -> float:
    """The composite trapezoidal rule: exact to rounding for smooth f that vanish at both ends."""
    width = (high - low) / steps
    area = (f(low) + f(high)) / 2
    for k in range(1, steps):
        area += f(low + k * width)
    return area * width


def kl_gaussian_numeric(mean1: float, std1: float, mean2: float, std2: float) -> float:
    """KL(N(mean1, std1^2) || N(mean2, std2^2)): p log(p/q) over 12 deviations on both sides."""

    def log_density(x: float, mean: float, std: float) -> float:
        return -(((x - mean) / std) ** 2) / 2 - math.log(std * math.sqrt(2 * math.pi))

    def integrand(x: float) -> float:
        log_p = log_density(x, mean1, std1)
        return math.exp(log_p) * (log_p - log_density(x, mean2, std2))

    return trapezoid(integrand, mean1 - 12 * std1, mean1 + 12 * std1, 4000)


def kl_beta_numeric(a1: float, b1: float, a2: float, b2: float) -> float:
    """KL(Beta(a1, b1) || Beta(a2, b2)): p log(p/q) over x = 1/(1 + exp(-s)), s from -50 to 50.

    In s, whose dx/ds is x (1 - x), the corners at x = 0 and 1 become exponentially thin tails.
    """

    def integrand(s: float) -> float:
        log_x = -math.log1p(math.exp(-s))
        log_y = -math.log1p(math.exp(s))  # y = 1 - x
        log_p = (a1 - 1) * log_x + (b1 - 1) * log_y
        log_p += math.lgamma(a1 + b1) - math.lgamma(a1) - math.lgamma(b1)
        log_q = (a2 - 1) * log_x + (b2 - 1) * log_y
        log_q += math.lgamma(a2 + b2) - math.lgamma(a2) - math.lgamma(b2)
        return math.exp(log_p + log_x + log_y) * (log_p - log_q)

    return trapezoid(integrand, -50.0, 50.0, 20000)


def steady_state_gap_by_iteration(gap: float, l: float, start: float, pulls: int) -> float:
    """The displayed gap d after `pulls` more paid, noiseless pulls of an arm pulled once.

    From Algorithm 1, steps 8 to 11, with b = l x, where the best arm displays its true mean: the
    arm's average over n pulls is d below it, the payment is d, and the rating is mu_i + l d.
    """
    d = start
    for n in range(1, pulls + 1):
        d += (gap - (1 + l) * d) / (n + 1)
    return d


def equal_pay_terms(
    T: int, gaps: Sequence[float], noise: float, rho: float, eta: float
) -> tuple[list[float], list[float], float]:
    """Return tau_i and X_i of each suboptimal arm, and P, for a policy of horizon T.

    docs/explanation/equal-pay-theorems.md defines them.
    """
    tau, X = [], []
    P = 0.0
    kappa = 1 / math.log(rho) + math.exp(-1)
    for gap in gaps:
        smaller = (1 - eta) * gap
        logarithm = math.log(T * smaller**2 / (4 * rho * noise**2))
        tau.append(4 * rho * noise**2 * max(1.0, logarithm) / smaller**2)
        X.append(4 * noise**2 / (eta * gap) ** 2)
        P += 4 * rho * kappa * noise**2 / (T * gap**2)
    return tau, X, min(P, 1.0)


def equal_pay_leader_pulls(K: int) -> int:
    """The smallest whole k with 2 k^2 >= K - 1: pulls of the leader in a block of K arms."""
    k = 1
    while 2 * k * k < K - 1:
        k += 1
    return k


def equal_pay_regret(T: int, gaps: Sequence[float], noise: float, rho: float, eta: float) -> float:
    """Theorem E2, regret: shared blocks, extra pulls of a wrong leader, and the drop of arm 1."""
    tau, X, P = equal_pay_terms(T, gaps, noise, rho, eta)
    k = equal_pay_leader_pulls(len(gaps) + 1)
    bound = T * max(gaps) * P
    for gap, early, late in zip(gaps, tau, X, strict=True):
        bound += gap * (1 + early + late)
        bound += (k - 1) * 4 * noise**2 / gap
    return bound


def equal_pay_compensation(
    T: int, gaps: Sequence[float], noise: float, rho: float, eta: float, *, rounding: bool = True
) -> float:
    """Theorem E2, compensation: w summed over the blocks of each place, and the rounding."""
    tau, X, P = equal_pay_terms(T, gaps, noise, rho, eta)
    K = len(gaps) + 1
    k = equal_pay_leader_pulls(K)
    longest = max(tau) + 1 + sum(X)
    roots, payments = 0.0, 0.0
    for early, late in zip(tau, X, strict=True):
        roots += math.sqrt(1 + early + late)
        payments += 1 + early + late
    roots += k * math.sqrt(longest) + (K + k - 2) * math.sqrt(T) * P
    payments += k * longest + T * P
    bound = 4 * noise * math.sqrt(rho * max(1.0, math.log(T))) * roots
    return bound + rounding * payments * noise / 4096


def equal_pay_width(b: int, T: int, noise: float, rho: float) -> float:
    """w_b: the largest difference of two average ratings with which both arms survive b blocks."""
    return math.sqrt(4 * rho * noise**2 * max(1.0, math.log(T / b)) / b)
