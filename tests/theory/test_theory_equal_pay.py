"""Theorem E2 (docs/explanation/equal-pay-theorems.md): formulas, checks, steps of the proof."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats
from drift_shapes import drift_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import theory as oracle
from plain_kernel import plain_kernel
from sizes import LONG, sized
from theory_fixtures import fading, falling

import entice
from entice import theory
from entice.paper.setups import MEANS
from entice.theory.setting import Setting, largest_value

GAPS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
REGRET, COMPENSATION = theory.equal_pay.regret, theory.equal_pay.compensation
INSTANCES: dict[str, Any] = {
    "gaps": st.lists(st.floats(0.01, 2.0), min_size=1, max_size=12),
    "T": st.integers(3, 10**9),
    "noise": st.floats(0.05, 5.0),
    "rho": st.floats(1.01, 4.0),
    "eta": st.floats(0.01, 0.99),
}


def equal_pay_study(**changes: Any) -> entice.Study:
    """A study that meets the assumptions of Theorem E2, with some changes."""
    chosen: dict[str, Any] = {
        "arms": entice.Bernoulli(MEANS),
        "policies": [entice.EqualPayElimination(horizon=20_000, noise=0.5, rho=1.5)],
        "drifts": [entice.LinearDrift(1.1)],
        "horizon": 20_000,
        "replications": 200,
        "seed": 7,
    }
    return entice.Study(**chosen | changes)


# --- Formulas -------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(**INSTANCES)
def test_formulas_match_the_oracle(
    gaps: list[float], T: int, noise: float, rho: float, eta: float
) -> None:
    arguments: Any = {"gaps": gaps, "noise": noise, "rho": rho, "eta": eta}
    ours, theirs = REGRET.as_stated(T, **arguments), oracle.equal_pay_regret
    assert ours == pytest.approx(theirs(T, gaps, noise, rho, eta), rel=1e-9)
    ours, theirs = COMPENSATION.as_stated(T, **arguments), oracle.equal_pay_compensation
    assert ours == pytest.approx(theirs(T, gaps, noise, rho, eta), rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(**INSTANCES)
def test_the_lowest_value_over_eta_is_found(
    gaps: list[float], T: int, noise: float, rho: float, eta: float
) -> None:
    for bound in (REGRET, COMPENSATION):
        lowest = bound.as_stated(T, gaps=gaps, noise=noise, rho=rho)
        other = bound.as_stated(T, gaps=gaps, noise=noise, rho=rho, eta=eta)
        assert lowest <= other * (1 + 1e-3)


def test_the_papers_means_with_rewards_between_0_and_1() -> None:
    arguments: Any = {"means": MEANS, "noise": 0.5, "rho": 1.5}
    assert round(float(REGRET.as_stated(20_000, **arguments))) == 1_318
    assert round(float(COMPENSATION.as_stated(20_000, **arguments))) == 2_223
    # Theorem 1, which has no bound without l, is larger on the same arms even for l = 0.
    assert theory.theorem1.regret.as_proved(20_000, means=MEANS, l=0.0) > 2_164


def test_leading_terms() -> None:
    """4ρσ²/(1−η)² Σ 1/Δ_i, which tends to 1/Δ, and 8ρσ²/(1−η) (Σ 1/Δ_i + k/Δ), to 2(…)."""
    arguments: Any = {"gaps": [0.5, 0.25], "noise": 0.5}
    regret = REGRET.as_stated(np.array([1e100, 1e200]), rho=1.001, eta=0.001, **arguments)
    assert np.diff(regret)[0] / math.log(1e100) == pytest.approx(2 + 4, rel=0.01)
    paid = COMPENSATION.as_stated(1e300, rho=1.001, eta=0.2, **arguments) / math.log(1e300)
    assert paid == pytest.approx(2 / (1 - 0.2) * (2 + 4 + 4), rel=0.05)


def test_bounds_grow_with_the_rounds_and_are_vectorised() -> None:
    T = np.array([[2, 10, 1_000], [10_000, 20_000, 10**6]])
    for bound in (REGRET, COMPENSATION):
        values = bound.as_stated(T, means=MEANS, horizon=20_000)
        assert values.shape == T.shape
        assert (np.diff(values.ravel()) > 0).all()
    assert (np.diff(REGRET.as_stated(np.geomspace(1e3, 1e9, 50), means=MEANS)) > 0).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rho": 1.0}, "rho must be greater than 1"),
        ({"eta": 1.0}, "eta must lie between 0 and 1"),
        ({"noise": 0.0}, "noise must be greater than 0"),
        ({"horizon": 1}, "T must be at least 2 rounds"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: Any, words: str) -> None:
    with pytest.raises(entice.InputError, match=words):
        REGRET.as_stated(100, means=MEANS, **arguments)


# --- Applicability --------------------------------------------------------------------------


def only_payment(payment: float, t: int, arm: int, params: Any) -> float:
    """A drift outside Assumption 1: neither monotone nor continuous."""
    return -payment if payment < 0.1 else 5 * payment * payment


def by_arm(payment: float, t: int, arm: int, params: Any) -> float:
    """A drift that differs between arms."""
    return payment * (arm + 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"drifts": [entice.NoDrift(), entice.StepDrift(0.3), entice.NegativeDrift(1.1)]},
        {"drifts": [entice.PowerDrift(l=5, exponent=2), entice.SaturatingDrift(l=1.1, cap=0.2)]},
        {"drifts": [entice.CustomDrift(only_payment), entice.CustomDrift(falling, [1.0])]},
        {"drifts": [entice.ArmDrift([0.5] * 9)]},
        {"drifts": [entice.NoDrift()], "feedback_range": (0, 1)},
        {"arms": entice.Gaussian(MEANS, std=0.5)},
        {"cold_start": "prior"},
        {"horizon": 50_000},
    ],
)
def test_the_theorem_applies(changes: Any) -> None:
    for bound in (REGRET, COMPENSATION):
        assert bound.applies(equal_pay_study(**changes)).reasons == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"drifts": [entice.ArmDrift([0.5] * 8 + [1.0])]}, "differs between arms"),
        ({"drifts": [entice.CustomDrift(by_arm)]}, "by_arm differs between arms"),
        ({"drifts": [entice.CustomDrift(fading, [1.0])]}, r"fading\(1\) differs between rounds"),
        (
            {"drifts": [entice.FadingDrift(l=1.0, half_life=100)]},
            "differs between the rounds of a block",
        ),
        ({"drifts": [entice.RandomDrift(0.0, 2.2)]}, "not a function of the payment"),
        ({"drifts": [entice.CarriedDrift(l=1.0, keep=0.5)]}, "not a function of the payment"),
        (
            {"drifts": [entice.CompressionDrift(target=0.5, strength=0.5)]},
            "not a function of the payment",
        ),
        ({"feedback_range": (0, 1)}, "feedback_range cuts off drift"),
        (
            {"feedback_range": (0.2, 1), "drifts": [entice.NoDrift()]},
            "cuts off rewards",
        ),
        ({"arms": entice.Gaussian(MEANS)}, "a noise of at least 1, .*, and it is 0.5"),
        ({"players": entice.Players(delay=50)}, "rate late or never"),
        ({"players": entice.Players(loss=0.3)}, "rate late or never"),
        ({"adversary": entice.StrategicArms(budget=50)}, "changes feedback"),
        ({"policies": [entice.EqualPay()]}, "about EqualPayElimination"),
    ],
)
def test_unmet_assumptions_are_reported(changes: Any, reason: str) -> None:
    check = REGRET.applies(equal_pay_study(**changes))
    assert not check
    assert any(pl.Series([text]).str.contains(reason).item() for text in check.reasons), check


def test_two_best_arms_are_reported() -> None:
    check = REGRET.applies(equal_pay_study(arms=entice.Bernoulli([0.9, 0.9, 0.1])))
    assert "2 arms share the highest mean" in " ".join(check.reasons)


def test_vacuous_bounds() -> None:
    for bound in (REGRET, COMPENSATION):
        assert not bound.vacuous(equal_pay_study())
        assert bound.vacuous(equal_pay_study(horizon=100))
    (reason,) = COMPENSATION.vacuous(equal_pay_study(horizon=100)).reasons
    assert "equal-pay elimination's largest possible total" in reason


def test_lower_bounds_apply_if_the_horizon_is_known() -> None:
    study = equal_pay_study(drifts=[entice.NoDrift()])
    assert theory.lower.regret.applies(study)
    check = theory.lower.regret.applies(equal_pay_study(drifts=[entice.NoDrift()], horizon=10_000))
    assert "its horizon that of the study" in " ".join(check.reasons)


# --- The steps of the proof -------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(u=st.floats(1e-6, 20.0), rho=st.floats(1.01, 4.0))
def test_step_1_the_sum_over_slices(u: float, rho: float) -> None:
    points = u * rho ** np.arange(0, math.ceil(math.log(1e3 / u) / math.log(rho)) + 1)
    assert (points * np.exp(-points)).sum() <= 1 / math.log(rho) + 1 / math.e


@settings(max_examples=100, deadline=None)
@given(**INSTANCES)
def test_step_2_widths_from_tau_on(
    gaps: list[float], T: int, noise: float, rho: float, eta: float
) -> None:
    tau, X, _ = oracle.equal_pay_terms(T, gaps, noise, rho, eta)
    for gap, early, late in zip(gaps, tau, X, strict=True):
        for b in (math.ceil(early), math.ceil(early) + 1, math.ceil(3 * early)):
            assert oracle.equal_pay_width(b, T, noise, rho) <= (1 - eta) * gap * (1 + 1e-9)
        # Σ_b exp(−bu) over b ≥ 1 is 1/(exp(u) − 1).
        assert 1 / math.expm1((eta * gap) ** 2 / (4 * noise**2)) <= late


@pytest.mark.parametrize("T", [3, 100, 20_000, 10**7])
def test_step_4_the_sum_of_widths_and_the_threshold(T: int) -> None:
    b = np.arange(1, min(T, 200_000) + 1)
    widths = np.array([oracle.equal_pay_width(int(n), T, 0.5, 1.5) for n in b])
    before_block = np.concatenate([[0.0], np.cumsum(widths)[:-1]])
    assert (before_block <= 4 * 0.5 * np.sqrt(1.5 * math.log(T) * b)).all()
    V = np.geomspace(1, 10 * T, 10_000)
    assert (np.diff(V * np.maximum(1, np.log(T / V))) >= -1e-9 * V[1:]).all()


@pytest.mark.usefixtures("untraced")
def test_step_1_the_maximal_inequality_and_the_probability_to_drop_the_best_arm() -> None:
    """Random walks with variances that the past determines, as the leader's places do."""
    rng = np.random.default_rng(7)
    runs, blocks, T, rho, gap = 20_000, 300, 300, 1.5, 0.3
    S, V = np.zeros(runs), np.zeros(runs)
    dropped, crossed = np.zeros(runs, bool), np.zeros(runs, bool)
    y, N = 30.0, 200.0
    for b in range(1, blocks + 1):
        step = np.where(S > 0, 1.5, 2.0)  # σ² (1/k + 1) with k = 2 or 1
        S += np.sqrt(step) * rng.standard_normal(runs)
        V += step
        dropped |= S - gap * b > np.sqrt(2 * rho * V * np.maximum(1, np.log(2 * T / V)))
        crossed |= (V <= N) & (y <= S)
    for found, claimed in (
        (crossed, math.exp(-(y**2) / (2 * N))),
        (dropped, oracle.equal_pay_terms(T, [gap], 1.0, rho, 0.5)[2]),
    ):
        assert 0 < found.mean() < claimed < 1
        assert scipy.stats.binomtest(int(found.sum()), runs, claimed).pvalue < 1e-6


