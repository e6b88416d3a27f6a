"""ε-greedy with Bernoulli arms, from one exploration to the next.

As with Gaussian arms (`fast/epsilon_greedy.py`), the rounds of exploration are drawn in advance,
and only the greedy arm is pulled between them. It stays greedy while its sum of feedback is above
r·n, where r is the highest other average: a line, at which `walk.take_pulls` stops.
"""

from __future__ import annotations

import numpy as np

from entice.engine.fast.bernoulli.walk import take_pulls
from entice.engine.fast.drift_pointer import DriftPointer, call_drift
from entice.engine.fast.epsilon_greedy import (
    COUNT,
    EXPLORATION_BATCH,
    TOTAL,
    Counts,
    EpsilonGreedyWorkspace,
    Floats,
    draw_explorations,
    explore,
    group_bits,
    replace_leader,
    reset,
)
from entice.engine.kernel import DONE, NOT_FINITE, STOPPED, BanditInstance
from entice.jit.decorators import compiled_internal, inline_always
from entice.rng import uniform


@inline_always
def replicate(
    policy_params: tuple[float, float, float],
    drift_function: DriftPointer,
    arm_params: tuple[Floats],
    instance: BanditInstance,
    each_arm_once: bool,
    prior: float,
    seed: int,
    first: int,
    checkpoints: Counts,
    workspace: EpsilonGreedyWorkspace,
    stop: Counts,
    metrics: Floats,
    pulls: Counts,
) -> tuple[int, int, int, int]:
    """Run replications first, first + 1, … and fill one row of `metrics` and `pulls` for each.

    Returns a status code and, unless it is `DONE`, the replication, round and arm where it ended.
    """
    arm_stats, means = workspace.arm_stats, workspace.means
    arms = arm_stats.shape[0]
    bits = group_bits(arms)
    lowest, highest = policy_params[1], policy_params[2]
    rate = policy_params[0] * arms
    horizon = checkpoints[checkpoints.shape[0] - 1]
    cold_start_rounds = arms if each_arm_once else 0
    for row in range(metrics.shape[0]):
        replication = first + row
        reset(workspace, seed, replication, prior)
        draw_explorations(workspace, rate, cold_start_rounds, 0, horizon)
        leader, rival = 0, prior
        exploration = 0
        regret = 0.0
        compensation = 0.0
        compensated = 0
        total_drift = 0.0
        t = 0  # rounds played
        for c in range(checkpoints.shape[0]):
            last = checkpoints[c]
            while t < last:
                if stop[0] != 0:
                    return STOPPED, replication, t + 1, 0
                explored = workspace.rounds[np.uint64(exploration)]
                if t + 1 < explored:
                    rounds = min(explored - 1, last) - t
                    rounds = _exploit(workspace, arm_params[0], leader, rival, rounds)
                    regret += instance.gaps[leader] * rounds
                    t += rounds
                    if means[leader] <= rival:
                        leader, rival = replace_leader(workspace, leader, bits)
                    continue
                t += 1
                arm = workspace.arms[np.uint64(exploration)]
                regret += instance.gaps[arm]
                feedback = 1.0 if uniform(workspace.noise_stream) < arm_params[0][arm] else 0.0
                payment = means[np.uint64(leader)] - means[np.uint64(arm)]
                if payment > 0.0 and t > cold_start_rounds:
                    drift = call_drift(drift_function, payment, t, arm)
                    compensation += payment
                    compensated += 1
                    total_drift += drift
                    feedback = min(max(feedback + drift, lowest), highest)
                if not abs(feedback) < instance.limit:
                    return NOT_FINITE, replication, t, arm
                leader, rival = explore(workspace, leader, rival, arm, feedback, bits)
                exploration += 1
                if exploration == EXPLORATION_BATCH:
                    draw_explorations(workspace, rate, cold_start_rounds, t, horizon)
                    exploration = 0
            error = abs(means[instance.best] - instance.best_mean)
            metrics[row, c, 0] = regret
            metrics[row, c, 1] = compensation
            metrics[row, c, 2] = compensated
            metrics[row, c, 3] = total_drift
            metrics[row, c, 4] = error / instance.error_unit
        for i in range(arms):
            pulls[row, i] = np.int64(arm_stats[i, COUNT])
    return DONE, 0, 0, 0


@compiled_internal
def _exploit(
    workspace: EpsilonGreedyWorkspace,
    true_means: Floats,
    leader: int,
    rival: float,
    rounds: int,
) -> int:
    """Pull the greedy arm `rounds` times, or until it is overtaken; return the number of pulls."""
    at = np.uint64(leader)
    count, total = workspace.arm_stats[at, COUNT], workspace.arm_stats[at, TOTAL]
    rounds, total = take_pulls(
        total, rival * count, rival, rounds, true_means[at], workspace.bridge_stream
    )
    count += rounds
    workspace.arm_stats[at, COUNT] = count
    workspace.arm_stats[at, TOTAL] = total
    workspace.means[at] = total / count
    return rounds
