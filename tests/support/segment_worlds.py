"""Worlds of segments that disagree or agree, and a policy that spends at most a budget."""

from __future__ import annotations

from typing import Any

import numpy as np

import entice
from entice.policies import thompson_sampling, ucb

UP, DOWN = [0.9, 0.7, 0.5, 0.3, 0.1], [0.1, 0.3, 0.5, 0.7, 0.9]
NEAR = [0.8, 0.9, 0.5, 0.3, 0.1]
"""The best two arms of `UP` in the other order."""
VARIED = (np.array(UP) + 0.2 * np.random.default_rng(1).normal(size=(8, 5))).tolist()
"""Means of the model that the rule of `entice.model.segments` assumes."""
STD = 0.5
WORLDS: dict[str, tuple[list[float], list[list[float]]]] = {
    "2 segments, opposite order": ([0.5, 0.5], [UP, DOWN]),
    "2 segments, a tenth in opposite order": ([0.9, 0.1], [UP, DOWN]),
    "2 segments, the two best arms swapped": ([0.5, 0.5], [UP, NEAR]),
    "8 segments, two groups in opposite order": ([0.125] * 8, [UP] * 4 + [DOWN] * 4),
    "8 segments, means vary by 0.2": ([0.125] * 8, VARIED),
    "2 segments that agree": ([0.5, 0.5], [UP] * 2),
    "8 segments that agree": ([0.125] * 8, [UP] * 8),
    "32 segments that agree": ([1 / 32] * 32, [UP] * 32),
}


def world(name: str, *, known: bool) -> entice.Segments:
    """Return a world of `WORLDS`."""
    shares, means = WORLDS[name]
    return entice.Segments(shares, [entice.Gaussian(row, std=STD) for row in means], known=known)


def by_ucb(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    """UCB, if its arm requires no more than is left of the budget; else the player's choice."""
    arm = ucb.select(t, pulls, means, memory[1:], (params[1],), rng)
    if means.max() - means[arm] > params[0] - memory[0]:
        return entice.PLAYERS_CHOICE
    return arm


def by_thompson(t: int, pulls: Any, means: Any, memory: Any, params: Any, rng: Any) -> int:
    """Thompson sampling with the same limit."""
    arm = thompson_sampling.select_by_variance(t, pulls, means, memory[1:], (params[1],), rng)
    if means.max() - means[arm] > params[0] - memory[0]:
        return entice.PLAYERS_CHOICE
    return arm


def spend(memory: Any, params: Any, arm: int, payment: float, feedback: float) -> None:
    """Add the payment to the amount spent."""
    memory[0] += payment


def with_budget(policy: str, budget: float) -> entice.CustomPolicy:
    """Return UCB or Thompson sampling that knows the noise, and spends at most the budget."""
    return entice.CustomPolicy(
        by_ucb if policy == "UCB" else by_thompson, update=spend, params=[budget, STD], memory=5,
        memory_per_arm=3, name=f"{policy}, budget {budget:g}",
    )  # fmt: skip