def replay(rounds: pl.DataFrame, policy: entice.EqualPayElimination) -> list[tuple[float, float]]:
    """Replay a run by the definition; return payment and w of each block.

    docs/explanation/equal-pay-theorems.md has the definition.
    """
    K = int(rounds["arm"].max()) + 1  # type: ignore[arg-type]
    active, leader, b, found = set(range(K)), -1, 1, []
    Z, V = np.zeros(K), np.zeros(K)
    rows = rounds.select("arm", "feedback", "payment").iter_rows()
    while len(active) > 1:
        k = math.ceil(math.sqrt((len(active) - 1) / 2)) if b > 1 else 1
        places = {i: k if i == leader else 1 for i in active}
        block = [next(rows) for _ in range(sum(places.values()))]
        pulled = [arm for arm, _, _ in block]
        assert {i: pulled.count(i) for i in active} == places
        (payment,) = {payment for _, _, payment in block}
        w = oracle.equal_pay_width(b - 1, policy.horizon, policy.noise, policy.rho) if b > 1 else 0
        found.append((payment, w))
        for i in active:
            Z[i] += np.mean([rating for arm, rating, _ in block if arm == i])
            V[i] += policy.noise**2 / places[i]
        leader = max(sorted(active), key=lambda i: round(Z[i], 9))
        for i in list(active):
            v = V[leader] + V[i]
            width = 2 * policy.rho * v * max(1, math.log(2 * policy.noise**2 * policy.horizon / v))
            if Z[leader] - Z[i] > math.sqrt(width):
                active.remove(i)
        b += 1
    assert {(arm, payment) for arm, _, payment in rows} == {(leader, 0.0)}
    return found


