"""The formulas of `entice.theory` match the oracle; invalid arguments are rejected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import theory as oracle

import entice
from entice import theory
from entice.paper.setups import MEANS
from entice.theory.special import digamma

GAPS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
INSTANCES = {
    "gaps": st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8),
    "l": st.floats(0, 5),
    "T": st.integers(2, 10**12),
    "c": st.floats(0.1, 5_000),
    "shown": st.floats(1e-4, 1.0),
}

# --- The paper's instance ---------------------------------------------------------------------


@pytest.mark.parametrize(("l", "stated", "proved"), [(0.0, 2_248, 2_165), (1.1, 9_591, 9_508)])
def test_theorem_1_at_the_papers_instance(l: float, stated: int, proved: int) -> None:
    regret = theory.theorem1.regret
    assert round(float(regret.as_stated(20_000, means=MEANS, l=l))) == stated
    assert round(float(regret.as_proved(20_000, means=MEANS, l=l))) == proved


def test_theorems_2_and_3_are_of_the_order_of_a_billion_on_the_papers_instance() -> None:
    epsilon_greedy = theory.theorem2.regret.as_stated(20_000, means=MEANS, c=360)
    thompson = theory.theorem3.regret.as_stated(20_000, means=MEANS, displayed_gap=0.1)
    assert 1e9 < epsilon_greedy < 1e10
    assert 1e9 < thompson < 1e10


def test_lai_and_robbins_at_the_papers_instance() -> None:
    far = theory.lower.divergences(entice.Gaussian(MEANS))
    value = theory.lower.regret.as_stated(20_000, means=MEANS, divergences=far)
    assert round(float(value)) == 538


# --- Against the oracle --------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(gaps=INSTANCES["gaps"], l=INSTANCES["l"], T=INSTANCES["T"])
def test_theorem_1(gaps: list[float], l: float, T: int) -> None:
    bounds, arguments = theory.theorem1, {"gaps": gaps, "l": l}
    _close(bounds.regret.as_stated(T, **arguments), oracle.theorem1_regret_stated(T, gaps, l))
    _close(bounds.regret.as_proved(T, **arguments), oracle.theorem1_regret_proved(T, gaps, l))
    _close(bounds.compensation.as_stated(T, **arguments), oracle.theorem1_compensation(T, gaps, l))


@settings(max_examples=100, deadline=None)
@given(gaps=INSTANCES["gaps"], l=INSTANCES["l"], T=INSTANCES["T"], c=INSTANCES["c"])
def test_theorem_2(gaps: list[float], l: float, T: int, c: float) -> None:
    regret, paid, arguments = (
        theory.theorem2.regret,
        theory.theorem2.compensation,
        {"gaps": gaps, "l": l, "c": c},
    )
    _close(regret.as_stated(T, **arguments), oracle.theorem2_regret_stated(T, gaps, l, c))
    _close(regret.as_proved(T, **arguments), oracle.theorem2_regret_proved(T, gaps, l, c))
    _close(paid.as_stated(T, **arguments), oracle.theorem2_compensation_stated(T, gaps, l, c))
    _close(paid.as_proved(T, **arguments), oracle.theorem2_compensation_proved(T, gaps, l, c))


@settings(max_examples=100, deadline=None)
@given(gaps=INSTANCES["gaps"], l=INSTANCES["l"], T=INSTANCES["T"], shown=INSTANCES["shown"])
def test_theorem_3_and_lemma_3(gaps: list[float], l: float, T: int, shown: float) -> None:
    regret, arguments = theory.theorem3.regret, {"gaps": gaps, "l": l, "displayed_gap": shown}
    ours, theirs = (
        regret.as_stated(T, **arguments),
        oracle.theorem3_regret_stated(T, gaps, l, shown),
    )
    assert abs(ours - theirs) <= len(gaps) + 1e-9 * theirs  # rounding may move the ceiling by 1
    ours, theirs = (
        regret.as_proved(T, **arguments),
        oracle.theorem3_regret_proved(T, gaps, l, shown),
    )
    assert abs(ours - theirs) <= len(gaps) + 1e-9 * theirs
    paid = theory.theorem3.compensation.as_stated(T, **arguments)
    _close(paid, oracle.theorem3_compensation(T, gaps, l, shown))
    pulls = theory.theorem3.paid_pulls.as_stated(T, gaps=gaps, displayed_gap=shown)
    _close(pulls, (len(gaps) + 1) * oracle.lemma3_paid_pulls(T, shown))


@pytest.mark.parametrize("c", [0.05, 0.3, 1.0, 5.0, 7.3, 360.0])
@pytest.mark.parametrize("K", [2, 9])
def test_lemma_1(c: float, K: int) -> None:
    for T in (2, 10, 44, 45, 46, 1_000, 20_000):
        ours = theory.theorem2.explorations(T, c=c, arms=K, delta=0.1)
        expected = theory.theorem2.expected_explorations(T, c=c, arms=K)
        if expected < math.log(K / 0.1) / (math.e - 2):
            assert np.isnan(ours)  # the condition of the lemma fails
        else:
            _close(ours, oracle.lemma1_explorations(T, K, c, 0.1))


@settings(max_examples=50, deadline=None)
@given(t=st.integers(2, 10**9), n=st.integers(1, 10**6), l=INSTANCES["l"])
def test_the_inequalities_of_the_proof_of_theorem_1(t: int, n: int, l: float) -> None:
    _close(theory.ucb_proof.payment.as_stated(t, pulls=n), oracle.payment_bound(t, n))
    _close(theory.ucb_proof.arm_drift.as_stated(t, pulls=n, l=l), oracle.arm_drift_bound(t, n, l))


def test_divergences_match_numerical_integration() -> None:
    lower = theory.lower
    _close(lower.kl_bernoulli(0.3, 0.8), oracle.kl_bernoulli(0.3, 0.8))
    _close(
        lower.kl_gaussian(0.3, 0.8, 0.5, 0.7), oracle.kl_gaussian_numeric(0.3, 0.5, 0.8, 0.7), 1e-5
    )
    _close(lower.kl_beta(2, 5, 6, 3), oracle.kl_beta_numeric(2, 5, 6, 3), 1e-5)
    _close(lower.kl_discrete([0.2, 0.8], [0.5, 0.5]), oracle.kl_bernoulli(0.8, 0.5))


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        (entice.Gaussian([0.1, 0.9], std=2.0), 0.8**2 / 8),
        (entice.Gaussian([0.1, 0.9], std=0.0), math.inf),
        (entice.Gaussian([0.5, 0.5 + 1e-9]), 0.5e-18),
        (entice.Bernoulli([0.5, 0.5 + 1e-9]), 2e-18),
        (entice.Bernoulli([0.9, 0.5]), oracle.kl_bernoulli(0.5, 0.9)),
        (entice.Bernoulli([1.0, 0.5]), math.inf),
        (entice.Beta(a=[2, 6], b=[5, 3]), oracle.kl_beta_numeric(2, 5, 6, 3)),
        (entice.Empirical([0, 1], [[1, 3], [2, 2]]), oracle.kl_bernoulli(0.5, 0.75)),
        (entice.Empirical([0, 0.5, 1], [[0, 1, 3], [2, 1, 1]]), math.inf),
    ],
    ids=lambda given: getattr(given, "label", type(given).__name__),
)
def test_divergences_from_the_best_arm(arms: Any, expected: float) -> None:
    (found,) = theory.lower.divergences(arms)
    assert found == pytest.approx(expected, rel=1e-5)


def test_an_arm_with_infinite_divergence_contributes_nothing() -> None:
    assert theory.lower.regret.as_stated(100, gaps=[0.5], divergences=[math.inf]) == 0.0


def test_nearly_identical_arms_raise_no_error() -> None:
    for arms in (
        entice.Gaussian([0.5, 0.5 + 1e-9]),
        entice.Bernoulli([0.5, 0.5 + 1e-9]),
        entice.Beta(a=[1e8, 1e8 + 1], b=[1e8, 1e8]),
    ):
        study = entice.Study(arms=arms, policies=[entice.UCB()], horizon=1_000)
        assert theory.bounds(study).filter(kind="lower")["vacuous"].all()


def test_extreme_numbers_raise_no_error() -> None:
    assert theory.theorem1.regret.as_stated(1_000, gaps=[0.1], l=1e200) == math.inf
    assert theory.theorem2.expected_explorations(1e300, c=1e308, arms=9) > 0


def test_arguments_may_be_columns_of_frames() -> None:
    means = pl.Series([0.9, 0.5])
    assert theory.theorem1.regret.as_stated(pl.Series([10, 100]), means=means).shape == (2,)


def test_digamma() -> None:
    x = np.concatenate([np.geomspace(1e-3, 1e9, 200), np.arange(1.0, 30.0)])
    assert np.allclose(digamma(x), scipy.special.digamma(x), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("l", [0.0, 0.5, 3.0])
def test_displayed_gaps_follow_the_recursion_and_converge(l: float) -> None:
    path = theory.steady_state.displayed_gaps(5_000, gap=0.3, l=l, start=0.9)
    assert path[-1] == pytest.approx(
        oracle.steady_state_gap_by_iteration(0.3, l, 0.9, 4_999), rel=1e-9
    )
    assert path[-1] == pytest.approx(
        theory.steady_state.steady_state_gap(gaps=[0.3], l=l)[0], abs=5e-4
    )


def test_the_printed_total_of_lemma_2_is_smaller_than_the_sum_of_its_terms() -> None:
    """The example of docs/explanation/theorems.md: K = 9, Δ = 0.5, c = 36/Δ², T = 10⁶."""
    K, gap, c, T = 9, 0.5, 144.0, 10**6
    x = np.cumsum(np.minimum(1.0, c * K / np.arange(1, T + 1))) / (2 * K)
    tails = x * np.exp(-x / 5) + 18 / gap**2 * np.exp(-(gap**2) * np.floor(x) / 18)
    printed = (c / 2 + 18 / gap**2) * math.log(T) + c * (K + math.pi**2 / gap**2) + 18 / gap**2
    assert round(float(np.minimum(1.0, tails).sum())) == 150_924
    assert round(printed) == 9_042


# --- Vectors and scalars, gaps and means ------------------------------------------------------


@pytest.mark.parametrize("bound", theory.BOUNDS, ids=lambda b: f"{b.name} {b.metric}")
def test_every_bound_is_vectorised_over_horizons(bound: theory.Bound) -> None:
    arguments = _arguments(bound)
    for formula in (bound.as_stated, bound.as_proved):
        grid = np.array([[1_000, 20_000], [10**6, 10**9]])
        together = formula(grid, **arguments)
        assert together.shape == (2, 2)
        assert together.ravel().tolist() == [float(formula(T, **arguments)) for T in grid.ravel()]
        if "gaps" in arguments:
            assert formula(1_000, **arguments | {"gaps": None, "means": MEANS}) == pytest.approx(
                formula(1_000, **arguments)
            )


def test_predictions_are_vectorised_over_horizons() -> None:
    found = theory.steady_state.ucb([1_000, 20_000], gaps=GAPS, l=1.1)
    single = theory.steady_state.ucb(20_000, gaps=GAPS, l=1.1)
    assert found.regret[1] == pytest.approx(single.regret)
    assert found.pulls.shape == (2, 8)
    assert found.regret == pytest.approx(found.compensation * 2.1)


# --- Invalid arguments ---------------------------------------------------------------------


@pytest.mark.parametrize("bound", theory.BOUNDS, ids=lambda b: f"{b.name} {b.metric}")
@pytest.mark.parametrize("T", [1, 0, -5, math.inf, math.nan, "many", "1000", 10**400, [], [10, 1]])
def test_fewer_than_two_rounds_are_rejected(bound: theory.Bound, T: Any) -> None:
    with pytest.raises(entice.InputError, match="T must be"):
        bound.as_stated(T, **_arguments(bound))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"gaps": [0.1, 0.0]}, "gaps must be greater than 0"),
        ({"gaps": [0.1, -0.2]}, "gaps must be greater than 0"),
        ({"gaps": []}, "gaps must be a list of at least 1 number"),
        ({"gaps": 0.1}, "gaps must be a list"),
        ({"gaps": [0.1, "x"]}, r"gaps\[1\] must be a number"),
        ({"gaps": None}, "gaps or means must be given, exactly one of the two; got 'neither'"),
        ({"means": [0.9, 0.1]}, "gaps or means must be given, exactly one of the two; got 'both'"),
        ({"gaps": None, "means": [0.9, 0.9, 0.1]}, "a single best arm, not 2 with mean 0.9"),
        ({"gaps": None, "means": [0.9]}, "means must be a list of at least 2 numbers"),
    ],
)
def test_gaps_must_be_positive_and_the_best_arm_unique(wrong: Any, message: str) -> None:
    for bound in theory.BOUNDS:
        arguments = _arguments(bound)
        if "gaps" in arguments:
            with pytest.raises(entice.InputError, match=message):
                bound.as_stated(1_000, **arguments | wrong)


@pytest.mark.parametrize("l", [-0.1, math.nan, math.inf, "1"])
def test_l_must_not_be_negative(l: Any) -> None:
    for bound in theory.BOUNDS:
        arguments = _arguments(bound)
        if "l" in arguments:
            with pytest.raises(entice.InputError, match=r"^l must"):
                bound.as_proved(1_000, **arguments | {"l": l})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.theorem2.regret.as_stated(9, gaps=[0.1], c=0), "c must be greater than 0"),
        (lambda: theory.theorem2.explorations(9, c=1, arms=1), "arms must be at least 2"),
        (lambda: theory.theorem2.explorations(9, c=1, arms=2, delta=0.6), "at most 1/2"),
        (
            lambda: theory.theorem3.regret.as_stated(9, gaps=[0.1], displayed_gap=0),
            "displayed_gap must be greater than 0",
        ),
        (
            lambda: theory.lower.regret.as_stated(9, gaps=[0.1], divergences=[0.1, 0.2]),
            "divergences must be greater than 0, one for each of the 1 suboptimal arms",
        ),
        (lambda: theory.lower.kl_bernoulli(2, 0.5), "mean must lie between 0 and 1"),
        (lambda: theory.lower.kl_gaussian(0.5, 0.1, std=-1), "std must be at least 0"),
        (lambda: theory.lower.kl_beta(-1, 1, 2, 2), "a must be at least"),
        (lambda: theory.lower.divergences([0.9, 0.5]), "arms must be arms"),
        (lambda: theory.ucb_proof.payment_bound(9, pulls=[-1, 2]), "pulls must be at least 0"),
        (
            lambda: theory.ucb_proof.compare_with_trace([1], l=0.5),
            "rounds must be a frame returned by entice.trace",
        ),
        (lambda: theory.theorem1.regret.applies("study"), "study must be a Study"),
        (
            lambda: theory.steady_state.displayed_gaps(0, gap=0.1, l=1, start=0),
            "pulls must be at least",
        ),
    ],
)
def test_other_invalid_input_is_rejected(call: Any, message: str) -> None:
    with pytest.raises(entice.InputError, match=message):
        call()


def _close(ours: Any, theirs: float, relative: float = 1e-9) -> None:
    assert float(ours) == pytest.approx(theirs, rel=relative)


def _arguments(bound: theory.Bound) -> dict[str, Any]:
    """Return the arguments that the bound derives from a study."""
    with_parameters: dict[Any, Any] = {
        entice.EpsilonGreedy: entice.EpsilonGreedy(c=500),
        entice.EqualPayElimination: entice.EqualPayElimination(horizon=20_000),
    }
    kind: Any = bound.policies[0] if bound.kind == "upper" else entice.UCB
    policy = with_parameters.get(kind) or kind()
    study = entice.Study(arms=entice.Gaussian(MEANS), policies=[policy], horizon=20_000)
    arguments = bound.formula_arguments(
        theory.setting.Setting(study, policy, entice.LinearDrift(1.1))
    )
    return {key: list(value) if key == "gaps" else value for key, value in arguments.items()}
