"""Bounds meet studies: whether they apply, whether they say anything, whether runs keep to them."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats

import entice
from entice import theory
from entice.paper.setups import MEANS
from entice.theory.growth import CLEARLY_BETTER, ExponentChange, classify_growth, fit
from entice.theory.setting import Setting
from entice.theory.ucb_proof import compare_with_trace

# --- Does it apply? ---------------------------------------------------------------------------


def fading(payment: float, t: int, arm: int, params: Any) -> float:
    return params[0] * payment / (1 + t / 1000)


def falling(payment: float, t: int, arm: int, params: Any) -> float:
    return -params[0] * payment


def inside(**changes: Any) -> entice.Study:
    """A study inside the assumptions of Theorems 1 and 2."""
    settings: dict[str, Any] = {
        "arms": entice.Bernoulli([0.9, 0.5]),
        "policies": [entice.UCB(), entice.EpsilonGreedy(c=90), entice.ThompsonSampling()],
        "drifts": [entice.LinearDrift(0.5)],
        "horizon": 20_000,
        "feedback_range": (0, 1),
        "replications": 200,
        "seed": 7,
    }
    return entice.Study(**settings | changes)


def test_theorems_1_and_2_apply_inside_their_assumptions() -> None:
    for bound in (theory.theorem1.regret, theory.theorem1.compensation, theory.theorem2.regret):
        assert bound.applies(inside())
        assert bound.applies(inside()).reasons == ()


@pytest.mark.parametrize(
    ("module", "changes", "reason"),
    [
        ("theorem1", {"arms": entice.Gaussian([0.9, 0.5])}, "not claimed for Gaussian rewards"),
        ("theorem2", {"arms": entice.Gaussian([0.9, 0.5])}, "not claimed for Gaussian rewards"),
        ("theorem3", {"arms": entice.Gaussian([0.9, 0.5])}, "not claimed for Gaussian rewards"),
        (
            "theorem1",
            {"arms": entice.Empirical([1, 5], [[1, 3], [2, 2]])},
            "not claimed for rewards from 1 to 5",
        ),
        ("theorem1", {"drifts": [entice.StepDrift(0.3)]}, "is not Lipschitz"),
        ("theorem2", {"drifts": [entice.StepDrift(0.3)]}, "is not Lipschitz"),
        ("theorem1", {"drifts": [entice.CustomDrift(fading, [1.0])]}, "l of fading.* is unknown"),
        (
            "theorem1",
            {"drifts": [entice.CustomDrift(fading, [2.0], lipschitz=1.0)]},
            r"Assumption 1 does not hold: fading\(2\) has slope",
        ),
        (
            "theorem1",
            {"drifts": [entice.CustomDrift(falling, [1.0], lipschitz=1.0)]},
            r"falling\(1\) decreases",
        ),
        ("theorem1", {"cold_start": "prior"}, 'the proofs need cold_start="each_arm_once"'),
        ("theorem2", {"feedback_range": None}, "the proof projects feedback"),
        (
            "theorem2",
            {"policies": [entice.EpsilonGreedy(c=89)]},
            "c ≥ 36/Δ = 90, and c is 89",
        ),
        ("theorem3", {}, "Δ̲, the least difference of displayed averages in a run, is unknown"),
        (
            "theorem3",
            {"policies": [entice.ThompsonSampling(scale="std")]},
            "samples with variance",
        ),
        (
            "theorem1",
            {"policies": [entice.Greedy()]},
            "speaks of UCB, which the study does not run",
        ),
    ],
)
def test_what_speaks_against_a_theorem_is_said(module: str, changes: Any, reason: str) -> None:
    answer = getattr(theory, module).regret.applies(inside(**changes))
    assert not answer
    assert any(re.search(reason, told) for told in answer.reasons), answer.reasons


def test_a_custom_drift_may_vouch_for_itself() -> None:
    drift = entice.CustomDrift(fading, params=[1.1], lipschitz=1.1)
    assert theory.theorem1.regret.applies(inside(drifts=[drift]))


def test_a_study_of_many_cells_has_each_reason_once_and_where() -> None:
    study = inside(drifts=[entice.LinearDrift(0.5), entice.StepDrift(0.3)])
    assert theory.theorem1.regret.applies(study).reasons == (
        "UCB with StepDrift(0.3): StepDrift(0.3) is not Lipschitz (Assumption 1)",
    )
    assert not theory.theorem1.regret.vacuous(study)  # one cell is not
    study = inside(drifts=[entice.StepDrift(0.2), entice.StepDrift(0.3)])
    assert theory.theorem1.regret.vacuous(study)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"drifts": [entice.LinearDrift(0.5)]}, "known without drift only"),
        ({"policies": [entice.EpsilonGreedy(c=90)]}, "not consistent"),
        ({"policies": [entice.ThompsonSampling(scale="std")]}, "lock onto a wrong arm"),
        ({"policies": [entice.Greedy()]}, "not known to be consistent"),
        (
            {"arms": entice.Gaussian([0.9, 0.5], std=2)},
            "deviation up to 1, and that of the arms may be 2",
        ),
        ({"arms": entice.Empirical([1, 5], [[1, 3], [2, 2]])}, "that of the arms may be 2"),
        (
            {"arms": entice.Gaussian([0.9, 0.5]), "policies": [entice.ThompsonSampling()]},
            "not consistent for Gaussian noise of a variance above 1/2",
        ),
        (
            {
                "arms": entice.Empirical([1, 5], [[1, 3], [2, 2]]),
                "policies": [entice.ThompsonSampling()],
            },
            "not known to be consistent for rewards 4 wide",
        ),
        (
            {"policies": [entice.UCB(noise=0.4)]},
            "deviation up to 0.4, and that of the arms may be 0.5",
        ),
        (
            {
                "arms": entice.Gaussian([0.9, 0.5], std=0.5),
                "policies": [entice.ThompsonSampling(noise=0.6)],
            },
            "with noise=0.6 is not consistent for Gaussian noise of a variance above 0.18",
        ),
        (
            {"policies": [entice.ThompsonSampling(noise=0.4)]},
            "with noise=0.4 is not known to be consistent for rewards 1 wide",
        ),
        (
            {"arms": entice.Beta(a=[3, 1], b=[1, 1]), "policies": [entice.BetaThompson()]},
            "for Bernoulli arms only",
        ),
        (
            {"arms": entice.Gaussian([0.9, 0.5]), "policies": [entice.KLUCB()]},
            "the model has rewards in [0, 1]",
        ),
        ({"feedback_range": (0.4, 0.6)}, "cuts into the rewards"),
        ({"arms": entice.Bernoulli([0.9, 0.9, 0.1])}, "2 arms share the highest mean, 0.9"),
        (
            {"drifts": [entice.CustomDrift(fading, params=[5.0], lipschitz=0.0)]},
            "Assumption 1 does not hold",
        ),
    ],
)
def test_lower_bounds_say_when_they_are_not_known(changes: Any, reason: str) -> None:
    settings = {"drifts": [entice.NoDrift()], "policies": [entice.UCB()]} | changes
    answer = theory.lower.regret.applies(inside(**settings))
    assert reason in " ".join(answer.reasons)
    known = [
        entice.UCB(), entice.ThompsonSampling(), entice.UCB(noise=0.5),
        entice.ThompsonSampling(noise=0.5), entice.BetaThompson(), entice.KLUCB(),
    ]  # fmt: skip
    assert theory.lower.regret.applies(inside(drifts=[entice.NoDrift()], policies=known))


def test_theorems_of_the_paper_are_for_a_noise_of_1() -> None:
    assert theory.theorem1.regret.applies(inside(policies=[entice.UCB()]))
    answer = theory.theorem1.regret.applies(inside(policies=[entice.UCB(noise=0.5)]))
    assert answer.reasons == ("proved for noise=1, the paper's algorithm, unlike UCB(noise=0.5)",)
    for bound in (theory.theorem3.regret, theory.theorem3.paid_pulls):
        answer = bound.applies(inside(policies=[entice.ThompsonSampling(noise=0.5)]))
        assert "unlike ThompsonSampling(noise=0.5)" in " ".join(answer.reasons)


# --- Does it say anything? --------------------------------------------------------------------


def paper(**changes: Any) -> entice.Study:
    settings: dict[str, Any] = {
        "arms": entice.Gaussian(MEANS),
        "policies": [entice.UCB(), entice.EpsilonGreedy(c=5), entice.ThompsonSampling()],
        "drifts": [entice.LinearDrift(0.0), entice.LinearDrift(1.1)],
        "horizon": 20_000,
        "replications": 50,
        "seed": 7,
    }
    return entice.Study(**settings | changes)


def test_at_the_papers_instance_only_ucbs_regret_bound_says_something() -> None:
    assert not theory.theorem1.regret.vacuous(paper())
    assert theory.theorem2.regret.vacuous(paper())
    assert theory.theorem3.regret.vacuous(paper())
    (reason,) = theory.theorem2.regret.vacuous(paper()).reasons
    assert reason == "beyond the largest possible value, 16,000 (the largest gap in every round)"


def test_a_bound_on_compensation_that_ucbs_own_payments_undercut_is_vacuous() -> None:
    assert theory.theorem1.compensation.vacuous(paper())
    assert not theory.theorem1.compensation.vacuous(inside(horizon=100_000))


def test_no_run_exceeds_what_is_called_the_largest_possible_value() -> None:
    study = inside(horizon=500, drifts=[entice.NoDrift(), entice.LinearDrift(3.0)])
    result = entice.run(study)
    for p, d, policy, drift in study.cells():
        cell = result.final.filter(policy_index=p, drift_index=d)
        for metric in ("regret", "compensation", "compensated_pulls"):
            most, _ = theory.setting.largest_value(metric, Setting(study, policy, drift))
            assert math.isfinite(most)
            assert cell[metric].to_numpy().max() <= most


def test_a_lower_bound_is_vacuous_when_it_is_nought_or_comes_too_early() -> None:
    settings: Any = {"drifts": [entice.NoDrift()], "policies": [entice.UCB()]}
    sure = inside(arms=entice.Bernoulli([1.0, 0.5]), **settings)
    assert theory.lower.regret.vacuous(sure).reasons == ("its value is 0",)
    early = inside(arms=entice.Bernoulli([0.51, 0.5]), horizon=100, **settings)
    assert "asymptotic" in theory.lower.regret.vacuous(early).reasons[0]


def test_inequalities_of_each_round_are_not_vacuous() -> None:
    for bound in (theory.ucb_proof.payment, theory.ucb_proof.arm_drift):
        assert bound.applies(paper())  # they need nothing of the rewards
        assert not bound.vacuous(paper(drifts=[entice.LinearDrift(1.1)]))
    step = paper(drifts=[entice.StepDrift(0.3)])
    assert theory.ucb_proof.payment.applies(step)
    assert not theory.ucb_proof.arm_drift.applies(step)


def test_two_best_arms_are_an_error() -> None:
    with pytest.raises(entice.InputError, match=r"a single best arm, not 2 with mean 0\.9"):
        theory.bounds(inside(arms=entice.Bernoulli([0.9, 0.9, 0.1])))


# --- The table --------------------------------------------------------------------------------


def test_the_table_has_every_bound_with_what_was_measured() -> None:
    result = entice.run(paper())
    table = theory.bounds(result)
    ucb = table.filter(policy="UCB", drift="LinearDrift(1.1)", metric="regret", kind="upper")
    assert ucb["version"].to_list() == ["as stated", "as proved"]
    assert ucb["value"].round().to_list() == [9_591, 9_508]
    assert not ucb["applies"].any()
    assert ucb["vacuous"].to_list() == [False, False]
    cell = result.summary().filter(policy="UCB", drift="LinearDrift(1.1)", metric="regret")
    assert ucb["mean"].to_list() == [cell["mean"][0]] * 2
    assert ucb["q95"].to_list() == [cell["q95"][0]] * 2
    assert ucb["ratio"].to_list() == pytest.approx((ucb["value"] / ucb["mean"]).to_list())
    others = table.filter(pl.col("policy") != "UCB", metric="regret", kind="upper")
    assert others["vacuous"].to_list() == [True] * 8
    upper = table.filter(pl.col("bound").str.starts_with("Theorem"))
    assert upper["doubts"].list.first().unique().to_list() == [
        "not claimed for Gaussian rewards: the model has rewards in [0, 1]"
    ]
    unknown = table.filter(bound="Lemma 3")
    assert unknown["at_least"].all()
    assert unknown["vacuous"].null_count() == unknown.height


def test_a_study_that_was_not_run_has_its_bounds() -> None:
    table = theory.bounds(inside(drifts=[entice.CustomDrift(fading, [1.0]), entice.StepDrift(0.3)]))
    assert table["mean"].null_count() == table.height
    regret = table.filter(policy="UCB", metric="regret", kind="upper", version="as stated")
    assert regret["value"].to_list() == [None, math.inf]  # l is unknown; there is none
    assert regret["vacuous"].to_list() == [None, True]


# --- Runs keep to the bounds ------------------------------------------------------------------

BETA = entice.Beta(a=[9, 5, 2], b=[1, 5, 8])
BERNOULLI = entice.Bernoulli([0.9, 0.6, 0.4])
DRIFTS = [
    entice.NoDrift(),
    entice.LinearDrift(0.5),
    entice.LinearDrift(2.0),
    entice.SaturatingDrift(l=1.1, cap=0.2),
    entice.CustomDrift(fading, params=[1.1], lipschitz=1.1),
]
SURE = 5.2  # standard errors: a mean beyond its bound would pass with probability below 1e-6


def not_established(rows: pl.DataFrame) -> list[str]:
    """List the upper bounds that measured means do not stay under by `SURE` standard errors."""
    return [
        f"{row['bound']} on {row['metric']}: {row['mean']:.4g}, and the bound is {row['value']:.4g}"
        for row in rows.filter(kind="upper", applies=True).iter_rows(named=True)
        if not row["mean"] + SURE * row["stderr"] < row["value"]
    ]


@pytest.mark.parametrize("arms", [BERNOULLI, BETA], ids=["Bernoulli", "Beta"])
def test_means_stay_under_the_bounds_that_apply(arms: Any) -> None:
    policies = [entice.UCB(), entice.EpsilonGreedy(c=36 / float(arms_gap(arms)))]
    study = inside(arms=arms, policies=policies, drifts=DRIFTS, horizon=5_000)
    table = theory.bounds(study).filter(kind="upper")
    assert table["applies"].all()
    assert table.filter(vacuous=False)["bound"].unique().len() == 3  # and not for want of meaning
    assert not_established(theory.bounds(entice.run(study))) == []


def arms_gap(arms: Any) -> float:
    means = np.sort(arms.true_means())
    return float(means[-1] - means[-2])


def test_means_stay_under_without_projection_too() -> None:
    study = inside(
        policies=[entice.UCB()], drifts=DRIFTS, feedback_range=None, arms=BERNOULLI, horizon=5_000
    )
    assert theory.theorem1.regret.applies(study)
    assert not_established(theory.bounds(entice.run(study))) == []


def test_the_same_check_finds_a_drift_that_is_not_lipschitz() -> None:
    """A step passed off as a drift with l = 0.3, whose size it has."""
    study = inside(
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
    assert len(not_established(claims)) == 2


def test_lemma_1_holds_in_as_many_runs_as_it_says() -> None:
    study = inside(policies=[entice.EpsilonGreedy(c=5)], replications=2_000, horizon=2_000)
    (row,) = theory.bounds(study).filter(metric="compensated_pulls").iter_rows(named=True)
    paid = entice.run(study).final["compensated_pulls"].to_numpy()
    beyond = int((paid > row["value"]).sum())
    assert scipy.stats.binomtest(beyond, len(paid), 0.05, alternative="greater").pvalue > 1e-6
    tight = row["value"] / 3  # and a claim three times as bold is found out
    beyond = int((paid > tight).sum())
    assert scipy.stats.binomtest(beyond, len(paid), 0.05, alternative="greater").pvalue < 1e-6


def test_lemma_3_holds_even_with_the_true_gap_where_averages_come_far_closer() -> None:
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


def test_a_claim_of_no_drift_is_not_believed_against_the_evidence() -> None:
    drift = entice.CustomDrift(fading, params=[50.0], lipschitz=0.0)
    study = inside(drifts=[drift], feedback_range=None)
    most, _ = theory.setting.largest_value("payment", Setting(study, study.policies[0], drift))
    assert most == math.inf
    honest = Setting(inside(feedback_range=None), study.policies[0], entice.NoDrift())
    assert theory.setting.largest_value("payment", honest)[0] == 1.0


# --- Inequalities that hold in every round ----------------------------------------------------


def wide(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    """UCB with a width of sqrt(8 log t / n): no UCB of the paper's."""
    best, top = 0, -math.inf
    for i in range(len(pulls)):
        if pulls[i] == 0:
            return i
        bound = means[i] + math.sqrt(8 * math.log(t) / pulls[i])
        if bound > top:
            best, top = i, bound
    return best


