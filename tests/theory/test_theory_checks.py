"""Whether bounds apply to a study, whether they are vacuous, and the table of bounds."""

from __future__ import annotations

import math
import re
from typing import Any

import polars as pl
import pytest
from theory_fixtures import fading, falling, nine_arm_study, unit_interval_study

import entice
from entice import theory
from entice.theory.setting import Setting

# --- Applicability --------------------------------------------------------------------------


def test_theorems_1_and_2_apply_inside_their_assumptions() -> None:
    for bound in (theory.theorem1.regret, theory.theorem1.compensation, theory.theorem2.regret):
        assert bound.applies(unit_interval_study())
        assert bound.applies(unit_interval_study()).reasons == ()


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
        ("theorem3", {}, "Δ̲, the smallest difference of displayed averages in a run, is unknown"),
        (
            "theorem3",
            {"policies": [entice.ThompsonSampling(scale="std")]},
            "samples with variance",
        ),
        (
            "theorem1",
            {"policies": [entice.Greedy()]},
            "is about UCB, which the study does not run",
        ),
    ],
)
def test_unmet_assumptions_are_reported(module: str, changes: Any, reason: str) -> None:
    check = getattr(theory, module).regret.applies(unit_interval_study(**changes))
    assert not check
    assert any(re.search(reason, text) for text in check.reasons), check.reasons


def test_a_custom_drift_may_declare_its_lipschitz_constant() -> None:
    drift = entice.CustomDrift(fading, params=[1.1], lipschitz=1.1)
    assert theory.theorem1.regret.applies(unit_interval_study(drifts=[drift]))


def test_each_reason_is_reported_once_with_its_cells() -> None:
    study = unit_interval_study(drifts=[entice.LinearDrift(0.5), entice.StepDrift(0.3)])
    assert theory.theorem1.regret.applies(study).reasons == (
        "UCB with StepDrift(0.3): StepDrift(0.3) is not Lipschitz (Assumption 1)",
    )
    assert not theory.theorem1.regret.vacuous(study)  # one cell is not vacuous
    study = unit_interval_study(drifts=[entice.StepDrift(0.2), entice.StepDrift(0.3)])
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
            "not consistent for Gaussian noise with a variance above 1/2",
        ),
        (
            {
                "arms": entice.Empirical([1, 5], [[1, 3], [2, 2]]),
                "policies": [entice.ThompsonSampling()],
            },
            "not known to be consistent for rewards with a range of 4",
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
            "with noise=0.6 is not consistent for Gaussian noise with a variance above 0.18",
        ),
        (
            {"policies": [entice.ThompsonSampling(noise=0.4)]},
            "with noise=0.4 is not known to be consistent for rewards with a range of 1",
        ),
        (
            {"arms": entice.Beta(a=[3, 1], b=[1, 1]), "policies": [entice.BetaThompson()]},
            "for Bernoulli arms only",
        ),
        (
            {"arms": entice.Gaussian([0.9, 0.5]), "policies": [entice.KLUCB()]},
            "the model has rewards in [0, 1]",
        ),
        ({"feedback_range": (0.4, 0.6)}, "cuts off rewards"),
        ({"arms": entice.Bernoulli([0.9, 0.9, 0.1])}, "2 arms share the highest mean, 0.9"),
        (
            {"drifts": [entice.CustomDrift(fading, params=[5.0], lipschitz=0.0)]},
            "Assumption 1 does not hold",
        ),
    ],
)
def test_unmet_assumptions_of_lower_bounds_are_reported(changes: Any, reason: str) -> None:
    settings = {"drifts": [entice.NoDrift()], "policies": [entice.UCB()]} | changes
    check = theory.lower.regret.applies(unit_interval_study(**settings))
    assert reason in " ".join(check.reasons)
    consistent = [
        entice.UCB(), entice.ThompsonSampling(), entice.UCB(noise=0.5),
        entice.ThompsonSampling(noise=0.5), entice.BetaThompson(), entice.KLUCB(),
    ]  # fmt: skip
    assert theory.lower.regret.applies(
        unit_interval_study(drifts=[entice.NoDrift()], policies=consistent)
    )


