"""Simulated runs satisfy the bounds, the inequalities of the proofs and the predictions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats
from plain_kernel import plain_kernel
from sizes import sized
from theory_fixtures import fading, fading_to_cap, nine_arm_study, unit_interval_study

import entice
from entice import theory
from entice.paper.setups import MEANS
from entice.theory.setting import Setting
from entice.theory.ucb_proof import compare_with_trace

# --- Bounds ---------------------------------------------------------------------------------

BETA = entice.Beta(a=[9, 5, 2], b=[1, 5, 8])
BERNOULLI = entice.Bernoulli([0.9, 0.6, 0.4])
DRIFTS = [
    entice.NoDrift(),
    entice.LinearDrift(0.5),
    entice.LinearDrift(2.0),
    entice.SaturatingDrift(l=1.1, cap=0.2),
    entice.CustomDrift(fading, params=[1.1], lipschitz=1.1),
]
# The same drifts with two functions to compile.
FEW_DRIFTS = [
    entice.LinearDrift(0.0),
    entice.LinearDrift(0.5),
    entice.LinearDrift(2.0),
    entice.CustomDrift(fading_to_cap, params=[1.1, 1e9, 0.2], lipschitz=1.1),
    entice.CustomDrift(fading_to_cap, params=[1.1, 1000.0, 1e9], lipschitz=1.1),
]
SURE = 5.2  # standard errors: a mean above its bound would pass with probability below 1e-6


def not_below_bound(rows: pl.DataFrame) -> list[str]:
    """List the upper bounds that means are not below by `SURE` standard errors."""
    return [
        f"{row['bound']} on {row['metric']}: {row['mean']:.4g}, and the bound is {row['value']:.4g}"
        for row in rows.filter(kind="upper", applies=True).iter_rows(named=True)
        if not row["mean"] + SURE * row["stderr"] < row["value"]
    ]


@pytest.mark.parametrize(
    ("arms", "drifts"),
    # With Beta arms, each function of a drift is compiled for each policy.
    [(BERNOULLI, FEW_DRIFTS), (BETA, FEW_DRIFTS[: sized(3, None)])],
    ids=["Bernoulli", "Beta"],
)
def test_means_are_below_the_bounds_that_apply(arms: Any, drifts: Any) -> None:
    policies = [entice.UCB(), entice.EpsilonGreedy(c=36 / float(smallest_gap(arms)))]
    study = unit_interval_study(arms=arms, policies=policies, drifts=drifts, horizon=5_000)
    table = theory.bounds(study).filter(kind="upper")
    assert table["applies"].all()
    assert table.filter(vacuous=False)["bound"].unique().len() == 3  # not vacuous
    assert not_below_bound(theory.bounds(entice.run(study))) == []


def smallest_gap(arms: Any) -> float:
    means = np.sort(arms.true_means())
    return float(means[-1] - means[-2])


def test_means_are_below_the_bounds_without_projection() -> None:
    study = unit_interval_study(
        policies=[entice.UCB()], drifts=DRIFTS, feedback_range=None, arms=BERNOULLI, horizon=5_000
    )
    assert theory.theorem1.regret.applies(study)
    assert not_below_bound(theory.bounds(entice.run(study))) == []


def test_control_the_check_detects_a_drift_that_is_not_lipschitz() -> None:
    """A step of 0.3, declared as a drift with l = 0.3."""
    study = unit_interval_study(
        arms=entice.Bernoulli([0.9, 0.7]),
        policies=[entice.UCB()],
        drifts=[entice.StepDrift(0.3)],
        feedback_range=None,
        horizon=100_000,
        replications=50,
    )
    table = theory.bounds(entice.run(study)).filter(bound="Theorem 1", metric="regret")
    claimed = theory.theorem1.regret.as_stated(100_000, gaps=[0.2], l=0.3)
    claims = table.with_columns(value=pl.lit(float(claimed)), applies=pl.lit(True))
    assert len(not_below_bound(claims)) == 2


def test_lemma_1_holds_in_95_percent_of_runs() -> None:
    study = unit_interval_study(
        policies=[entice.EpsilonGreedy(c=5)], replications=2_000, horizon=2_000
    )
    (row,) = theory.bounds(study).filter(metric="compensated_pulls").iter_rows(named=True)
    paid = entice.run(study).final["compensated_pulls"].to_numpy()
    beyond = int((paid > row["value"]).sum())
    assert scipy.stats.binomtest(beyond, len(paid), 0.05, alternative="greater").pvalue > 1e-6
    tight = row["value"] / 3  # control: a bound a third as large fails
    beyond = int((paid > tight).sum())
    assert scipy.stats.binomtest(beyond, len(paid), 0.05, alternative="greater").pvalue < 1e-6


@pytest.mark.usefixtures("plain")
def test_lemma_3_holds_with_the_true_gap_though_averages_come_closer() -> None:
    settings: Any = {
        "arms": entice.Bernoulli([0.9, 0.5]),
        "policies": [entice.ThompsonSampling()],
        "drifts": [entice.LinearDrift(0.5)],
        "horizon": 500,
        "seed": 7,
    }
    runs = [entice.trace(replication=i, **settings) for i in range(20)]
    shown = [theory.theorem3.displayed_gap(rounds) for rounds in runs]
    assert 0 < np.median(shown) < 0.4 / 1.5
    paid = [rounds.filter(pl.col("arm") != pl.col("greedy_arm")).height for rounds in runs]
    claimed = theory.theorem3.paid_pulls.as_stated(500, gaps=[0.4], displayed_gap=0.4)
    assert claimed < 250  # of 500 rounds
    assert np.mean(paid) + SURE * np.std(paid) / math.sqrt(len(paid)) < claimed


def test_a_false_declaration_of_no_drift_is_ignored() -> None:
    drift = entice.CustomDrift(fading, params=[50.0], lipschitz=0.0)
    study = unit_interval_study(drifts=[drift], feedback_range=None)
    most, _ = theory.setting.largest_value("payment", Setting(study, study.policies[0], drift))
    assert most == math.inf
    without_drift = Setting(
        unit_interval_study(feedback_range=None), study.policies[0], entice.NoDrift()
    )
    assert theory.setting.largest_value("payment", without_drift)[0] == 1.0


# --- Inequalities that hold in every round --------------------------------------------------


def wide_ucb(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    """UCB with a width of sqrt(8 log t / n), unlike the paper's."""
    best, top = 0, -math.inf
    for i in range(len(pulls)):
        if pulls[i] == 0:
            return i
        bound = means[i] + math.sqrt(8 * math.log(t) / pulls[i])
        if bound > top:
            best, top = i, bound
    return best


