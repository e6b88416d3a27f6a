"""Estimates of the drift: the probe's hold what they promise, and the regression's do not.

Runs have fixed seeds; where one could go wrong by chance, the docstring says how likely that was
when the seed was chosen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import entice
from entice.engine.kernel import TRACE_COLUMNS
from entice.estimate import DriftEstimator, Estimate, probe_curve, probe_slope, regression
from entice.estimate.curve import isotonic
from entice.estimate.interval import t_critical_value
from entice.study.running.cell import Cell

PAPER = entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
POLICIES = [entice.UCB(), entice.ThompsonSampling()]
SLOPES = [0.0, 0.4, 1.1]
PROBE = entice.Probe(share=0.05, amount=0.3)


def traces(runs: int, policy: Any, drift: Any, **settings: Any) -> Iterator[pl.DataFrame]:
    """Trace so many replications; `entice.trace` would look for the compiled loop each time."""
    settings = {"arms": PAPER, "seed": 7} | settings
    study = entice.Study(policies=[policy], drifts=[drift], **settings)
    cell = Cell(study, policy, drift, stop=np.zeros(1, dtype=np.int64), traced=True)
    for replication in range(runs):
        rounds = np.empty((study.horizon, TRACE_COLUMNS))
        cell.run(replication, cell.allocate(1), rounds)
        yield pl.DataFrame(
            {
                "arm": rounds[:, 0].astype(np.int64),
                "payment": rounds[:, 2],
                "feedback": rounds[:, 4],
                "probe": pl.Series(rounds[:, 6]).replace(-1.0, None),
                "probe_amount": rounds[:, 7],
            }
        )


def holds(estimate: Estimate, slope: float) -> bool:
    return estimate.low <= slope <= estimate.high


def log(*rows: tuple[Any, ...]) -> pl.DataFrame:
    """A log of (arm, payment, feedback, probe)."""
    return pl.DataFrame(rows, schema=["arm", "payment", "feedback", "probe"], orient="row")


TEA = log(
    ("tea", 0.0, 0.5, None), ("tea", 0.3, 0.9, 1), ("tea", 0.0, 0.5, 0),
    ("tea", 0.3, 0.8, 1), ("tea", 0.0, 0.6, 0),
)  # fmt: skip


def test_the_traced_columns_are_those_of_a_trace() -> None:
    (ours,) = traces(1, POLICIES[0], entice.LinearDrift(1.1), horizon=500, probe=PROBE)
    theirs = entice.trace(
        arms=PAPER, policies=POLICIES[:1], drifts=[entice.LinearDrift(1.1)], horizon=500, seed=7,
        probe=PROBE,
    )  # fmt: skip
    assert probe_slope(ours) == probe_slope(theirs)
    assert regression(ours) == regression(theirs)


# --- By hand ----------------------------------------------------------------------------------


def test_a_probe_s_slope_by_hand() -> None:
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


def test_several_amounts_weigh_by_their_square() -> None:
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


def test_an_arm_s_first_rating_and_ratings_that_never_came_tell_nothing() -> None:
    more = log(("milk", 0.3, 5.0, 1), ("tea", 0.3, None, 1), ("tea", 0.3, math.nan, 1))
    assert probe_slope(pl.concat([more, TEA]), amount=0.3) == probe_slope(TEA, amount=0.3)


def test_rounds_are_put_in_order_of_time() -> None:
    timed = TEA.with_columns(t=pl.int_range(pl.len()))
    assert probe_slope(timed.reverse(), amount=0.3) == probe_slope(TEA, amount=0.3)
    assert probe_slope(TEA.reverse(), amount=0.3) != probe_slope(TEA, amount=0.3)


def test_a_regression_is_least_squares_with_a_constant_for_each_arm() -> None:
    """And its standard error is HC1, here from the textbook's matrices."""
    rng = np.random.default_rng(7)
    arm, x = rng.integers(0, 3, 40), rng.uniform(0, 1, 40)
    y = arm + 0.7 * x + rng.normal(size=40) * x
    design = np.column_stack([x, np.eye(3)[arm]])
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ y
    left = y - design @ fitted
    variance = inverse @ (design.T * left**2 @ design) @ inverse * 40 / 36
    found = regression(pl.DataFrame({"arm": arm, "payment": x, "feedback": y}), level=0.9)
    assert found.slope == pytest.approx(fitted[0])
    assert found.stderr == pytest.approx(math.sqrt(variance[0, 0]))
    assert found.high == pytest.approx(fitted[0] + stats.t.ppf(0.95, 36) * found.stderr)
    assert found.observations == 40


