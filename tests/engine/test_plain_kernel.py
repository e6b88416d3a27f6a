"""The generic kernel and plans in plain Python give the numbers of compiled ones, bit for bit.

So other tests may compare combinations in plain Python, without compiling each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plain_kernel import plain_kernel
from plan_fixtures import make_plan

import entice
from entice.planner.runner import PlanRunner

SETTINGS: dict[str, Any] = {
    "arms": entice.Gaussian([0.9, 0.5, 0.1]), "drifts": [entice.LinearDrift(1.1)], "horizon": 300,
    "seed": 7, "engine": "generic",
}  # fmt: skip
POLICIES = [
    entice.UCB(),
    entice.EpsilonGreedy(c=1),
    entice.Greedy(),
    entice.ThompsonSampling(),
    entice.ThompsonSampling(scale="std"),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
@pytest.mark.parametrize("cold_start", ["each_arm_once", "prior"])
def test_a_study_has_the_same_numbers(policy: Any, cold_start: str) -> None:
    settings = SETTINGS | {"cold_start": cold_start, "policies": [policy], "progress": False}
    compiled = entice.simulate(**settings, replications=3)
    with plain_kernel():
        plain = entice.simulate(**settings, replications=3)
    assert plain.final.equals(compiled.final)
    assert plain.curves.equals(compiled.curves)
    assert compiled.final["compensation"].n_unique() == (1 if policy == POLICIES[2] else 3)


def test_a_trace_and_a_live_principal_have_the_same_rounds() -> None:
    compiled, principal = entice.trace(**SETTINGS, policies=[entice.UCB()]), _offers()
    with plain_kernel():
        assert entice.trace(**SETTINGS, policies=[entice.UCB()]).equals(compiled)
        assert _offers() == principal


def _offers() -> list[Any]:
    principal = entice.Principal(entice.UCB(), arms=3, seed=7)
    offers = []
    for t in range(300):
        offers.append(principal.offer())
        principal.settle(offers[-1], 0.5 + 0.1 * (t % 7) - 0.3 * offers[-1].arm)
    return offers


@pytest.mark.parametrize(
    "settings",
    [
        {"policies": [entice.UCB()], "share_who_rate": 0.4},
        {"policies": [entice.EpsilonGreedy(c=5)], "budget": 10, "margin": 0.05, "pace_over": 150},
        {"policies": [entice.ThompsonSampling()], "probe": entice.Probe(share=0.3, amount=0.4)},
    ],
)
def test_a_plan_has_the_same_visits(settings: dict[str, Any]) -> None:
    """With the acceptance rule of the example, whose loops other tests compile."""
    acceptance = entice.LogisticAcceptance(midpoint=0.1, width=0.1)
    plan = make_plan(**settings, acceptance=acceptance, rating_delay=0.5)
    with plain_kernel():
        plain = PlanRunner(plan).simulate_run(0, 3)
    compiled = PlanRunner(plan).simulate_run(0, 3)
    for one, other in zip(plain, compiled, strict=True):
        for column, expected in zip(one, other, strict=True):
            np.testing.assert_array_equal(column, expected)
    assert compiled[0].spent.sum() > 0