@pytest.mark.parametrize("arms", [entice.Gaussian(MEANS), entice.Bernoulli(MEANS)], ids=["G", "B"])
def test_step_4_runs_follow_the_definition_and_payments_are_within_the_widths(arms: Any) -> None:
    """The long version is compiled. In the short one, the last arm is left after 4,027 rounds."""
    policy = entice.EqualPayElimination(horizon=20_000, rho=1.5, display_prior=0)
    for replication in range(sized(1, 3)):
        with nullcontext() if LONG else plain_kernel():
            rounds = entice.trace(
                arms=arms, policies=[policy], drifts=[drift_of("linear 5")], seed=7,
                horizon=sized(5_000, 20_000), replication=replication, displayed=False,
            )  # fmt: skip
        found = replay(rounds, policy)
        assert len(found) > 20
        assert all(payment <= w + 1 / 4096 for payment, w in found)
        assert max(payment / w for payment, w in found[1:]) > 0.5  # not trivial


# --- Runs -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("untraced")
def test_every_run_is_below_the_bound_under_every_drift() -> None:
    study = equal_pay_study(
        policies=[entice.EqualPayElimination(horizon=20_000, noise=0.5, rho=rho)
                  for rho in (1.1, 1.5)],
        drifts=[drift_of(shape) for shape in ("none", "linear 5", "step")],
        replications=sized(60, 200),
    )  # fmt: skip
    result = entice.run(study)
    table = theory.bounds(result).filter(bound="Theorem E2")
    assert table.height == 12
    assert table["applies"].all()
    assert not table["vacuous"].any()
    for row in table.iter_rows(named=True):
        cell = result.final.filter(policy_index=row["policy_index"], drift_index=row["drift_index"])
        assert cell.height == study.replications
        assert cell[row["metric"]].max() < row["value"]  # coverage: all runs
        policy, drift = study.policies[row["policy_index"]], study.drifts[row["drift_index"]]
        most, _ = largest_value(row["metric"], Setting(study, policy, drift))
        assert cell[row["metric"]].max() < most
    # Theorem E1: the same runs under each drift.
    for _, runs in result.final.group_by("policy_index", "replication"):
        assert runs["regret"].n_unique() == 1
        assert runs["compensation"].n_unique() == 1