def test_a_regression_comes_with_its_warning() -> None:
    rounds = entice.trace(arms=PAPER, policies=POLICIES[:1], horizon=200, seed=7)
    assert regression(rounds).warning.startswith("biased")
    assert regression.__doc__ is not None
    assert "Biased" in regression.__doc__


@pytest.mark.parametrize("freedom", [1, 2, 3.7, 10, 99, 1e4, 1e6])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_intervals_reach_as_far_as_student_s(level: float, degrees_of_freedom: float) -> None:
    assert t_critical_value(level, degrees_of_freedom) == pytest.approx(
        stats.t.ppf((1 + level) / 2, degrees_of_freedom), rel=1e-6
    )


# --- Without bias, whatever payments depend on ------------------------------------------------


def play(coins: tuple[int, ...], noise: np.ndarray, l: float) -> DriftEstimator:
    """Arms and payments that follow past feedback, as a principal's do."""
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


@pytest.mark.parametrize("l", [0.0, 3.0])
def test_the_mean_over_all_ways_in_which_coins_may_fall_is_the_truth(l: float) -> None:
    """Exactly, not by chance: 2^11 runs, in which later probes are corrected by earlier ones."""
    noise = np.random.default_rng(3).normal(scale=0.2, size=13)
    slopes = [play(c, noise, l).estimate().slope for c in itertools.product((0, 1), repeat=11)]
    assert np.mean(slopes) == pytest.approx(l, abs=1e-11)
    assert np.std(slopes) > 0.1


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
def test_the_regression_finds_a_drift_where_there_is_none(policy: Any) -> None:
    """Some 0.34 (UCB) and 0.41 (Thompson), ± 0.035: the range is 4 standard errors wide each way.

    About 6 in 10 intervals hold the truth; that 9 in 10 of 40 do has a probability of 3e-4.
    """
    rounds = traces(40, policy, entice.NoDrift(), horizon=20_000)
    found = [regression(frame) for frame in rounds]
    assert 0.2 < np.mean([e.slope for e in found]) < 0.56
    assert np.mean([holds(e, 0.0) for e in found]) < 0.9


@pytest.mark.parametrize("l", SLOPES)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
def test_the_probe_s_slope_is_without_bias(policy: Any, l: float) -> None:
    """Within 4.5 standard errors, which fails by chance in 7 of a million cases."""
    rounds = traces(40, policy, entice.LinearDrift(l), horizon=20_000, probe=PROBE)
    found = [probe_slope(frame) for frame in rounds]
    error = math.sqrt(sum(e.stderr**2 for e in found)) / 40
    assert abs(np.mean([e.slope for e in found]) - l) < 4.5 * error
    assert error < 0.04
    assert all(e.warning == "" for e in found)


def test_95_percent_intervals_of_the_probe_hold_the_truth_93_to_97_times_in_100() -> None:
    """By chance 2,400 intervals of 95 % are out of that range in 1 of 70,000 cases."""
    told = []
    for seed, (policy, l) in enumerate(itertools.product(POLICIES, SLOPES)):
        drift = entice.LinearDrift(l)
        for frame in traces(400, policy, drift, horizon=1000, probe=PROBE, seed=seed):
            told.append(holds(probe_slope(frame), l))
    assert len(told) == 2400
    assert 0.93 < np.mean(told) < 0.97


def test_intervals_from_a_dozen_probes_are_honest_too() -> None:
    """By chance 1,000 intervals of 95 % are below 92 % in 1 of 28,000 cases."""
    probe = entice.Probe(share=0.1, amount=0.3)
    rounds = traces(1000, POLICIES[0], entice.LinearDrift(1.1), horizon=130, probe=probe)
    found = [probe_slope(frame) for frame in rounds]
    assert np.mean([e.observations for e in found]) < 14
    assert np.mean([holds(e, 1.1) for e in found]) > 0.92


def test_little_noise_and_a_strong_drift_are_no_trouble() -> None:
    """Within 4.5 standard errors; expecting what the drift adds makes the interval narrow."""
    arms = entice.Gaussian([0.9, 0.5, 0.1], std=0.05)
    rounds = traces(20, POLICIES[0], entice.LinearDrift(5.0), arms=arms, horizon=4000, probe=PROBE)
    found = [probe_slope(frame) for frame in rounds]
    error = math.sqrt(sum(e.stderr**2 for e in found)) / 20
    assert abs(np.mean([e.slope for e in found]) - 5.0) < 4.5 * error
    # Without the correction u scatters by 5 · 0.3, and 200 probes leave 5 / √200 = 0.35.
    assert np.median([e.stderr for e in found]) < 0.25


