"""The optimisations of policies change no choice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import entice
from entice.model.step import PLAYERS_CHOICE
from entice.policies.policy import update_inverse_roots
from entice.testing import check_policy


def the_players(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    return PLAYERS_CHOICE


def the_best_average(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    best = 0
    for i in range(means.shape[0]):
        if means[i] > means[best]:
            best = i
    return best


def plain_ucb(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    best, top = 0, -math.inf
    for i in range(pulls.shape[0]):
        if pulls[i] == 0:
            return i
        bound = means[i] + math.sqrt(2.0 * math.log(t)) * (1.0 / math.sqrt(pulls[i]))
        if bound > top:
            best, top = i, bound
    return best


def rounds_of(policy: Any, arms: Any, horizon: int, cold_start: Any) -> Any:
    return entice.trace(
        arms=arms, policies=[policy], drifts=[entice.LinearDrift(0.5)], horizon=horizon, seed=3,
        cold_start=cold_start,
    ).rows()  # fmt: skip


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("cold_start", ["each_arm_once", "prior"])
@pytest.mark.parametrize(
    "arms", [entice.Gaussian([0.5, 0.9, 0.1]), entice.Bernoulli([0.5, 0.5, 0.4])], ids=repr
)
def test_the_player_s_choice_is_the_best_average(arms: Any, cold_start: str) -> None:
    named, searched = (
        rounds_of(entice.CustomPolicy(select), arms, 500, cold_start)
        for select in (the_players, the_best_average)
    )
    assert named == searched


@pytest.mark.parametrize("policy", [entice.Greedy(), entice.EpsilonGreedy(c=1)], ids=repr)
def test_the_player_s_choice_passes_the_checks(policy: Any) -> None:
    check_policy(policy)


@pytest.mark.parametrize("cold_start", ["each_arm_once", "prior"])
@pytest.mark.parametrize(
    "arms", [entice.Gaussian([0.9, 0.8, 0.1]), entice.Gaussian([0.5, 0.5], std=0)], ids=repr
)
def test_ucb_without_logarithms_is_ucb(arms: Any, cold_start: str) -> None:
    ours, plain = (
        rounds_of(policy, arms, 20_000, cold_start)
        for policy in (entice.UCB(), entice.CustomPolicy(plain_ucb))
    )
    assert ours == plain


def test_roots_are_updated_for_all_counts_that_have_changed() -> None:
    """Several counts may change at once, also downwards: ratings are late, pulls in flight lost."""
    taken, roots = np.zeros(3), np.zeros(3)
    for counts in ([1, 4, 9], [1, 16, 9], [4, 16, 4], [4, 1, 0], [0, 0, 0]):
        update_inverse_roots(roots, taken, np.array(counts), 1, 0)
        with np.errstate(divide="ignore"):
            assert roots.tolist() == (1 / np.sqrt(counts)).tolist()