def every_round_keeps(l: float, noise: float = 1.0, **settings: Any) -> dict[str, bool]:
    kept = {"payment": True, "arm_drift": True}
    for replication in range(10):
        found = compare_with_trace(
            entice.trace(replication=replication, seed=7, **settings), l=l, noise=noise
        )
        for name in kept:
            kept[name] &= found.select(
                (pl.col(name) <= pl.col(f"{name}_bound") * (1 + 1e-12)).all()
            ).item()
    return kept


@pytest.mark.parametrize("drift", DRIFTS, ids=lambda d: d.label)
@pytest.mark.parametrize("feedback_range", [None, (0, 1)])
def test_payments_and_drifts_of_ucb_stay_under_their_bounds_in_every_round(
    drift: Any, feedback_range: Any
) -> None:
    for arms in (BERNOULLI, BETA, entice.Gaussian([0.9, 0.6, 0.4])):
        settings: Any = {"arms": arms, "drifts": [drift], "feedback_range": feedback_range}
        kept = every_round_keeps(
            drift.lipschitz, policies=[entice.UCB()], horizon=2_000, **settings
        )
        assert kept == {"payment": True, "arm_drift": True}


@pytest.mark.parametrize("noise", [0.3, 2.0])
def test_payments_of_ucb_with_another_noise_stay_under_bounds_for_that(noise: float) -> None:
    settings: Any = {
        "arms": BERNOULLI, "drifts": [entice.LinearDrift(0.5)], "horizon": 2_000,
        "policies": [entice.UCB(noise=noise)],
    }  # fmt: skip
    assert every_round_keeps(0.5, noise, **settings) == {"payment": True, "arm_drift": True}
    assert not every_round_keeps(0.5, noise / 2, **settings)["payment"]