# --- Declined, late and lost ------------------------------------------------------------------

WORLDS = {
    "late and lost": entice.Players(delay=20, loss=0.5),
    "may decline": entice.Players(acceptance=entice.LogisticAcceptance(midpoint=0.3, width=0.1)),
}


@pytest.mark.parametrize("players", WORLDS.values(), ids=WORLDS)
def test_players_who_decline_or_do_not_rate_do_no_harm(players: entice.Players) -> None:
    """A 99.999 % interval, which fails by chance in 1 of 100,000 cases."""
    rounds = entice.trace(
        arms=PAPER, policies=POLICIES[:1], drifts=[entice.LinearDrift(1.1)], horizon=20_000, seed=7,
        probe=entice.Probe(share=0.5, amount=0.3), players=players,
    )  # fmt: skip
    found = probe_slope(rounds, level=0.99999)
    assert holds(found, 1.1)
    assert found.stderr < 0.3
    assert found.warning == ""


def test_only_probes_of_the_player_s_own_choice_count_where_offers_may_be_declined() -> None:
    free = log(("tea", 0.0, 9.0, 1), ("tea", 0.5, 9.0, 0)).with_columns(
        offered_arm=pl.Series(["milk", "tea"]), greedy_arm=pl.Series(["tea", "milk"])
    )
    own = TEA.with_columns(offered_arm=pl.col("arm"), greedy_arm=pl.col("arm"))
    assert probe_slope(pl.concat([own, free]), amount=0.3) == probe_slope(TEA, amount=0.3)


def test_a_coin_that_was_not_fair_is_told() -> None:
    rng = np.random.default_rng(7)
    rows = [("tea", 0.3 * coin, float(rng.normal()), coin) for coin in [1] * 70 + [0] * 30]
    frame = log(("tea", 0.0, 0.0, None), *rows)
    assert "heads in 70 of 100" in probe_slope(frame, amount=0.3).warning
    assert "heads in 70 of 100" in probe_curve(frame, amount=0.3).warning
    assert probe_slope(TEA, amount=0.3).warning == "rests on 4 probed offers only"


# --- Online -----------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [0.3, [0.1, 0.3, 0.6]])
def test_one_rating_at_a_time_gives_what_all_at_once_do(amount: Any) -> None:
    rounds = entice.trace(
        arms=entice.Gaussian([0.9, 0.7, 0.5], std=0.3), policies=[entice.ThompsonSampling()],
        drifts=[entice.LinearDrift(1.1)], horizon=5000, seed=7,
        probe=entice.Probe(share=0.1, amount=amount), players=entice.Players(loss=0.2),
    )  # fmt: skip
    estimator = DriftEstimator()
    columns = ("arm", "payment", "feedback", "probe", "probe_amount")
    for row in rounds.select(columns).drop_nulls("feedback").iter_rows():
        estimator.add(*row)
    online, batch = estimator.estimate(level=0.9), probe_slope(rounds, level=0.9)
    assert estimator.probes == batch.observations > 300
    assert online[:5] == pytest.approx(batch[:5], rel=1e-9)
    assert online[5:] == batch[5:]


@pytest.mark.parametrize(
    ("rating", "message"),
    [
        (("tea", "much", 0.5), "payment must be a number; got 'much'."),
        (("tea", 0.0, math.nan), "feedback must be a finite number; got nan."),
        (("tea", 0.3, 0.5, 2), "probe must be 1, 0 or None; got 2."),
        (("tea", 0.3, 0.5, 1), "amount must be given: what heads add to the payment."),
        (("tea", 0.3, 0.5, 1, -0.3), "amount must be greater than 0; got -0.3."),
        (("tea", 0.1, 0.5, 1, 0.3), "payment must include the 0.3 that heads added; got 0.1."),
    ],
)
def test_a_rating_that_can_not_be_is_refused(rating: tuple[Any, ...], message: str) -> None:
    estimator = DriftEstimator()
    with pytest.raises(entice.InputError) as caught:
        estimator.add(*rating)
    assert str(caught.value) == message


