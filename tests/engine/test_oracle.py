"""The kernel against the plain-Python oracle: every round, bit for bit.

Every combination is compared in plain Python, which calls compiled drifts. Compiled as a whole are
each policy with one drift, and each kind of arms and a user's drift with one policy; `make
test-long` compiles every combination.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import algorithm1 as oracle
from plain_kernel import plain_kernel
from sizes import LONG, sized

import entice
from entice.rng import POLICY, REWARD, new_stream, normal, uniform

pytestmark = pytest.mark.usefixtures("unmeasured")


class Pair(NamedTuple):
    """The same policy or drift, in the package and in plain Python."""

    ours: Any
    plain: Any


def _growing(payment: float, t: int, arm: int, params: tuple[float, ...]) -> float:
    return params[0] * payment * (1.0 + arm) * t / (t + 100.0)


POLICIES = {
    "ucb": Pair(entice.UCB(), oracle.UCB()),
    "epsilon_greedy": Pair(entice.EpsilonGreedy(c=2), oracle.EpsilonGreedy(2.0)),
    "thompson_variance": Pair(entice.ThompsonSampling(), oracle.Thompson("variance")),
    "thompson_std": Pair(entice.ThompsonSampling(scale="std"), oracle.Thompson("std")),
    "greedy": Pair(entice.Greedy(), oracle.Greedy()),
    "ucb_noise": Pair(entice.UCB(noise=0.3), oracle.UCB(0.3)),
    "thompson_noise": Pair(entice.ThompsonSampling(noise=0.3), oracle.Thompson("variance", 0.3)),
    "thompson_std_noise": Pair(
        entice.ThompsonSampling(scale="std", noise=2.0), oracle.Thompson("std", 2.0)
    ),
}
UNIT = {
    "beta_thompson": Pair(entice.BetaThompson(), oracle.BetaThompson()),
    "kl_ucb": Pair(entice.KLUCB(), oracle.KLUCB()),
    "kl_ucb_3": Pair(entice.KLUCB(c=3), oracle.KLUCB(3.0)),
}
"""Policies for ratings between 0 and 1."""
DRIFTS: dict[str, Callable[[float], Pair]] = {
    "none": lambda l: Pair(entice.NoDrift(), lambda x, t, arm: 0.0),
    "linear": lambda l: Pair(entice.LinearDrift(l), lambda x, t, arm: l * x),
    "saturating": lambda l: Pair(
        entice.SaturatingDrift(l, cap=0.3), lambda x, t, arm: min(l * x, 0.3)
    ),
    "step": lambda l: Pair(entice.StepDrift(l), lambda x, t, arm: l if x > 0.0 else 0.0),
    "time-varying": lambda l: Pair(
        entice.CustomDrift(_growing, params=[l]),
        lambda x, t, arm: l * x * (1.0 + arm) * t / (t + 100.0),
    ),
}


def assert_same_rounds(
    arms: Any,
    reward: Callable[[int, Any], float],
    policy: Pair,
    drift: Pair,
    *,
    seed: int,
    horizon: int,
    prior: float | None,
    feedback_range: tuple[float, float] | None,
    compile_trace: bool = False,
    compile_study: bool = False,
    replication: int = 3,
    totals: bool = True,
) -> None:
    """Run both on the same draws and compare all rounds, and the metrics of a study.

    The loop of a study is compiled separately from that of a trace; `totals=False` skips it where
    other tests compare it. Loops that are not compiled run in plain Python.
    """
    means = arms.true_means()
    settings: dict[str, Any] = {
        "arms": arms,
        "policies": [policy.ours],
        "drifts": [drift.ours],
        "horizon": horizon,
        "seed": seed,
        "cold_start": "each_arm_once" if prior is None else "prior",
        "prior": prior or 0.0,
        "feedback_range": feedback_range,
        "engine": "generic",
    }
    with _loop(compile_trace):
        ours = entice.trace(**settings, replication=replication)
    policy_stream = new_stream(seed, replication, POLICY)
    reward_stream = new_stream(seed, replication, REWARD)
    plain = oracle.play(
        policy=policy.plain,
        arms=len(means),
        horizon=horizon,
        reward=lambda arm: reward(arm, reward_stream),
        drift=drift.plain,
        uniform=lambda: uniform(policy_stream),
        normal=lambda: normal(policy_stream),
        prior=prior,
        feedback_range=feedback_range,
    )
    theirs = [(r.t, r.arm, r.greedy, r.payment, r.drift, r.feedback) for r in plain]
    assert ours[:, :6].rows() == theirs
    assert ours[:, 6:].rows() == displayed(plain, len(means), prior)
    if not totals:
        return
    with _loop(compile_study):
        final = entice.simulate(**settings, replications=replication + 1, progress=False).final
    row = final.row(replication, named=True)
    assert row["compensation"] == oracle.compensation(plain)
    assert row["compensated_pulls"] == oracle.compensated_pulls(plain)
    assert row["total_drift"] == oracle.total_drift(plain)
    assert row["regret"] == pytest.approx(oracle.regret(plain, list(means)), rel=1e-12, abs=1e-12)
    assert list(row["pulls"]) == [sum(r.arm == i for r in plain) for i in range(len(means))]
    if means.max() != 0:
        assert row["best_arm_error"] == oracle.best_arm_error(plain, list(means), prior)


def _loop(compiled: bool) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if compiled or LONG else plain_kernel()


def displayed(plain: list[Any], arms: int, prior: float | None) -> list[tuple[float | None, ...]]:
    """Return each arm's displayed value before each round; None while each arm is tried once."""
    sums, pulls, found = [0.0] * arms, [0] * arms, []
    for r in plain:
        if prior is None and r.t <= arms:
            found.append((None,) * arms)
        else:
            shown = (s / n if n else prior for s, n in zip(sums, pulls, strict=True))
            found.append(tuple(shown))
        sums[r.arm] += r.feedback
        pulls[r.arm] += 1
    return found


