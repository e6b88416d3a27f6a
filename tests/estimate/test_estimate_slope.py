"""Slopes from probes are unbiased and their intervals valid; regression is biased.

Seeds are fixed. If a test could fail by chance, its docstring gives the probability.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from estimate_fixtures import PAPER, POLICIES, PROBE, SLOPES, TEA, covers, drift_of, log, traces
from scipy import stats
from sizes import sized

import entice
from entice.estimate import DriftEstimator, probe_curve, probe_slope, regression
from entice.estimate.interval import t_critical_value


def test_the_fixture_returns_the_columns_of_a_trace() -> None:
    (ours,) = traces(1, POLICIES[0], drift_of(slope=1.1), horizon=500, probe=PROBE)
    theirs = entice.trace(
        arms=PAPER, policies=POLICIES[:1], drifts=[drift_of(slope=1.1)], horizon=500, seed=7,
        probe=PROBE,
    )  # fmt: skip
    assert probe_slope(ours) == probe_slope(theirs)
    assert regression(ours) == regression(theirs)


# --- Computed by hand -----------------------------------------------------------------------


def test_a_slope_computed_by_hand() -> None:
    """Each rating against the mean of those before it: 0.5, 0.7, 1.9/3 and 2.7/4."""
    u = np.array([2 * (0.9 - 0.5), -2 * (0.5 - 0.7), 2 * (0.8 - 1.9 / 3), -2 * (0.6 - 0.675)])
    found = probe_slope(TEA, amount=0.3)
    stderr = u.std(ddof=1) / 0.3 / 2
    assert found.slope == pytest.approx(u.mean() / 0.3)
    assert found.stderr == pytest.approx(stderr)
    assert found.high - found.slope == pytest.approx(3.182446 * stderr, rel=1e-6)
    assert found.slope - found.low == pytest.approx(3.182446 * stderr, rel=1e-6)
    assert found.observations == 4
    assert "randomised probe" in found.method


def test_probes_are_weighted_by_the_square_of_their_amount() -> None:
    amounts = [None, 0.3, 0.6, 0.3, 0.6]
    frame = TEA.with_columns(
        pl.Series("payment", [0.0, 0.3, 0.0, 0.3, 0.0]), pl.Series("probe_amount", amounts)
    )
    a = np.array(amounts[1:], dtype=float)
    u = np.array([2 * (0.9 - 0.5), -2 * (0.5 - 0.7), 2 * (0.8 - 1.9 / 3), -2 * (0.6 - 0.675)])
    slope = (a @ u) / (a @ a)
    found = probe_slope(frame)
    assert found.slope == pytest.approx(slope)
    error = math.sqrt(4 / 3 * np.sum((a * (u - slope * a)) ** 2)) / (a @ a)
    assert found.stderr == pytest.approx(error)


def test_first_ratings_and_missing_ratings_are_ignored() -> None:
    more = log(("milk", 0.3, 5.0, 1), ("tea", 0.3, None, 1), ("tea", 0.3, math.nan, 1))
    with_more, found = probe_slope(pl.concat([more, TEA]), amount=0.3), probe_slope(TEA, amount=0.3)
    assert with_more[:-1] == found[:-1]  # all but the bounds


def test_rounds_are_sorted_by_time() -> None:
    timed = TEA.with_columns(t=pl.int_range(pl.len()))
    assert probe_slope(timed.reverse(), amount=0.3) == probe_slope(TEA, amount=0.3)
    assert probe_slope(TEA.reverse(), amount=0.3) != probe_slope(TEA, amount=0.3)


def test_a_regression_is_least_squares_with_an_intercept_per_arm() -> None:
    """Its standard error is HC1, computed here from the textbook's matrices."""
    rng = np.random.default_rng(7)
    arm, x = rng.integers(0, 3, 40), rng.uniform(0, 1, 40)
    y = arm + 0.7 * x + rng.normal(size=40) * x
    design = np.column_stack([x, np.eye(3)[arm]])
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ y
    residuals = y - design @ fitted
    variance = inverse @ (design.T * residuals**2 @ design) @ inverse * 40 / 36
    found = regression(pl.DataFrame({"arm": arm, "payment": x, "feedback": y}), level=0.9)
    assert found.slope == pytest.approx(fitted[0])
    assert found.stderr == pytest.approx(math.sqrt(variance[0, 0]))
    assert found.high == pytest.approx(fitted[0] + stats.t.ppf(0.95, 36) * found.stderr)
    assert found.observations == 40


@pytest.mark.usefixtures("plain")
def test_a_regression_carries_a_warning() -> None:
    rounds = entice.trace(arms=PAPER, policies=POLICIES[:1], horizon=200, seed=7)
    assert regression(rounds).warning.startswith("biased")
    assert regression.__doc__ is not None
    assert "Biased" in regression.__doc__


@pytest.mark.parametrize("degrees_of_freedom", [1, 2, 3.7, 10, 99, 1e4, 1e6])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_critical_values_match_scipy(level: float, degrees_of_freedom: float) -> None:
    assert t_critical_value(level, degrees_of_freedom) == pytest.approx(
        stats.t.ppf((1 + level) / 2, degrees_of_freedom), rel=1e-6
    )


