"""Studies for the tests of specs, built from Python, TOML and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tomli_w

import entice
from entice import Study

NAN, INF = float("nan"), float("inf")

GAUSSIAN = {"kind": "gaussian", "means": [0.9, 0.1]}
PLAIN: dict[str, Any] = {
    "arms": GAUSSIAN,
    "policies": [{"kind": "ucb"}],
    "horizon": 10,
    "replications": 2,
    "seed": 1,
}
CLASSES: dict[str, dict[str, Any]] = {
    "arms": {
        "gaussian": entice.Gaussian,
        "bernoulli": entice.Bernoulli,
        "beta": entice.Beta,
        "empirical": entice.Empirical,
        "custom": entice.CustomArms,
        "changing": entice.Changing,
        "wandering": entice.Wandering,
        "segments": entice.Segments,
    },
    "policies": {
        "ucb": entice.UCB,
        "epsilon_greedy": entice.EpsilonGreedy,
        "thompson_sampling": entice.ThompsonSampling,
        "greedy": entice.Greedy,
        "round_robin_epsilon_greedy": entice.RoundRobinEpsilonGreedy,
        "alternating_thompson": entice.AlternatingThompson,
        "elimination_race": entice.EliminationRace,
        "discounted_ucb": entice.DiscountedUCB,
        "drift_corrected_thompson": entice.DriftCorrectedThompson,
        "sliding_window_ucb": entice.SlidingWindowUCB,
        "beta_thompson": entice.BetaThompson,
        "kl_ucb": entice.KLUCB,
        "custom": entice.CustomPolicy,
    },
    "drifts": {
        "none": entice.NoDrift,
        "linear": entice.LinearDrift,
        "saturating": entice.SaturatingDrift,
        "step": entice.StepDrift,
        "custom": entice.CustomDrift,
    },
}


# Functions that studies refer to as "spec_fixtures:name".


def halved(payment: float, t: int, arm: int, params: Any) -> float:
    return payment / 2


def scaled(payment: float, t: int, arm: int, params: Any) -> float:
    return params[0] * payment


def always_five(payment: float, t: int, arm: int, params: Any) -> float:
    return 5.0


def not_a_number(payment: float, t: int, arm: int, params: Any) -> float:
    return NAN


def of_three(payment: float, t: int, arm: int) -> float:
    return 0.0


def of_a_keyword(payment: float, t: int, arm: int, *, params: Any) -> float:
    return 0.0


def inverse(payment: float, t: int, arm: int, params: Any) -> float:
    return 1 / payment


def an_array(payment: float, t: int, arm: int, params: Any) -> Any:
    return np.zeros(2)


def first(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    return 0


def remember(memory: Any, params: Any, arm: int, payment: float, feedback: float) -> None:
    memory[arm] = feedback


ARMS = [
    entice.Gaussian([0.9, 0.1]),
    entice.Gaussian([0.9, -0.1, 1e-300], std=0.25),
    entice.Gaussian([0.9, 0.1], std=[1.0, 0.0]),
    entice.Bernoulli([0.9, 0.1]),
    entice.Beta(a=[3, 1], b=[1, 0.5]),
    entice.Empirical(values=[1, 2, 5], weights=[[1, 0, 3], [0.2, 0.5, 0.3]]),
    entice.Changing(entice.Gaussian([0.9, 0.1], std=0.5), at=[5, 7], means=[[0.1, 1e-300], [0, 1]]),
    entice.Wandering(entice.Bernoulli([0.9, 0.1]), rate=0.01),
    entice.Segments([0.25, 0.75], [entice.Bernoulli([0.9, 0.1]), entice.Bernoulli([0.1, 1e-300])]),
]
POLICIES = [
    entice.UCB(),
    entice.UCB(count_in_flight=True, noise=0.5),
    entice.EpsilonGreedy(c=5),
    entice.ThompsonSampling(),
    entice.ThompsonSampling(scale="std", noise=0.5),
    entice.Greedy(),
    entice.RoundRobinEpsilonGreedy(c=0.5),
    entice.AlternatingThompson(),
    entice.EliminationRace(horizon=20_000, delta=0.1),
    entice.DiscountedUCB(gamma=0.999),
    entice.DriftCorrectedThompson(display="corrected", noise=0.5),
    entice.SlidingWindowUCB(window=1000, xi=0.5),
    entice.MOSS(horizon=20_000, noise=0.5),
    entice.EqualPay(),
    entice.EqualPay(horizon=20_000, noise=0.5),
    entice.EqualPayElimination(horizon=20_000, noise=0.5, rho=1.5, display_prior=0),
    entice.CustomPolicy(first),
    entice.CustomPolicy(
        first, update=remember, params=[1, 0.5], memory=2, memory_per_arm=1, name='"ä" \\ [x]'
    ),
]
DRIFTS = [
    entice.NoDrift(),
    entice.LinearDrift(1.1),
    entice.SaturatingDrift(l=1.1, cap=0.2),
    entice.StepDrift(0.3),
    entice.CustomDrift(halved, lipschitz=0.5),
    entice.CustomDrift(scaled, params=[0.5], name="half\nas much"),
]


def study(**changes: Any) -> Study:
    return Study(
        **{
            "arms": entice.Gaussian([0.9, 0.1]),
            "policies": [entice.UCB()],
            "horizon": 10,
            "replications": 2,
            "seed": 1,
            **changes,
        }
    )


def from_python(plain: dict[str, Any]) -> Study:
    """Build a study as a Python user would, from the settings of a file."""

    def built(field: str, entry: dict[str, Any]) -> Any:
        named = {name: value for name, value in entry.items() if name != "kind"}
        return CLASSES[field][entry["kind"]](**named)

    made = dict(plain)
    made["arms"] = built("arms", plain["arms"])
    for field in ("policies", "drifts"):
        if field in plain:
            made[field] = [built(field, entry) for entry in plain[field]]
    return Study(**made)


def from_toml(plain: dict[str, Any]) -> Study:
    return Study.from_toml(tomli_w.dumps(plain))


def from_json(plain: dict[str, Any]) -> Study:
    return Study.from_json(json.dumps(plain))


ROUTES: dict[str, Callable[[dict[str, Any]], Study]] = {
    "python": from_python,
    "toml": from_toml,
    "json": from_json,
}


def error_message(call: Callable[[], object]) -> str:
    """Return the message of the InputError that a call raises."""
    with pytest.raises(entice.InputError) as caught:
        call()
    return str(caught.value)


def drift(kind: str, **fields: Any) -> dict[str, Any]:
    return {"drifts": [{"kind": kind, **fields}]}