@pytest.mark.usefixtures("untraced")
def test_runs_with_ratings_on_a_scale_are_the_same_under_every_drift() -> None:
    """Sums of stars tie often; rounding errors, which depend on the drift, must not break ties."""
    stars = entice.Empirical(
        [1, 2, 3, 4, 5], [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [1, 1, 1, 1, 1], [3, 1, 2, 4, 1]]
    )
    zero_or_one = entice.Bernoulli([0.7, 0.3, 0.5, 0.45])  # compiled for other tests
    result = entice.simulate(
        arms=sized(zero_or_one, stars), horizon=20_000, replications=sized(20, 100), seed=7,
        policies=[
            entice.EqualPayElimination(horizon=20_000, noise=2.0),
            entice.EqualPay(horizon=20_000, noise=1.5),
        ],
        drifts=[drift_of(shape) for shape in ("none", "linear 1.1", "step")], checkpoints=1,
    )  # fmt: skip
    for _, runs in result.final.group_by("policy_index", "replication"):
        assert runs.height == 3
        assert runs["regret"].n_unique() == 1
        assert runs["compensation"].n_unique() == 1


def test_the_bound_is_drawn_beside_runs() -> None:
    result = entice.run(equal_pay_study(replications=5, drifts=[drift_of("linear 1.1")]))
    for metric in ("regret", "compensation"):
        ax = theory.plot_bounds(result, metric).axes[0]
        (line,) = [line for line in ax.lines if "Theorem E2" in str(line.get_label())]
        bound = REGRET if metric == "regret" else COMPENSATION
        expected = bound.as_stated(20_000, means=MEANS, noise=0.5, rho=1.5)
        assert line.get_data()[1][-1] == pytest.approx(float(expected))
