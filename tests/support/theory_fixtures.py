"""Studies and drifts for the tests of `entice.theory`."""

from __future__ import annotations

from typing import Any

import entice
from entice.paper.setups import MEANS


def fading(payment: float, t: int, arm: int, params: Any) -> float:
    """Linear drift that fades over time: Lipschitz with constant params[0]."""
    return params[0] * payment / (1 + t / 1000)


def fading_to_cap(payment: float, t: int, arm: int, params: Any) -> float:
    """Linear drift that fades over time, up to a cap: Lipschitz with constant params[0]."""
    return min(params[0] * payment / (1 + t / params[1]), params[2])


def falling(payment: float, t: int, arm: int, params: Any) -> float:
    """Decreasing drift, which Assumption 1 excludes."""
    return -params[0] * payment


def unit_interval_study(**changes: Any) -> entice.Study:
    """A study that meets the assumptions of Theorems 1 and 2, with some changes."""
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


def nine_arm_study(**changes: Any) -> entice.Study:
    """The paper's experiment, with some changes."""
    settings: dict[str, Any] = {
        "arms": entice.Gaussian(MEANS),
        "policies": [entice.UCB(), entice.EpsilonGreedy(c=5), entice.ThompsonSampling()],
        "drifts": [entice.LinearDrift(0.0), entice.LinearDrift(1.1)],
        "horizon": 20_000,
        "replications": 50,
        "seed": 7,
    }
    return entice.Study(**settings | changes)