# --- Bias and coverage ----------------------------------------------------------------------


def adaptive_run(coins: tuple[int, ...], noise: np.ndarray, l: float) -> DriftEstimator:
    """Run a principal whose arms and payments depend on past feedback."""
    estimator, sums, pulls = DriftEstimator(amount=0.3), np.zeros(2), np.zeros(2)
    for t, coin in enumerate((None, None, *coins)):
        arm = t if t < 2 else int(sums[1] / pulls[1] > sums[0] / pulls[0])
        base = 0.0 if t < 2 else 0.4 * abs(sums[0] / pulls[0] - sums[1] / pulls[1])
        payment = base + (0.3 if coin else 0.0)
        feedback = float(noise[t] + l * payment)
        estimator.add(arm, payment, feedback, coin)
        sums[arm] += feedback
        pulls[arm] += 1
    return estimator


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("l", [0.0, 3.0])
def test_the_mean_over_all_coin_sequences_is_the_true_slope(l: float) -> None:
    """Exact: all 2^11 runs, in which earlier probes correct later ones."""
    noise = np.random.default_rng(3).normal(scale=0.2, size=13)
    slopes = [
        adaptive_run(c, noise, l).estimate().slope for c in itertools.product((0, 1), repeat=11)
    ]
    assert np.mean(slopes) == pytest.approx(l, abs=1e-11)
    assert np.std(slopes) > 0.1


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
def test_the_regression_finds_a_drift_where_there_is_none(policy: Any) -> None:
    """About 0.34 (UCB) and 0.41 (Thompson), ± 0.035: the range is ± 4 standard errors.

    About 6 in 10 intervals cover the truth; that 9 in 10 of 40 do has a probability of 3e-4.
    """
    rounds = traces(40, policy, entice.LinearDrift(0.0), horizon=20_000)
    found = [regression(frame) for frame in rounds]
    assert 0.2 < np.mean([e.slope for e in found]) < 0.56
    assert np.mean([covers(e, 0.0) for e in found]) < 0.9


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("l", SLOPES)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
def test_the_slope_from_probes_is_unbiased(policy: Any, l: float) -> None:
    """Within 4.5 standard errors; fails by chance with probability 7e-6."""
    runs = sized(20, 40)
    rounds = traces(runs, policy, drift_of(slope=l), horizon=20_000, probe=PROBE)
    found = [probe_slope(frame) for frame in rounds]
    error = math.sqrt(sum(e.stderr**2 for e in found)) / runs
    assert abs(np.mean([e.slope for e in found]) - l) < 4.5 * error
    assert error < sized(0.057, 0.04)
    assert all(e.warning == "" for e in found)


@pytest.mark.usefixtures("untraced")
def test_95_percent_intervals_cover_the_truth_95_times_in_100() -> None:
    """600 intervals within 4 points; fails by chance with probability 1 in 60,000.

    The long version has 2,400 within 2 points: 1 in 140,000.
    """
    covered = []
    for seed, (policy, l) in enumerate(itertools.product(POLICIES, SLOPES)):
        drift = drift_of(slope=l)
        for frame in traces(sized(100, 400), policy, drift, horizon=1000, probe=PROBE, seed=seed):
            covered.append(covers(probe_slope(frame), l))
    assert len(covered) == sized(600, 2400)
    assert abs(np.mean(covered) - 0.95) < sized(0.04, 0.02)


@pytest.mark.usefixtures("untraced")
def test_intervals_from_a_dozen_probes_are_valid() -> None:
    """500 intervals of 95 %; fails by chance with probability 1 in 60,000.

    The long version has 1,000: 1 in 28,000.
    """
    probe = entice.Probe(share=0.1, amount=0.3)
    runs = sized(500, 1000)
    rounds = traces(runs, POLICIES[0], drift_of(slope=1.1), horizon=130, probe=probe)
    found = [probe_slope(frame) for frame in rounds]
    assert np.mean([e.observations for e in found]) < 14
    assert np.mean([covers(e, 1.1) for e in found]) > sized(0.905, 0.92)


@pytest.mark.usefixtures("untraced")
def test_a_strong_drift_with_little_noise_is_estimated_precisely() -> None:
    """Within 4.5 standard errors; correcting predictions for payments narrows the interval."""
    arms = entice.Gaussian([0.9, 0.5, 0.1], std=0.05)
    rounds = traces(20, POLICIES[0], drift_of(slope=5.0), arms=arms, horizon=4000, probe=PROBE)
    found = [probe_slope(frame) for frame in rounds]
    error = math.sqrt(sum(e.stderr**2 for e in found)) / 20
    assert abs(np.mean([e.slope for e in found]) - 5.0) < 4.5 * error
    # Uncorrected, u has a standard deviation of 5 · 0.3, so the error is 0.35 (5 / √200).
    assert np.median([e.stderr for e in found]) < 0.25


# --- Declined offers, late and missing ratings ----------------------------------------------