def test_an_estimate_needs_two_probes() -> None:
    estimator = DriftEstimator(amount=0.3)
    estimator.add("tea", 0.0, 0.5)
    estimator.add("tea", 0.3, 0.6, 1)
    assert estimator.probes == 1
    with pytest.raises(entice.InputError, match="at least 2 rated probes"):
        estimator.estimate()


# --- The curve --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "weights", "fitted"),
    [
        ([1, 2, 3], [1, 1, 1], [1, 2, 3]),
        ([3, 2, 1], [1, 1, 1], [2, 2, 2]),
        ([1, 3, 2, 4], [1, 1, 1, 1], [1, 2.5, 2.5, 4]),
        ([1, 3, 2, 4], [1, 1, 3, 1], [1, 2.25, 2.25, 4]),
        ([2, 4, 3, 1], [1, 1, 1, 1], [2, 8 / 3, 8 / 3, 8 / 3]),
        ([5], [2], [5]),
        ([], [], []),
    ],
)
def test_neighbours_that_fall_are_pooled(values: Any, weights: Any, fitted: Any) -> None:
    assert isotonic(values, weights) == pytest.approx(np.array(fitted, dtype=float))


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 5)), min_size=1, max_size=12))
def test_pooling_is_the_largest_of_the_least_averages(pairs: list[tuple[int, int]]) -> None:
    """Isotonic regression in closed form: max over i ≤ k of min over j ≥ k of the mean of i … j."""
    values, weights = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    many = len(values)

    def mean(i: int, j: int) -> float:
        return float(np.average(values[i : j + 1], weights=weights[i : j + 1]))

    expected = [
        max(min(mean(i, j) for j in range(k, many)) for i in range(k + 1)) for k in range(many)
    ]
    assert isotonic(values, weights) == pytest.approx(expected, abs=1e-12)


def test_a_curve_by_hand() -> None:
    """Ratings against the mean of earlier unpaid ones; the offer with a payment of its own is out.

    Those means are 0.5 until the first tails, of 0.4, and 0.45 after; then 0.5 after one of 0.6.
    """
    frame = log(
        ("tea", 0.0, 0.5, None), ("tea", 0.1, 0.9, 1), ("tea", 0.1, 1.1, 1), ("tea", 0.0, 0.4, 0),
        ("tea", 0.3, 0.65, 1), ("tea", 0.3, 0.85, 1), ("tea", 0.0, 0.6, 0), ("tea", 0.6, 1.3, 1),
        ("tea", 0.6, 1.5, 1), ("tea", 0.4, 7.0, 1), ("tea", 0.2, 7.0, 0),
    ).with_columns(
        probe_amount=pl.Series([None, 0.1, 0.1, 0.1, 0.3, 0.3, 0.6, 0.6, 0.6, 0.3, 0.1])
    )  # fmt: skip
    curve = probe_curve(frame)
    tails = (-0.1 + 0.15) / 2
    measured = np.array([0.5, 0.3, 0.9]) - tails
    points = curve.points
    assert points["payment"].to_list() == [0.1, 0.3, 0.6]
    assert points["measured"].to_numpy() == pytest.approx(measured)
    assert points["drift"].to_numpy() == pytest.approx([0.4 - tails, 0.4 - tails, 0.9 - tails])
    assert points["probes"].to_list() == [2, 2, 2]
    assert curve.observations == 8
    welch = stats.ttest_ind([0.8, 1.0], [-0.1, 0.15], equal_var=False).confidence_interval(0.95)
    wide = points["high"] - points["drift"]
    assert wide[2] == pytest.approx((welch.high - welch.low) / 2, rel=1e-6)