@pytest.mark.parametrize("drift", DRIFTS)
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=sized(5, 15), deadline=None, derandomize=True)
@given(data=st.data())
def test_kernel_plays_every_round_like_the_oracle(policy: str, drift: str, data: Any) -> None:
    means = data.draw(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=12), "means")
    std = data.draw(st.sampled_from([0.0, 0.1, 1.0]), "std")
    assert_same_rounds(
        entice.Gaussian(means, std=std),
        lambda arm, stream: float(means[arm]) + std * normal(stream),
        POLICIES[policy],
        DRIFTS[drift](data.draw(st.floats(0, 3), "l")),
        seed=data.draw(st.integers(0, 2**63 - 1), "seed"),
        horizon=data.draw(st.integers(len(means), 120), "horizon"),
        prior=data.draw(st.sampled_from([None, 0.0, 0.5, -2.0]), "prior"),
        feedback_range=data.draw(st.sampled_from([None, (0.0, 1.0)]), "feedback_range"),
        compile_trace=policy == "ucb" and drift not in ("saturating", "step"),
        compile_study=drift == "linear",
        totals=drift in ("linear", "time-varying"),
    )


@pytest.mark.parametrize("drift", ["none", "linear", "time-varying"])
@pytest.mark.parametrize("policy", UNIT)
@settings(max_examples=sized(5, 15), deadline=None, derandomize=True)
@given(data=st.data())
def test_policies_for_the_unit_interval_play_like_the_oracle(
    policy: str, drift: str, data: Any
) -> None:
    """Also without projection: drift pushes averages out of the range, and they are clipped."""
    means = data.draw(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=9), "means")
    grid = np.linspace(0.0, 1.0, 9)  # whose sums are exact: equal averages are equal
    weights = [[1.0 / (0.05 + abs(value - mean)) for value in grid] for mean in means]
    arms = entice.Empirical(values=grid.tolist(), weights=weights)
    sampler = arms.sampler()
    assert_same_rounds(
        arms,
        lambda arm, stream: float(sampler.sample(arm, sampler.params, stream)),
        UNIT[policy],
        DRIFTS[drift](data.draw(st.floats(0, 3), "l")),
        seed=data.draw(st.integers(0, 2**63 - 1), "seed"),
        horizon=data.draw(st.integers(len(means), 150), "horizon"),
        prior=data.draw(st.sampled_from([None, 0.0, 0.5, 2.0]), "prior"),
        feedback_range=data.draw(st.sampled_from([None, (0.0, 1.0)]), "feedback_range"),
        compile_study=drift == "linear",
    )


@pytest.mark.parametrize("policy", POLICIES | UNIT)
@settings(max_examples=sized(6, 10), deadline=None, derandomize=True)
@given(data=st.data())
def test_ties_are_broken_like_the_oracle_s(policy: str, data: Any) -> None:
    # With rewards of 0 and 1 averages tie often, also for the best arm.
    means = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=6), "means")
    assert_same_rounds(
        entice.Bernoulli(means),
        lambda arm, stream: 1.0 if uniform(stream) < means[arm] else 0.0,
        (POLICIES | UNIT)[policy],
        DRIFTS["linear"](data.draw(st.sampled_from([0.0, 1.0]), "l")),
        seed=data.draw(st.integers(0, 2**32), "seed"),
        horizon=data.draw(st.integers(len(means), 100), "horizon"),
        prior=data.draw(st.sampled_from([None, 0.0, 1.0]), "prior"),
        feedback_range=(0.0, 1.0),
        compile_study=policy == "ucb",
    )


@pytest.mark.parametrize(
    ("arms", "pick"),
    [
        (entice.Empirical(values=[1, 2, 5], weights=[[1, 1, 2], [4, 0, 0], [0, 2, 2]]), True),
        (entice.Beta(a=[2, 1, 0.5], b=[1, 1, 2]), False),
    ],
    ids=["empirical", "beta"],
)
def test_other_arms_agree_with_the_oracle(arms: Any, pick: bool) -> None:
    sampler = arms.sampler()

    def reward(arm: int, stream: Any) -> float:
        if pick:  # invert the distribution function by hand
            weights = np.array(arms.weights[arm]) / np.sum(arms.weights[arm])
            u, passed = uniform(stream), 0.0
            for value, weight in zip(arms.values, weights, strict=True):
                passed += weight
                if u < passed:
                    return float(value)
        return float(sampler.sample(arm, sampler.params, stream))

    for name, policy in POLICIES.items():
        assert_same_rounds(
            arms, reward, policy, DRIFTS["linear"](1.1), seed=11, horizon=100, prior=None,
            feedback_range=None, compile_study=name == "ucb",
        )  # fmt: skip


def test_a_long_run_stays_equal() -> None:
    """Detects errors that need many rounds: counts in the hundreds, changes of the leader."""
    means = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    for policy in POLICIES.values():
        assert_same_rounds(
            entice.Gaussian(means),
            lambda arm, stream: means[arm] + normal(stream),
            policy,
            DRIFTS["linear"](1.1),
            seed=5,
            horizon=sized(700, 1500),
            prior=0.0,
            feedback_range=None,
            compile_study=True,
        )
    for policy in UNIT.values():
        assert_same_rounds(
            entice.Bernoulli(means),
            lambda arm, stream: 1.0 if uniform(stream) < means[arm] else 0.0,
            policy,
            DRIFTS["linear"](1.1),
            seed=5,
            horizon=sized(700, 1500),
            prior=0.5,
            feedback_range=(0.0, 1.0),
        )
