"""The growth of regret and compensation with the horizon."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import polars as pl
import pytest
from sizes import sized
from theory_fixtures import nine_arm_study, unit_interval_study

import entice
from entice import theory
from entice.paper.setups import MEANS
from entice.theory.growth import CLEARLY_BETTER, ExponentChange, classify_growth, fit


@pytest.mark.usefixtures("untraced")
def test_growth_is_logarithmic_inside_assumption_1_and_linear_under_a_step() -> None:
    """The noise is one for which Thompson sampling is consistent."""
    settings: Any = {
        "arms": entice.Gaussian(MEANS, std=0.5),
        "policies": [entice.UCB(), entice.ThompsonSampling()],
        "horizon": 1_000_000,
    }
    lipschitz = [entice.LinearDrift(0.0), entice.LinearDrift(1.1)]
    study = nine_arm_study(**settings, drifts=lipschitz, replications=sized(50, 200))
    inside = theory.growth(study, progress=False).table
    study = nine_arm_study(**settings, drifts=[entice.StepDrift(0.3)], replications=20)
    outside = theory.growth(study, progress=False).table.filter(metric="regret")
    # An interval misses by more than twice its half-width with probability 1e-4 (1e-3 for 20 runs).
    half = pl.col("exponent_high") - pl.col("exponent")
    highest, lowest = pl.col("exponent") + 2 * half, pl.col("exponent") - 2 * half
    assert inside.height == 8
    assert inside.select((highest < pl.col("exponent_at_first")).all()).item()
    assert inside.select((highest < 0.3).all()).item()
    assert outside.select((lowest > 0.85).all()).item()
    assert set(inside["fits"]) == {"log"}
    assert set(outside["fits"]) == {"power"}


def make_points(T: Any, mean: Any, error: float = 0.01) -> pl.DataFrame:
    """Points of one cell with a given relative standard error."""
    return pl.DataFrame({"T": T, "mean": mean, "stderr": error * mean}).with_columns(
        policy=pl.lit("p"), drift=pl.lit("d"), metric=pl.lit("regret"),
        policy_index=pl.lit(0), drift_index=pl.lit(0),
    )  # fmt: skip


def test_fits_recover_exact_curves() -> None:
    T = np.array([1_000, 3_162, 10_000, 31_623, 100_000])
    for curve, fits in ((5 + 3 * np.log(T), "log"), (2 * T**0.7, "power")):
        row = fit(make_points(T, curve))
        assert row["fits"] == fits
        assert row[f"{fits}_error"] < 1e-6
        slope = math.log(curve[-1] / curve[2]) / math.log(10)
        assert row["exponent"] == pytest.approx(slope)
        half = 1.96 * math.hypot(0.01, 0.01) / math.log(10)
        assert row["exponent_high"] - row["exponent"] == pytest.approx(half)
    assert row["power_p"] == pytest.approx(0.7)
    assert row["power_a"] == pytest.approx(2)


def test_compensation_that_is_always_zero_does_not_grow() -> None:
    study = nine_arm_study(policies=[entice.Greedy()], drifts=[entice.NoDrift()], horizon=10_000)
    found = theory.growth(study, progress=False)
    (paid,) = found.table.filter(metric="compensation").iter_rows(named=True)
    assert paid["fits"] is None
    assert paid["exponent"] is None
    assert found.plot().axes  # the plot works, too


def test_growth_depends_only_on_the_seed() -> None:
    study = nine_arm_study(policies=[entice.UCB()], drifts=[entice.NoDrift()], horizon=10_000)
    calls: list[tuple[int, int]] = []
    merge_reasons = theory.growth(
        study, threads=1, progress=lambda done, total: calls.append((done, total))
    )
    again = theory.growth(study, threads=2, progress=False)
    assert merge_reasons.points.equals(again.points)
    assert calls[-1][0] == calls[-1][1] == sum(set(merge_reasons.points["T"]))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


@pytest.mark.parametrize(
    "horizons", [[1_000, 20_000], [1_000, 2_000, 3_000], [1, 10, 100], 5, ["a"]]
)
def test_growth_requires_at_least_three_horizons_over_a_decade(horizons: Any) -> None:
    with pytest.raises(entice.InputError, match="horizons"):
        theory.growth(nine_arm_study(), horizons=horizons)
    with pytest.raises(entice.InputError, match="horizon of at least 10,000"):
        theory.growth(nine_arm_study(horizon=2_000))


def test_growth_requires_more_than_one_run() -> None:
    with pytest.raises(entice.InputError, match="replications must be at least 2"):
        theory.growth(nine_arm_study(replications=1))


def test_similar_errors_of_both_fits_are_undecided() -> None:
    T = np.array([1_000, 3_162, 10_000, 31_623, 100_000])
    mean = np.array([10.0, 16.0, 23.0, 31.0, 42.0])
    assert fit(make_points(T, mean, error=0.06))["fits"] == "undecided"
    assert (
        fit(make_points(T, mean, error=0.01))["fits"] == "too short"
    )  # the exponent falls significantly


@pytest.mark.parametrize("l", [1.1, 3.0, 5.0])
def test_growth_with_a_falling_exponent_is_not_a_power(l: float) -> None:
    """UCB's predicted regret, which is logarithmic in the long run (Theorem 1).

    The fits alone, without the exponent, would call it a power of T at 10⁵ rounds.
    """
    for last, fits in ((5, "too short"), (9, "log")):
        T = np.array([round(10 ** (k / 2)) for k in range(6, 2 * last + 1)])
        row = fit(make_points(T, theory.steady_state.ucb(T, means=MEANS, l=l).regret, error=0.003))
        assert row["fits"] == fits
        assert row["exponent"] < row["exponent_before"]
        if (last, l) == (5, 3.0):  # control: the fits alone
            assert row["power_error"] < CLEARLY_BETTER * row["log_error"]


def test_a_power_needs_enough_runs() -> None:
    """T^0.6 is recognised if its exponent is precise enough to exclude logarithmic growth."""
    T = np.array([1_000, 3_162, 10_000, 31_623, 100_000])
    for error, fits in ((0.01, "power"), (0.2, "undecided")):
        assert fit(make_points(T, 3 * T**0.6, error=error))["fits"] == fits


def test_a_log_fit_is_rejected_if_the_exponent_rises() -> None:
    T = np.array([1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000])
    assert classify_growth(0.05, 0.1, ExponentChange(0.1, 0.02, 0.06, -0.02)) == "too short"
    assert fit(make_points(T, 5 + 3 * np.log(T)))["fits"] == "log"


def test_fewer_than_two_decades_are_too_short() -> None:
    T = np.array([2_000, 6_325, 20_000, 63_246, 180_000])
    for curve in (5 + 3 * np.log(T), 2 * T**0.7):
        row = fit(make_points(T, curve))
        assert row["fits"] == "too short"
        assert row["exponent_before"] is None


def test_no_power_is_reported_after_100_000_rounds_if_theorem_1_applies() -> None:
    study = unit_interval_study(
        policies=[entice.UCB()], drifts=[entice.LinearDrift(3.0)], horizon=100_000,
        replications=100, feedback_range=None, arms=entice.Bernoulli(MEANS),
    )  # fmt: skip
    assert theory.theorem1.regret.applies(study)
    (row,) = theory.growth(study, progress=False).table.filter(metric="regret").to_dicts()
    assert row["power_error"] < CLEARLY_BETTER * row["log_error"]  # control: the fits alone
    assert row["fits"] == "too short"


def test_horizons_are_half_decades_below_the_longest() -> None:
    study = nine_arm_study(policies=[entice.UCB()], drifts=[entice.NoDrift()], horizon=200_000)
    points = theory.growth(study, progress=False).points
    assert points["T"].unique().sort().to_list() == [2_000, 6_325, 20_000, 63_246, 200_000]


def test_a_horizon_that_is_the_studys_follows_t(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[entice.Study] = []

    def run_each(studies: list[entice.Study], **_: Any) -> list[entice.Result]:
        run.extend(studies)
        raise InterruptedError

    # The module, which the function of the same name hides in its package.
    monkeypatch.setattr(sys.modules["entice.theory.growth"], "run_each", run_each)
    policies = [
        entice.EqualPayElimination(horizon=100_000), entice.EqualPay(horizon=100_000, noise=0.5),
        entice.MOSS(horizon=50_000), entice.EqualPay(), entice.UCB(),
    ]  # fmt: skip
    with pytest.raises(InterruptedError):
        theory.growth(nine_arm_study(policies=policies, horizon=100_000), progress=False)
    assert [study.horizon for study in run] == [1_000, 3_162, 10_000, 31_623, 100_000]
    for study in run:
        horizons = [getattr(policy, "horizon", None) for policy in study.policies]
        assert horizons == [study.horizon, study.horizon, 50_000, None, None]
        assert [policy.label for policy in study.policies] == [
            "EqualPayElimination(horizon=T)", "EqualPay(horizon=T, noise=0.5)",
            "MOSS(horizon=50000)", "EqualPay", "UCB",
        ]  # fmt: skip
