"""Rounds played one by one: all samples drawn, or only those that may win."""

from __future__ import annotations

import math

from entice.engine.fast.drift_pointer import DriftPointer
from entice.engine.fast.thompson_sampling.hazards import (
    highest_above,
    highest_below,
    set_hazard,
    set_hazards,
)
from entice.engine.fast.thompson_sampling.normal_tails import exponential, hazard
from entice.engine.fast.thompson_sampling.workspace import (
    NO_LEADER,
    Floats,
    Params,
    ThompsonWorkspace,
    pull,
)
from entice.jit.decorators import compiled_internal_noinline
from entice.policies.thompson_sampling import highest_sample
from entice.rng import normal


@compiled_internal_noinline
def draw_all_samples(
    drift_function: DriftPointer,
    params: Params,
    arm_params: tuple[Floats, Floats],
    t: int,
    last: int,
    workspace: ThompsonWorkspace,
) -> tuple[int, int]:
    """Play rounds t to last by drawing every sample."""
    means, spreads, samples = workspace.ledger.means, workspace.spreads, workspace.samples
    while t <= last:
        arm = highest_sample(means, spreads, 1.0, samples, 0, workspace.stream)
        if not pull(drift_function, params, arm_params, t, arm, workspace):
            return t, arm
        t += 1
    return t, -1


@compiled_internal_noinline
def draw_above_level(
    drift_function: DriftPointer,
    params: Params,
    arm_params: tuple[Floats, Floats],
    t: int,
    last: int,
    workspace: ThompsonWorkspace,
) -> tuple[int, int]:
    """Play rounds t to last, drawing the leader's sample and those above a level.

    The level is kept such that a few samples exceed it; in the rare rounds in which none does,
    all are drawn from below it.
    """
    ledger, spreads, stream = workspace.ledger, workspace.spreads, workspace.stream
    means = ledger.means
    # Expected cost: a few dozen ns per exceeding sample; a few ns per arm if there is none.
    target = math.log(max(means.shape[0] / 8.0, 2.0))
    low, high = 0.7 * target, 1.5 * target
    leader, total = workspace.level_leader[0], workspace.level_total[0]
    if leader == NO_LEADER:
        leader = ledger.greedy[0]
        total = find_level(workspace, leader, target)
    workspace.level_leader[0] = NO_LEADER
    position = exponential(stream)
    while t <= last:
        if not low <= total <= high:
            leader = ledger.greedy[0]
            total = find_level(workspace, leader, target)
            if not low <= total <= high:  # averages are too extreme for such a level
                return draw_all_samples(drift_function, params, arm_params, t, last, workspace)
        top = means[leader] + spreads[leader] * normal(stream)
        position, arm, top = highest_above(workspace, position, total, leader, top)
        if top <= workspace.level[0]:
            arm = highest_below(workspace, leader, top)
        if not pull(drift_function, params, arm_params, t, arm, workspace):
            return t, arm
        t += 1
        if arm != leader:
            z = (workspace.level[0] - means[arm]) / spreads[arm]
            total = set_hazard(workspace, arm, hazard(z))
    workspace.level_leader[0] = leader
    workspace.level_total[0] = total
    return t, -1


@compiled_internal_noinline
def find_level(workspace: ThompsonWorkspace, leader: int, target: float) -> float:
    """Adjust the level until about `target` rivals exceed it; return the sum of their hazards."""
    means, spreads = workspace.ledger.means, workspace.spreads
    total = set_hazards(workspace, leader, workspace.level[0])
    if not 1e-3 <= total <= 100.0 * target:  # the last level is unusable, or missing
        level = -math.inf
        for i in range(means.shape[0]):
            if i != leader:
                level = max(level, means[i] + 2.0 * spreads[i])
        total = set_hazards(workspace, leader, level)
    for _ in range(12):
        if not (total < 0.85 * target or total > 1.2 * target):
            break
        # The sum decreases about exponentially in the level: take a Newton step for its logarithm,
        # with h'/h ≈ z + 0.8. That is accurate enough: results are exact for any level.
        slope = 0.0
        for i in range(means.shape[0]):
            z = (workspace.level[0] - means[i]) / spreads[i]
            slope += workspace.hazards[i] * (max(z, 0.0) + 0.8) / spreads[i]
        step = total / slope * math.log(total / target)
        total = set_hazards(workspace, leader, workspace.level[0] + step)
    return total