WORLDS = {
    "late and missing": entice.Players(delay=20, loss=0.5),
    "may decline": entice.Players(acceptance=entice.LogisticAcceptance(midpoint=0.3, width=0.1)),
}


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("players", WORLDS.values(), ids=WORLDS)
def test_declined_offers_and_missing_ratings_cause_no_bias(players: entice.Players) -> None:
    """A 99.999 % interval; fails by chance with probability 1 in 100,000."""
    rounds = entice.trace(
        arms=PAPER, policies=POLICIES[:1], drifts=[entice.LinearDrift(1.1)], horizon=20_000, seed=7,
        probe=entice.Probe(share=0.5, amount=0.3), players=players,
    )  # fmt: skip
    found = probe_slope(rounds, level=0.99999)
    assert covers(found, 1.1)
    assert found.stderr < 0.3
    assert found.warning == ""


def test_only_probes_of_the_players_own_choice_count_if_offers_may_be_declined() -> None:
    free = log(("tea", 0.0, 9.0, 1), ("tea", 0.5, 9.0, 0)).with_columns(
        offered_arm=pl.Series(["milk", "tea"]), greedy_arm=pl.Series(["tea", "milk"])
    )
    own = TEA.with_columns(offered_arm=pl.col("arm"), greedy_arm=pl.col("arm"))
    assert probe_slope(pl.concat([own, free]), amount=0.3) == probe_slope(TEA, amount=0.3)


def test_an_unfair_coin_is_reported() -> None:
    rng = np.random.default_rng(7)
    rows = [("tea", 0.3 * coin, float(rng.normal()), coin) for coin in [1] * 70 + [0] * 30]
    frame = log(("tea", 0.0, 0.0, None), *rows)
    assert "heads in 70 of 100 probed offers" in probe_slope(frame, amount=0.3).warning
    assert "heads in 70 of 100 rated probes" in probe_curve(frame, amount=0.3).warning
    # Among all offers, the coin is fair: payment brought ratings.
    unrated = log(*[("tea", 0.0, None, 0)] * 40)
    rated_or_not = pl.concat([frame, unrated], how="vertical_relaxed")
    assert "fell heads" not in probe_slope(rated_or_not, amount=0.3).warning
    unfair = pl.concat([frame, *[unrated] * 4], how="vertical_relaxed")
    assert "heads in 70 of 260 probed offers" in probe_slope(unfair, amount=0.3).warning
    assert probe_slope(TEA, amount=0.3).warning == "based on only 4 probed offers"


# --- Online estimates -----------------------------------------------------------------------


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("amount", [0.3, [0.1, 0.3, 0.6]])
def test_online_estimates_equal_batch_estimates(amount: Any) -> None:
    rounds = entice.trace(
        arms=entice.Gaussian([0.9, 0.7, 0.5], std=0.3), policies=[entice.ThompsonSampling()],
        drifts=[entice.LinearDrift(1.1)], horizon=5000, seed=7,
        probe=entice.Probe(share=0.1, amount=amount), players=entice.Players(loss=0.2),
    )  # fmt: skip
    estimator = DriftEstimator()
    columns = ("arm", "payment", "feedback", "probe", "probe_amount")
    for row in rounds.select(columns).drop_nulls("feedback").iter_rows():
        estimator.add(*row)
    for probe, amount in rounds.select(columns[3:]).drop_nulls().iter_rows():
        estimator.add_offer(probe, amount)
    online, batch = estimator.estimate(level=0.9), probe_slope(rounds, level=0.9)
    assert estimator.probes == batch.observations > 300
    assert online[:5] == pytest.approx(batch[:5], rel=1e-9)
    assert online[5:7] == batch[5:7]
    assert online.bounds == pytest.approx(batch.bounds, rel=1e-9)


@pytest.mark.parametrize(
    ("rating", "message"),
    [
        (("tea", "much", 0.5), "payment must be a number; got 'much'."),
        (("tea", 0.0, math.nan), "feedback must be a finite number; got nan."),
        (("tea", 0.3, 0.5, 2), "probe must be 1, 0 or None; got 2."),
        (("tea", 0.3, 0.5, 1), "amount must be given: the amount that heads add to the payment."),
        (("tea", 0.3, 0.5, 1, -0.3), "amount must be greater than 0; got -0.3."),
        (("tea", 0.1, 0.5, 1, 0.3), "payment must include the 0.3 that heads added; got 0.1."),
    ],
)
def test_invalid_ratings_are_rejected(rating: tuple[Any, ...], message: str) -> None:
    estimator = DriftEstimator()
    with pytest.raises(entice.InputError) as caught:
        estimator.add(*rating)
    assert str(caught.value) == message


def test_an_estimate_requires_two_probes() -> None:
    estimator = DriftEstimator(amount=0.3)
    estimator.add("tea", 0.0, 0.5)
    estimator.add("tea", 0.3, 0.6, 1)
    assert estimator.probes == 1
    with pytest.raises(entice.InputError, match="at least 2 rated probes"):
        estimator.estimate()
