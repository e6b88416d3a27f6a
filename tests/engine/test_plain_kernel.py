"""The generic kernel in plain Python gives the numbers of the compiled one, bit for bit.

So other tests may compare combinations in plain Python, without compiling each.
"""

from __future__ import annotations

from typing import Any

import pytest
from plain_kernel import plain_kernel

import entice

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