def test_the_papers_theorems_require_a_noise_parameter_of_1() -> None:
    assert theory.theorem1.regret.applies(unit_interval_study(policies=[entice.UCB()]))
    check = theory.theorem1.regret.applies(unit_interval_study(policies=[entice.UCB(noise=0.5)]))
    assert check.reasons == ("proved for noise=1, the paper's algorithm, unlike UCB(noise=0.5)",)
    for bound in (theory.theorem3.regret, theory.theorem3.paid_pulls):
        check = bound.applies(unit_interval_study(policies=[entice.ThompsonSampling(noise=0.5)]))
        assert "unlike ThompsonSampling(noise=0.5)" in " ".join(check.reasons)


# --- Vacuous bounds -------------------------------------------------------------------------


def test_on_the_papers_instance_only_the_bound_on_ucbs_regret_is_not_vacuous() -> None:
    assert not theory.theorem1.regret.vacuous(nine_arm_study())
    assert theory.theorem2.regret.vacuous(nine_arm_study())
    assert theory.theorem3.regret.vacuous(nine_arm_study())
    (reason,) = theory.theorem2.regret.vacuous(nine_arm_study()).reasons
    assert reason == "beyond the largest possible value, 16,000 (the largest gap in every round)"


def test_a_bound_above_ucbs_largest_possible_compensation_is_vacuous() -> None:
    assert theory.theorem1.compensation.vacuous(nine_arm_study())
    assert not theory.theorem1.compensation.vacuous(unit_interval_study(horizon=100_000))


def test_no_run_exceeds_the_largest_possible_value() -> None:
    study = unit_interval_study(
        horizon=500, drifts=[entice.LinearDrift(0.0), entice.LinearDrift(3.0)]
    )
    result = entice.run(study)
    for p, d, policy, drift in study.cells():
        cell = result.final.filter(policy_index=p, drift_index=d)
        for metric in ("regret", "compensation", "compensated_pulls"):
            most, _ = theory.setting.largest_value(metric, Setting(study, policy, drift))
            assert math.isfinite(most)
            assert cell[metric].to_numpy().max() <= most


def test_a_lower_bound_is_vacuous_if_it_is_zero_or_the_horizon_too_short() -> None:
    settings: Any = {"drifts": [entice.NoDrift()], "policies": [entice.UCB()]}
    sure = unit_interval_study(arms=entice.Bernoulli([1.0, 0.5]), **settings)
    assert theory.lower.regret.vacuous(sure).reasons == ("its value is 0",)
    early = unit_interval_study(arms=entice.Bernoulli([0.51, 0.5]), horizon=100, **settings)
    assert "asymptotic" in theory.lower.regret.vacuous(early).reasons[0]


def test_inequalities_of_each_round_are_not_vacuous() -> None:
    for bound in (theory.ucb_proof.payment, theory.ucb_proof.arm_drift):
        assert bound.applies(nine_arm_study())  # they hold for any rewards
        assert not bound.vacuous(nine_arm_study(drifts=[entice.LinearDrift(1.1)]))
    step = nine_arm_study(drifts=[entice.StepDrift(0.3)])
    assert theory.ucb_proof.payment.applies(step)
    assert not theory.ucb_proof.arm_drift.applies(step)


def test_two_best_arms_are_an_error() -> None:
    with pytest.raises(entice.InputError, match=r"a single best arm, not 2 with mean 0\.9"):
        theory.bounds(unit_interval_study(arms=entice.Bernoulli([0.9, 0.9, 0.1])))


# --- The table ------------------------------------------------------------------------------


def test_the_table_has_every_bound_with_the_measurements() -> None:
    result = entice.run(nine_arm_study())
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


def test_the_table_of_a_study_has_no_measurements() -> None:
    table = theory.bounds(
        unit_interval_study(drifts=[entice.CustomDrift(fading, [1.0]), entice.StepDrift(0.3)])
    )
    assert table["mean"].null_count() == table.height
    regret = table.filter(policy="UCB", metric="regret", kind="upper", version="as stated")
    assert regret["value"].to_list() == [None, math.inf]  # unknown l; no finite l
    assert regret["vacuous"].to_list() == [None, True]