@pytest.mark.parametrize(
    ("policy", "drift", "l", "kept"),
    [
        (entice.UCB(), entice.LinearDrift(2.0), 0.2, {"payment": True, "arm_drift": False}),
        (entice.UCB(), entice.StepDrift(2.0), 0.3, {"payment": True, "arm_drift": False}),
        (
            entice.CustomPolicy(wide),
            entice.LinearDrift(0.5),
            0.5,
            {"payment": False, "arm_drift": True},
        ),
    ],
)
def test_the_same_check_finds_who_does_not_keep_to_them(
    policy: Any, drift: Any, l: float, kept: dict[str, bool]
) -> None:
    found = every_round_keeps(l, arms=BERNOULLI, policies=[policy], drifts=[drift], horizon=2_000)
    assert found == kept


# --- Settled gaps -----------------------------------------------------------------------------


@pytest.mark.parametrize("l", [0.0, 0.5, 1.1])
def test_regret_is_1_plus_l_times_compensation(l: float) -> None:
    study = paper(
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
def test_settled_gaps_predict_ucb(l: float, T: int) -> None:
    study = paper(policies=[entice.UCB()], drifts=[entice.LinearDrift(l)], horizon=T)
    summary = entice.run(study).summary()
    expected = theory.steady_state.ucb(T, means=MEANS, l=l)
    for metric, within in (("regret", 0.08), ("compensation", 0.20)):
        (row,) = summary.filter(metric=metric).iter_rows(named=True)
        chance = 4.8 * row["stderr"]  # a mean within the margin fails with probability 1e-5
        assert abs(row["mean"] - getattr(expected, metric)) < within * row["mean"] + chance


# --- Growth -----------------------------------------------------------------------------------


def test_growth_is_logarithmic_inside_assumption_1_and_linear_under_a_step() -> None:
    """With noise for which Thompson sampling is consistent, too."""
    settings: Any = {
        "arms": entice.Gaussian(MEANS, std=0.5),
        "policies": [entice.UCB(), entice.ThompsonSampling()],
        "horizon": 1_000_000,
    }
    lipschitz = [entice.LinearDrift(0.0), entice.LinearDrift(1.1)]
    study = paper(**settings, drifts=lipschitz, replications=200)
    inside = theory.growth(study, progress=False).table
    study = paper(**settings, drifts=[entice.StepDrift(0.3)], replications=20)
    outside = theory.growth(study, progress=False).table.filter(metric="regret")
    # Intervals miss by more than twice their half-width with probability 1e-4 (1e-3 of 20 runs).
    half = pl.col("exponent_high") - pl.col("exponent")
    highest, lowest = pl.col("exponent") + 2 * half, pl.col("exponent") - 2 * half
    assert inside.height == 8
    assert inside.select((highest < pl.col("exponent_at_first")).all()).item()
    assert inside.select((highest < 0.3).all()).item()
    assert outside.select((lowest > 0.85).all()).item()
    assert set(inside["fits"]) == {"log"}
    assert set(outside["fits"]) == {"power"}


def points_of(T: Any, mean: Any, error: float = 0.01) -> pl.DataFrame:
    """Points of one cell, with so large a relative standard error."""
    return pl.DataFrame({"T": T, "mean": mean, "stderr": error * mean}).with_columns(
        policy=pl.lit("p"), drift=pl.lit("d"), metric=pl.lit("regret"),
        policy_index=pl.lit(0), drift_index=pl.lit(0),
    )  # fmt: skip


def test_fits_find_what_was_put_in() -> None:
    T = np.array([1_000, 3_162, 10_000, 31_623, 100_000])
    for curve, fits in ((5 + 3 * np.log(T), "log"), (2 * T**0.7, "power")):
        row = fit(points_of(T, curve))
        assert row["fits"] == fits
        assert row[f"{fits}_error"] < 1e-6
        slope = math.log(curve[-1] / curve[2]) / math.log(10)
        assert row["exponent"] == pytest.approx(slope)
        half = 1.96 * math.hypot(0.01, 0.01) / math.log(10)
        assert row["exponent_high"] - row["exponent"] == pytest.approx(half)
    assert row["power_p"] == pytest.approx(0.7)
    assert row["power_a"] == pytest.approx(2)


def test_what_is_never_paid_does_not_grow() -> None:
    study = paper(policies=[entice.Greedy()], drifts=[entice.NoDrift()], horizon=10_000)
    found = theory.growth(study, progress=False)
    (paid,) = found.table.filter(metric="compensation").iter_rows(named=True)
    assert paid["fits"] is None
    assert paid["exponent"] is None
    assert found.plot().axes  # and the picture can be drawn


def test_growth_depends_on_the_seed_alone() -> None:
    study = paper(policies=[entice.UCB()], drifts=[entice.NoDrift()], horizon=10_000)
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
def test_growth_needs_horizons_that_tell_something(horizons: Any) -> None:
    with pytest.raises(entice.InputError, match="horizons"):
        theory.growth(paper(), horizons=horizons)
    with pytest.raises(entice.InputError, match="horizon of at least 10,000"):
        theory.growth(paper(horizon=2_000))


def test_growth_needs_more_than_one_run() -> None:
    with pytest.raises(entice.InputError, match="replications must be at least 2"):
        theory.growth(paper(replications=1))


def test_fits_that_are_about_as_far_off_leave_it_undecided() -> None:
    T = np.array([1_000, 3_162, 10_000, 31_623, 100_000])
    mean = np.array([10.0, 16.0, 23.0, 31.0, 42.0])
    assert fit(points_of(T, mean, error=0.06))["fits"] == "undecided"
    assert fit(points_of(T, mean, error=0.01))["fits"] == "too short"  # the exponent surely falls


@pytest.mark.parametrize("l", [1.1, 3.0, 5.0])
def test_growth_that_has_not_settled_is_no_power(l: float) -> None:
    """UCB's predicted regret, which is logarithmic in the long run (Theorem 1).

    Without the change of its exponent, the fits alone call it a power of T at 10⁵ rounds.
    """
    for last, fits in ((5, "too short"), (9, "log")):
        T = np.array([round(10 ** (k / 2)) for k in range(6, 2 * last + 1)])
        row = fit(points_of(T, theory.steady_state.ucb(T, means=MEANS, l=l).regret, error=0.003))
        assert row["fits"] == fits
        assert row["exponent"] < row["exponent_before"]
        if (last, l) == (5, 3.0):  # the control: the rule of before
            assert row["power_error"] < CLEARLY_BETTER * row["log_error"]


def test_few_runs_do_not_make_a_power() -> None:
    """T^0.6 is one if its exponent is known well enough to tell it from a falling one."""
    T = np.array([1_000, 3_162, 10_000, 31_623, 100_000])
    for error, fits in ((0.01, "power"), (0.2, "undecided")):
        assert fit(points_of(T, 3 * T**0.6, error=error))["fits"] == fits


def test_a_log_fit_is_not_believed_while_the_exponent_rises() -> None:
    T = np.array([1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000])
    assert classify_growth(0.05, 0.1, ExponentChange(0.1, 0.02, 0.06, -0.02)) == "too short"
    assert fit(points_of(T, 5 + 3 * np.log(T)))["fits"] == "log"


def test_less_than_two_decades_are_too_short() -> None:
    T = np.array([2_000, 6_325, 20_000, 63_246, 180_000])
    for curve in (5 + 3 * np.log(T), 2 * T**0.7):
        row = fit(points_of(T, curve))
        assert row["fits"] == "too short"
        assert row["exponent_before"] is None


def test_where_theorem_1_applies_no_power_is_claimed_after_100_000_rounds() -> None:
    study = inside(
        policies=[entice.UCB()], drifts=[entice.LinearDrift(3.0)], horizon=100_000,
        replications=100, feedback_range=None, arms=entice.Bernoulli(MEANS),
    )  # fmt: skip
    assert theory.theorem1.regret.applies(study)
    (row,) = theory.growth(study, progress=False).table.filter(metric="regret").to_dicts()
    assert (
        row["power_error"] < CLEARLY_BETTER * row["log_error"]
    )  # and that was the whole rule before
    assert row["fits"] == "too short"


def test_horizons_are_whole_decades_down_from_the_last() -> None:
    study = paper(policies=[entice.UCB()], drifts=[entice.NoDrift()], horizon=200_000)
    points = theory.growth(study, progress=False).points
    assert points["T"].unique().sort().to_list() == [2_000, 6_325, 20_000, 63_246, 200_000]