def inequalities_hold(l: float, noise: float = 1.0, **settings: Any) -> dict[str, bool]:
    holds = {"payment": True, "arm_drift": True}
    for replication in range(sized(2, 10)):
        with plain_kernel():
            rounds = entice.trace(replication=replication, seed=7, **settings)
        found = compare_with_trace(rounds, l=l, noise=noise)
        for name in holds:
            holds[name] &= found.select(
                (pl.col(name) <= pl.col(f"{name}_bound") * (1 + 1e-12)).all()
            ).item()
    return holds


@pytest.mark.parametrize("drift", DRIFTS, ids=lambda d: d.label)
@pytest.mark.parametrize("feedback_range", [None, (0, 1)])
def test_payments_and_drifts_of_ucb_are_within_their_bounds_in_every_round(
    drift: Any, feedback_range: Any
) -> None:
    for arms in (BERNOULLI, BETA, entice.Gaussian([0.9, 0.6, 0.4])):
        settings: Any = {"arms": arms, "drifts": [drift], "feedback_range": feedback_range}
        holds = inequalities_hold(
            drift.lipschitz, policies=[entice.UCB()], horizon=sized(1_000, 2_000), **settings
        )
        assert holds == {"payment": True, "arm_drift": True}


@pytest.mark.parametrize("noise", [0.3, 2.0])
def test_payments_of_ucb_with_another_noise_are_within_the_scaled_bounds(noise: float) -> None:
    settings: Any = {
        "arms": BERNOULLI, "drifts": [entice.LinearDrift(0.5)], "horizon": 2_000,
        "policies": [entice.UCB(noise=noise)],
    }  # fmt: skip
    assert inequalities_hold(0.5, noise, **settings) == {"payment": True, "arm_drift": True}
    assert not inequalities_hold(0.5, noise / 2, **settings)["payment"]


@pytest.mark.parametrize(
    ("policy", "drift", "l", "holds"),
    [
        (entice.UCB(), entice.LinearDrift(2.0), 0.2, {"payment": True, "arm_drift": False}),
        (entice.UCB(), entice.StepDrift(2.0), 0.3, {"payment": True, "arm_drift": False}),
        (
            entice.CustomPolicy(wide_ucb),
            entice.LinearDrift(0.5),
            0.5,
            {"payment": False, "arm_drift": True},
        ),
    ],
)
def test_control_the_check_detects_violations(
    policy: Any, drift: Any, l: float, holds: dict[str, bool]
) -> None:
    found = inequalities_hold(l, arms=BERNOULLI, policies=[policy], drifts=[drift], horizon=2_000)
    assert found == holds


# --- Steady state ---------------------------------------------------------------------------


@pytest.mark.parametrize("l", [0.0, 0.5, 1.1])
def test_regret_is_1_plus_l_times_compensation(l: float) -> None:
    study = nine_arm_study(
        policies=[entice.UCB(), entice.ThompsonSampling()],
        drifts=[entice.LinearDrift(l)],
        horizon=10_000_000,
        replications=100,
    )
    found = (
        entice.run(study).final.group_by("policy").agg(pl.col("regret", "compensation").median())
    )
    ratios = (found["regret"] / found["compensation"]).to_numpy()
    assert len(ratios) == 2
    assert ratios == pytest.approx(1 + l, rel=0.12)


@pytest.mark.parametrize("l", [0.0, 1.1])
@pytest.mark.parametrize("T", [1_000, 20_000, 10_000_000])
def test_steady_state_gaps_predict_ucb(l: float, T: int) -> None:
    study = nine_arm_study(policies=[entice.UCB()], drifts=[entice.LinearDrift(l)], horizon=T)
    summary = entice.run(study).summary()
    expected = theory.steady_state.ucb(T, means=MEANS, l=l)
    for metric, within in (("regret", 0.08), ("compensation", 0.20)):
        (row,) = summary.filter(metric=metric).iter_rows(named=True)
        chance = 4.8 * row["stderr"]  # fails by chance with probability 1e-5
        assert abs(row["mean"] - getattr(expected, metric)) < within * row["mean"] + chance
