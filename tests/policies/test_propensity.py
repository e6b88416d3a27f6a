"""Propensities of all arms at once: against those of each arm, and against simple quadrature."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
from sizes import sized

import entice
from entice.policies import propensity as module
from entice.policies.propensity import (
    DecisionInputs,
    Propensity,
    fill_probabilities_of_highest,
    mixture_propensities,
    propensity_function,
)

Floats = npt.NDArray[np.float64]


def decision(arms: int, t: int, seed: int) -> DecisionInputs:
    """Return a decision in which a third of the arms cannot be offered."""
    rng = np.random.default_rng(seed)
    permitted = rng.random(arms) < 2 / 3
    permitted[seed % arms] = True
    greedy = int(rng.choice(np.flatnonzero(permitted)))
    means = np.round(rng.normal(4.0, 0.4, arms), 1)
    counts = rng.choice([0.0, 1.0, 10.0, 1000.0], arms)
    memory = np.array([float(rng.integers(arms))])
    return DecisionInputs(
        t, counts, means, permitted, means, np.inf, greedy, greedy, memory, greedy
    )  # fmt: skip


def propensity_of(policy: Any, arms: int) -> Propensity:
    found = propensity_function(policy, policy.kernel(arms), 1)
    assert found is not None
    return found


def by_trapezoids(made: DecisionInputs, noise: float) -> Floats:
    """Return Thompson sampling's propensities by the trapezoidal rule on equal steps."""
    spread = noise / np.sqrt(made.counts + 1)
    usable = np.flatnonzero(made.permitted)
    low = max(made.means[i] - 9 * spread[i] for i in usable)
    high = max(made.means[i] + 9 * spread[i] for i in usable)
    points = np.arange(low, high, min(spread[usable]) / 8)
    below, density = {}, {}
    for i in usable:
        z = (points - made.means[i]) / spread[i]
        below[i] = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in z])
        density[i] = np.exp(-z * z / 2) / (spread[i] * math.sqrt(2 * math.pi))
    found = np.zeros(len(made.means))
    for i in usable:
        rivals = np.prod([below[j] for j in usable if j != i] or [np.ones_like(points)], axis=0)
        found[i] = (density[i] * rivals).sum() * (points[1] - points[0])
    return found


@pytest.mark.parametrize(
    "policy",
    [entice.EpsilonGreedy(c=4), entice.RoundRobinEpsilonGreedy(c=4), entice.AlternatingThompson()],
    ids=lambda policy: policy.label,
)
def test_formulas_give_each_arm_the_same_at_once_as_alone(policy: Any) -> None:
    """Alternating Thompson sampling is the exact copy in even rounds, in which it is UCB."""
    seen = set()
    for seed in range(40):
        made = decision(5, 2 + 2 * seed, seed)
        propensity = propensity_of(policy, 5)
        assert propensity.every is not None
        at_once = propensity.every(made)
        for arm in range(5):
            alone = propensity.one(made._replace(arm=arm)) if made.permitted[arm] else 0.0
            assert at_once[arm] == alone
        assert at_once.sum() == pytest.approx(1)
        seen.add(len(set(at_once)))
    assert max(seen) > 1


@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_integrals_of_all_arms_equal_simple_quadrature(noise: float) -> None:
    """Within 1e-9, also with tied averages and counts from 0 to 1,000."""
    for seed in range(sized(6, 60)):
        made = decision(2 + seed % 7, 1, seed)
        found = np.empty(len(made.means))
        fill_probabilities_of_highest(made.means, made.counts, made.permitted, noise, found)
        np.testing.assert_allclose(found, by_trapezoids(made, noise), atol=1e-9)


@pytest.mark.parametrize("arms", [3, 100, 1000])
def test_integrals_of_all_arms_add_up_to_1(arms: int) -> None:
    """Also with arms of very different precision. Of each arm, up to 1.3e-12 is left out."""
    policy = entice.ThompsonSampling(noise=0.8)
    propensity = propensity_of(policy, arms)
    assert propensity.every is not None
    for seed in range(20):
        made = decision(arms, 1, seed)
        precise = np.random.default_rng(seed).random(arms) < 0.2
        made = made._replace(counts=np.where(precise, 1e6, made.counts))
        assert propensity.every(made).sum() == pytest.approx(1, abs=1e-10 + arms * 1.3e-12)


def test_formulas_are_evaluated_for_few_arms_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """ε-greedy distinguishes one of 1,000 arms from the others, round robin at most two."""
    for policy, name, most in (
        (entice.EpsilonGreedy(c=4), "_epsilon_greedy", 2),
        (entice.RoundRobinEpsilonGreedy(c=4), "_round_robin", 3),
    ):
        formula = mock.Mock(wraps=getattr(module, name))
        monkeypatch.setattr(module, name, formula)
        found = mixture_propensities(propensity_of(policy, 1000), decision(1000, 5000, 3), 0.1)
        assert len(set(found)) == most + 1
        assert formula.call_count <= most


def test_integrals_of_all_arms_take_work_proportional_to_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted in plain Python. One by one, ten times as many arms take 100 times the work."""
    calls, work = [0, 0], fill_probabilities_of_highest.py_func  # type: ignore[attr-defined]
    for i, arms in enumerate((8, 80)):

        def erfc(x: float, i: int = i) -> float:
            calls[i] += 1
            return math.erfc(x)

        monkeypatch.setattr(module, "math", SimpleNamespace(**vars(math) | {"erfc": erfc}))
        made, found = decision(arms, 1, 3), np.empty(arms)
        work(made.means, made.counts, made.permitted, 1.0, found)
    assert 0 < calls[1] < 15 * calls[0]
