"""Drift-corrected Thompson sampling: its regression, its displayed values and its performance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from drift_shapes import drift_of
from plain_kernel import plain_kernel
from sizes import sized

import entice
from entice.model.ledger import new_ledger, record
from entice.paper.setups import MEANS
from entice.policies import drift_corrected_thompson as policy
from entice.rng import POLICY, new_stream
from entice.testing import check_policy

ARMS = 3


def rated(ratings: list[tuple[int, float, float]], spec: Any) -> tuple[Any, Any, Any]:
    """Record (arm, payment, feedback) one by one; return kernel, memory and ledger."""
    kernel = spec.kernel(ARMS)
    memory, ledger = np.zeros(kernel.memory), new_ledger(ARMS, 0.0)
    for arm, payment, feedback in ratings:
        record(ledger, arm, feedback)
        kernel.update(memory, kernel.params, arm, payment, feedback)
    return kernel, memory, ledger


def some_ratings(count: int, seed: int) -> list[tuple[int, float, float]]:
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, ARMS, count)
    payments = np.where(rng.random(count) < 0.5, 0.0, rng.random(count))
    feedback = 0.5 * arms + 0.8 * payments + 0.2 * (payments > 0) + rng.normal(size=count)
    return [(int(a), float(x), float(y)) for a, x, y in zip(arms, payments, feedback, strict=True)]


def by_hand(ratings: list[tuple[int, float, float]], noise: float) -> dict[str, Any]:
    """Fit the regression to all ratings at once."""
    arm, x, y = (np.array(column) for column in zip(*ratings, strict=True))
    phi = np.stack([x, x > 0, x**2], axis=1).astype(float)
    squares, degrees = 0.0, 0
    centred, answer, average = phi.copy(), y.copy(), np.zeros((ARMS, 3))
    for i in range(ARMS):
        of_arm, unpaid = arm == i, (arm == i) & (x == 0)
        average[i] = phi[of_arm].mean(axis=0)
        centred[of_arm] -= average[i]
        answer[of_arm] -= y[of_arm].mean()
        if unpaid.sum() > 0:
            squares += ((y[unpaid] - y[unpaid].mean()) ** 2).sum()
            degrees += unpaid.sum() - 1
    variance = (2 * noise**2 + squares) / (2 + degrees)
    ridge = np.diag([variance, 30.0, variance**2])
    beta = np.linalg.solve(centred.T @ centred + ridge, centred.T @ answer)
    return {"beta": beta, "variance": variance, "average": average}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [1.0, 0.3])
def test_its_memory_is_the_ridge_regression_of_all_ratings(seed: int, noise: float) -> None:
    ratings = some_ratings(200, seed)
    kernel, memory, _ = rated(ratings, entice.DriftCorrectedThompson(noise=noise))
    expected = by_hand(ratings, noise)
    found = memory[policy._BETA : policy._BETA + 3]
    assert found == pytest.approx(expected["beta"], rel=1e-8, abs=1e-10)
    assert policy._variance(memory, kernel.params) == pytest.approx(expected["variance"])


def test_ratings_may_arrive_in_any_order() -> None:
    ratings = some_ratings(100, seed=1)
    shuffled = [ratings[i] for i in np.random.default_rng(2).permutation(len(ratings))]
    spec = entice.DriftCorrectedThompson()
    one, other = (rated(given, spec)[1] for given in (ratings, shuffled))
    assert one == pytest.approx(other, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("display", ["raw", "corrected", "tempered"])
def test_displayed_values_equal_those_computed_by_hand(display: Any) -> None:
    ratings = some_ratings(300, seed=3)
    kernel, memory, ledger = rated(ratings, entice.DriftCorrectedThompson(display=display))
    shown = np.zeros(ARMS)
    greedy = kernel.display(ledger, memory, kernel.params, shown)
    hand = by_hand(ratings, 1.0)
    drift = hand["average"] @ hand["beta"]
    kept = np.clip(drift, 0.0, hand["average"][:, 0])
    expected = {
        "raw": ledger.means,
        "corrected": ledger.means - drift,
        "tempered": ledger.means - drift + kept,
    }[display]
    assert shown == pytest.approx(expected, rel=1e-8)
    assert greedy == int(np.argmax(expected))


def test_probes_pay_for_the_greedy_arm_and_become_rare() -> None:
    kernel, memory, _ = rated(some_ratings(50, seed=4), entice.DriftCorrectedThompson())
    stream = new_stream(1, 0, POLICY)
    noise = math.sqrt(policy._variance(memory, kernel.params))

    def paid(t: int, arm: int) -> list[float]:
        return [
            kernel.payment_rule(t, arm, 0, 0.4, memory, kernel.params, stream)
            for _ in range(20_000)
        ]

    assert set(paid(100, 1)) == {0.4}
    for t in (100, 5_000):
        found = np.array(paid(t, 0))
        large, small = min(0.5, 5 / t), min(0.5, 400 / t)
        for size, share in ((0.5, large), (0.005, (1 - large) * small)):
            hits = int(np.isclose(found, size * noise).sum())
            spread = math.sqrt(20_000 * share * (1 - share))
            assert abs(hits - 20_000 * share) < 5 * spread  # fails with probability 6e-7
        assert np.isin(found, [0.0, 0.5 * noise, 0.005 * noise]).all()


def test_it_passes_the_checks_of_policies() -> None:
    for display in ("raw", "corrected", "tempered"):
        assert check_policy(entice.DriftCorrectedThompson(display=display)) is None


def test_a_live_principal_makes_the_simulators_offers() -> None:
    settings: Any = {
        "arms": entice.Gaussian([0.9, 0.5, 0.1]), "policies": [entice.DriftCorrectedThompson()],
        "drifts": [entice.LinearDrift(1.1)], "horizon": 400, "seed": 7,
    }  # fmt: skip
    with plain_kernel():
        rounds = entice.trace(**settings)
    principal = entice.Principal(entice.DriftCorrectedThompson(), arms=3, seed=7)
    for row in rounds.iter_rows(named=True):
        offer = principal.offer()
        assert (offer.arm, offer.greedy_arm) == (row["arm"], row["greedy_arm"])
        assert offer.payment == row["payment"]
        principal.settle(offer, row["feedback"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"display": "shiny"}, "display must be one of raw, corrected, tempered"),
        ({"noise": 0}, "noise must be greater than 0"),
        ({"thrift": 1}, "thrift must be at least 0 and less than 1"),
        ({"thrift": -0.1}, "thrift must be at least 0"),
    ],
)
def test_invalid_settings_are_rejected(given: Any, words: str) -> None:
    with pytest.raises(entice.InputError, match=words):
        entice.DriftCorrectedThompson(**given)


@pytest.mark.usefixtures("untraced")
def test_drift_does_not_mislead_it() -> None:
    """A short version of `bench/corrected.py`; each claim fails by chance with p < 1e-5."""
    shapes = ["none", "linear 1.1", "linear 5", "step"]
    result = entice.simulate(
        arms=entice.Gaussian(MEANS),
        policies=[entice.DriftCorrectedThompson(), entice.ThompsonSampling()],
        drifts=[drift_of(shape) for shape in shapes],
        horizon=20_000,
        replications=sized(100, 300),
        seed=11,
        checkpoints=1,
        progress=False,
    )
    summary = result.summary()

    def of(index: int, drift: int, metric: str) -> tuple[float, float]:
        cell = summary.filter(policy_index=index, drift_index=drift, metric=metric)
        return cell["mean"][0], cell["stderr"][0]

    def ratio_below(limit: float, drift: int, metric: str) -> bool:
        (ours, error), (theirs, other) = of(0, drift, metric), of(1, drift, metric)
        return ours - limit * theirs < 4.5 * math.hypot(error, limit * other)

    none, linear, steep, step = range(len(shapes))
    for metric in ("regret", "compensation"):
        assert ratio_below(1.1, none, metric)
        assert ratio_below(0.5, linear, metric)
        assert not ratio_below(0.2, linear, metric)  # the test can fail
    assert of(0, steep, "regret")[0] < 400
    assert ratio_below(0.3, step, "regret")
    assert result.final["stopped"].null_count() == result.final.height
    assert pl.Series(result.final["regret"]).is_finite().all()