AMOUNTS = [0.1, 0.3, 0.6, 0.9]
SHAPES: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray]]] = {
    "step": (entice.StepDrift(0.5), lambda x: 0.5 + 0 * x),
    "linear": (entice.LinearDrift(1.0), lambda x: x),
    "saturating": (entice.SaturatingDrift(l=2.0, cap=0.6), lambda x: np.minimum(2 * x, 0.6)),
    "none": (entice.NoDrift(), lambda x: 0 * x),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_curve_has_the_drift_s_shape(shape: str) -> None:
    """99.999 % intervals: one of the 4 fails by chance in 4 of 100,000 cases."""
    drift, truth = SHAPES[shape]
    rounds = entice.trace(
        arms=PAPER, policies=POLICIES[1:], drifts=[drift], horizon=40_000, seed=7,
        probe=entice.Probe(share=0.5, amount=AMOUNTS),
    )  # fmt: skip
    curve = probe_curve(rounds, level=0.99999)
    points, true = curve.points, truth(np.array(AMOUNTS))
    assert (points["low"].to_numpy() <= true).all()
    assert (points["high"].to_numpy() >= true).all()
    assert (points["high"] - points["low"]).max() < 0.4
    assert points["drift"].is_sorted()
    assert curve.warning == ""
    assert points["drift"][-1] - points["drift"][0] == pytest.approx(true[-1] - true[0], abs=0.2)


def test_the_curve_s_intervals_hold_the_truth() -> None:
    """On a step, where pooling does most.

    They hold it in some 98 of 100 cases. That less than 93 of 100 do by chance has a probability
    of 1e-6, were the four intervals of a run always wrong together, and less as they are.
    """
    probe = entice.Probe(share=0.5, amount=AMOUNTS)
    told = []
    for frame in traces(300, POLICIES[1], SHAPES["step"][0], horizon=1000, probe=probe):
        points = probe_curve(frame).points
        told.append((points["low"] <= 0.5) & (points["high"] >= 0.5))
    assert np.mean(told) > 0.93


def test_feedback_that_falls_with_the_payment_is_told() -> None:
    rounds = entice.trace(
        arms=PAPER, policies=POLICIES[1:], drifts=[entice.NegativeDrift(1.0)], horizon=20_000,
        seed=7, probe=entice.Probe(share=0.5, amount=AMOUNTS),
    )  # fmt: skip
    curve = probe_curve(rounds)
    assert "falls with the payment" in curve.warning
    assert curve.points["drift"].max() == 0


def test_a_curve_needs_two_ratings_of_each_kind() -> None:
    with pytest.raises(entice.InputError, match=r"1 with nothing added, by amount {'0\.3': 2}"):
        probe_curve(TEA[:4], amount=0.3)
    always_paid = TEA.with_columns(pl.col("payment") + 0.1)
    with pytest.raises(entice.InputError, match="0 with nothing added"):
        probe_curve(always_paid, amount=0.3)


def test_ratings_that_do_not_differ_have_an_interval_without_width() -> None:
    rows = [("tea", 0.3 * (coin or 0), 0.5 + 0.1 * (coin or 0), coin) for coin in (None, 1, 0) * 2]
    points = probe_curve(log(*rows), amount=0.3).points
    assert points["low"][0] == points["high"][0] == pytest.approx(0.1)


# --- Probes of several amounts ----------------------------------------------------------------


def test_each_amount_hangs_on_as_many_coins_as_the_others() -> None:
    """Six counts of 3,333 ± 53; each within 5 standard deviations, or 1 in 300,000 fails."""
    rounds = entice.trace(
        arms=PAPER, policies=POLICIES[:1], horizon=40_000, seed=7,
        probe=entice.Probe(share=0.5, amount=[0.1, 0.3, 0.6]),
    )  # fmt: skip
    thrown = rounds.drop_nulls("probe")
    assert thrown["probe_amount"].null_count() == 0
    assert rounds.filter(pl.col("probe").is_null())["probe_amount"].count() == 0
    counts = thrown.group_by("probe", "probe_amount").len()
    assert counts.height == 6
    assert (counts["len"].cast(pl.Int64) - 20_000 / 6).abs().max() < 5 * 53
    unpaid = thrown.filter((pl.col("arm") == pl.col("greedy_arm")) & (pl.col("probe") == 1))
    assert (unpaid["payment"] == unpaid["probe_amount"]).all()


def test_several_amounts_go_through_toml() -> None:
    study = entice.Study(
        arms=PAPER, policies=POLICIES, horizon=100, seed=7,
        probe=entice.Probe(share=0.1, amount=[0.1, 0.3]),
    )  # fmt: skip
    assert entice.Study.from_toml(study.to_toml()) == study
    assert entice.Study.from_json(study.to_json()) == study


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ([], "must have at least 1 numbers"),
        ([0.1, 0.0], "must be greater than 0"),
        ([0.1, 0.1], "must not repeat an amount"),
        (["much"], "must be a number"),
        ("much", "must be a number"),
    ],
)
def test_amounts_that_can_not_be_are_refused(amount: Any, message: str) -> None:
    with pytest.raises(entice.InputError, match=message):
        entice.Probe(amount=amount)


