"""Policies: what makes them fast changes no choice."""

from __future__ import annotations

from typing import Any

import pytest

import entice
from entice.principal.step import PLAYERS_CHOICE
from entice.testing import check_policy


def the_players(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    return PLAYERS_CHOICE


def the_best_average(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    best = 0
    for i in range(means.shape[0]):
        if means[i] > means[best]:
            best = i
    return best


def rounds_of(policy: Any, arms: Any, horizon: int, cold_start: Any) -> Any:
    return entice.trace(
        arms=arms, policies=[policy], drifts=[entice.LinearDrift(0.5)], horizon=horizon, seed=3,
        cold_start=cold_start,
    ).rows()  # fmt: skip


@pytest.mark.parametrize("cold_start", ["each_arm_once", "prior"])
@pytest.mark.parametrize(
    "arms", [entice.Gaussian([0.5, 0.9, 0.1]), entice.Bernoulli([0.5, 0.5, 0.4])], ids=repr
)
def test_the_player_s_choice_is_the_best_average(arms: Any, cold_start: str) -> None:
    asked, searched = (
        rounds_of(entice.CustomPolicy(select), arms, 500, cold_start)
        for select in (the_players, the_best_average)
    )
    assert asked == searched


@pytest.mark.parametrize("policy", [entice.Greedy(), entice.EpsilonGreedy(c=1)], ids=repr)
def test_the_player_s_choice_passes_the_checks(policy: Any) -> None:
    check_policy(policy)
