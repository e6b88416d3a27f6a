"""The interval of the difference holds at every look. A fixed-n interval does not.

Seeds are fixed. If a test could fail by chance, its docstring gives the probability.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from holdout_looks import (
    HIGHEST,
    LOWEST,
    WORLDS,
    World,
    around,
    constant,
    misses_of_fixed_n,
    misses_of_sequence,
    simulate_looks,
)
from scipy import optimize, special, stats
from sizes import sized

from entice.estimate.confidence_sequence import (
    PRIOR_RATINGS,
    RATES,
    WEIGHTS,
    RatingSums,
    difference_interval,
    sum_bound,
    variance_bound,
)

pytestmark = pytest.mark.usefixtures("unmeasured")

LOOKS = 1_000
SPAN, MIDDLE = HIGHEST - LOWEST, (LOWEST + HIGHEST) / 2


def predicted_squares(ratings: list[float]) -> float:
    """Return Σ (Y_i − Ŷ_i)², rating by rating."""
    total, count, squares = PRIOR_RATINGS * MIDDLE, PRIOR_RATINGS, 0.0
    for rating in ratings:
        squares += (rating - total / count) ** 2
        total, count = total + rating, count + 1
    return squares


def sums_of(ratings: list[float]) -> RatingSums:
    y = np.array(ratings)
    return RatingSums(np.asarray(float(len(y))), np.asarray(y.sum()), np.asarray(y @ y))


def test_coverage_at_any_of_1000_looks() -> None:
    """At 95 % confidence at most 5 % of the replications may miss at any look.

    If it were more than 5 % of them, so few misses would have a probability below 0.001. The
    fixed-n interval, the control, misses in more than a fifth of the replications of each world.
    """
    missed, replications = 0, sized(30, 300)
    for k, world in enumerate(WORLDS):
        looks = simulate_looks(
            world, np.random.default_rng(k), replications=replications, looks=LOOKS, batch=10
        )
        missed += int(misses_of_sequence(world.holdout, looks).any(axis=1).sum())
        assert misses_of_fixed_n(looks).any(axis=1).mean() > 0.2, world.name
    assert stats.binom.cdf(missed, replications * len(WORLDS), 0.05) < 0.001


def test_a_fixed_n_interval_fails_when_it_is_looked_at_daily() -> None:
    """At the last look it misses 5 %, at any of 365 daily ones more than 25 %.

    Of 400 replications more than 9.5 % miss at the last look with a probability of 10⁻⁴. At any
    look more than 40 % miss, so that fewer than 25 % have a probability below 10⁻⁶.
    """
    world = World("no effect", 0.1, constant(4.0, 4.0), around)
    looks = simulate_looks(
        world, np.random.default_rng(5), replications=400, looks=365, batch=50
    )  # fmt: skip
    misses = misses_of_fixed_n(looks)
    assert misses[:, -1].mean() < 0.095
    assert misses.any(axis=1).mean() > 0.25


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("held_out", [30.0, 300.0, 1_000.0, 1e6])
def test_the_interval_is_not_needlessly_wide(share: float, held_out: float) -> None:
    """It is at most 1.3 times as wide as an asymptotic confidence sequence.

    That sequence (Waudby-Smith et al. 2024, Theorem 2.2) is tuned for 1,000 ratings of the holdout.
    Ratings have a standard deviation of 1.
    """
    paid = held_out * (1 - share) / share
    groups = [RatingSums(*map(np.asarray, (n, 4 * n, 17 * n))) for n in (paid, held_out)]
    difference, low, high = difference_interval(
        *groups, share_of_other=share, lowest=1, highest=5, confidence=0.95
    )
    assert difference == 0
    assert low == -high
    log_error = -2 * math.log(0.05)
    tuned = (log_error + math.log(log_error + 1)) * held_out / 1_000  # n ρ², Appendix B.2
    times = math.sqrt((tuned + 1) / tuned * 2 * math.log(math.sqrt(tuned + 1) / 0.05))
    asymptotic = times * math.sqrt(1 / paid + 1 / held_out)
    assert 0.9 * asymptotic < high < 1.3 * asymptotic


def test_the_process_is_a_supermartingale() -> None:
    """Its mean over all sequences of eight ratings of 1 or 5 stars is at most 1: exact.

    The control, with λ²/2 in place of ψ(λ), has a mean above 1.
    """
    worst = worst_control = 0.0
    sequences = [list(s) for s in itertools.product((1.0, 5.0), repeat=8)]
    squares = np.array([predicted_squares(s) for s in sequences])
    totals = np.array([sum(s) for s in sequences])
    for p, rate in itertools.product((0.05, 0.5, 0.95), RATES[:8]):
        mean = 5 * p + 1 * (1 - p)
        chance = p ** ((totals - 8) / 4) * (1 - p) ** ((40 - totals) / 4)
        psi = (-math.log1p(-rate) - rate) / SPAN**2
        deviation = rate / SPAN * (totals - 8 * mean)
        for side in (1, -1):
            worst = max(worst, chance @ np.exp(side * deviation - psi * squares))
            gaussian = (rate / SPAN) ** 2 / 2
            process = np.exp(side * deviation - gaussian * squares)
            worst_control = max(worst_control, chance @ process)
    assert worst <= 1 + 1e-12
    assert worst_control > 1.005


def test_the_bound_solves_its_equation() -> None:
    """Compared with a root finder."""
    assert WEIGHTS.sum() == pytest.approx(1)
    psi = (-np.log1p(-RATES) - RATES) / SPAN**2

    def exponent(bound: float, variance: float) -> float:
        return float(special.logsumexp(RATES / SPAN * bound - psi * variance, b=WEIGHTS))

    variances = np.array([0.0, 1.0, 50.0, 3e3, 4e5, 1e9])
    expected = [
        optimize.brentq(lambda u, v=v: exponent(u, v) - math.log(40), 0, 1e7) for v in variances
    ]
    assert sum_bound(variances, SPAN, 0.025) == pytest.approx(np.array(expected), rel=1e-9)


def test_sums_bound_the_sum_of_squared_prediction_errors() -> None:
    """For random ratings, and for those with the largest errors first."""
    rng = np.random.default_rng(3)
    sequences = [rng.integers(1, 6, size=n).astype(float).tolist() for n in range(1, 60)]
    sequences += [[1.0] * k + [5.0] * (50 - k) for k in range(51)]
    sequences += [[5.0, 1.0] * k + [4.0] * 200 for k in range(20)]
    excess = []
    for ratings in sequences:
        bound = float(variance_bound(sums_of(ratings), MIDDLE, SPAN))
        excess.append(bound / predicted_squares(ratings))
    assert min(excess) >= 1
    assert min(excess) < 1.1  # it is nearly reached
    many = rng.integers(1, 6, size=5_000).astype(float).tolist()
    assert float(variance_bound(sums_of(many), MIDDLE, SPAN)) < 1.02 * predicted_squares(many)


def test_a_clear_effect_is_found() -> None:
    """The interval excludes 0 at the end, after 1,500 ratings of the holdout.

    The effect is 0.3 stars, the interval ± 0.13: a failure is 8 standard errors away.
    """
    world = World("+0.3 stars", 0.1, constant(4.2, 3.9), around)
    looks = simulate_looks(
        world, np.random.default_rng(11), replications=40, looks=15, batch=1_000
    )  # fmt: skip
    paid, holdout = (RatingSums(*(x[:, -1] for x in group)) for group in looks[:2])
    _, low, high = difference_interval(
        paid, holdout, share_of_other=0.1, lowest=1, highest=5, confidence=0.95
    )
    assert (low > 0).all()
    assert (high < 0.6).all()