# --- Logs from elsewhere ----------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "CSV", "parquet"])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_log_may_be_a_file(tmp_path: Path, ending: str, as_text: bool) -> None:
    path = tmp_path / f"log.{ending}"
    frame = TEA.with_columns(probe_amount=0.3, comment=pl.lit("hm"))
    if ending == "parquet":
        frame.write_parquet(path)
    else:
        frame.write_csv(path)
    rounds = str(path) if as_text else path
    assert probe_slope(rounds) == probe_slope(TEA, amount=0.3)
    assert probe_curve(rounds).points.equals(probe_curve(TEA, amount=0.3).points)
    assert regression(rounds) == regression(TEA)


def test_a_log_may_be_lazy_and_coins_may_be_true_or_false() -> None:
    frame = TEA.with_columns(pl.col("probe").cast(pl.Boolean)).lazy()
    assert probe_slope(frame, amount=0.3) == probe_slope(TEA, amount=0.3)


def with_column(**columns: Any) -> pl.DataFrame:
    return TEA.with_columns(probe_amount=0.3).with_columns(
        **{name: pl.Series(values, strict=False) for name, values in columns.items()}
    )


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        (TEA.drop("feedback"), "rounds must have the columns arm, payment, feedback, probe; "),
        (TEA.drop("feedback"), "feedback is missing; got ['arm', 'payment', 'probe']."),
        (TEA.drop("probe"), "entice.trace adds it when it is given probe=entice.Probe()."),
        (TEA, "amount must be given: what heads add to the payment."),
        (7, "must be a polars frame, or the path of a CSV or Parquet file; got 7."),
        ("log.xlsx", "must be a file named .csv or .parquet; got 'log.xlsx'."),
        ("nowhere.csv", "must be a file that exists; got 'nowhere.csv'."),
        (with_column(payment=["0", "0.3", "a lot", "0.3", "0"]), "payment must be a number"),
        (with_column(payment=["0", "0.3", "a lot", "0.3", "0"]), "got \"'a lot' in row 3 of 5\"."),
        (with_column(payment=[0.0, None, 0.0, 0.3, 0.0]), "payment must be a finite number"),
        (with_column(feedback=[0.0, math.inf, 0.0, 0.3, 0.0]), "feedback must be finite, or null"),
        (with_column(arm=["tea", None, "tea", "tea", "tea"]), "arm must name an arm in every row"),
        (with_column(probe=[0, 1, 2, 1, 0]), "probe must be 1, 0 or null in every row"),
        (with_column(probe=[None] * 5), "must have a rated offer in which the coin was thrown"),
        (with_column(probe=[1, 1, 0, 1, 0]), "payment must include the amount where the coin fell"),
        (with_column(probe=[1, 1, 0, 1, 0]), "got '0.0 in row 1 of 5'"),
        (with_column(probe_amount=[0.3, 0.0, 0.3, 0.3, 0.3]), "amount must be greater than 0"),
        (with_column(offered_arm=["tea"] * 5), "must have the column greedy_arm beside offered"),
        (with_column(probe=[None, 1, None, None, None]), "must have at least 2 rated probes of"),
    ],
)
def test_a_log_that_can_not_be_used_is_refused(rounds: Any, message: str) -> None:
    with pytest.raises(entice.InputError) as caught:
        probe_slope(rounds)
    assert message in str(caught.value)


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_text("arm,payment,feedback\n")
    with pytest.raises(entice.InputError, match="rounds can't be read"):
        regression(path)


@pytest.mark.parametrize("rounds", [TEA.with_columns(payment=0.0), TEA[:2], TEA[:0]])
def test_a_regression_needs_payments_that_differ(rounds: pl.DataFrame) -> None:
    with pytest.raises(entice.InputError, match="rated at different payments"):
        regression(rounds)


def test_an_amount_that_contradicts_the_log_is_refused() -> None:
    with pytest.raises(entice.InputError, match=r"amount must be 0\.2 in every row"):
        probe_slope(TEA.with_columns(probe_amount=0.3), amount=0.2)


@pytest.mark.parametrize("level", [0, 1, 95, "much"])
@pytest.mark.parametrize("estimate", [regression, probe_slope, probe_curve])
def test_a_level_is_a_probability(estimate: Callable[..., Any], level: Any) -> None:
    with pytest.raises(entice.InputError, match="level must be"):
        estimate(TEA.with_columns(probe_amount=0.3), level=level)
