"""UCB with Gaussian arms, many rounds at a time: exact in distribution, not bit for bit.

Between two rounds only the pulled arm's average and log t change. So one search over all arms finds
the leader and bounds its rivals for many rounds (`bounds`). The leader is pulled for as long as it
is certainly above that bound; these rounds are called a leader run. In it, paid rounds are played
one by one, and unpaid ones are skipped where a Brownian bridge allows it (`leader_run`). When a
leader run ends, all arms are searched again. So bounds and jumps determine how often the arms are
searched, never which arm is chosen.

Two replications alternate, one leader run each: the processor searches for the next leader of one
while it plays the rounds of the other. Each replication has its own arrays and random streams,
called a lane, so its results depend neither on the lane nor on the other replication.

All comparisons equal those of the generic kernel (`engine/kernel.py`, which defines the
computation) up to rounding. Ties between bounds or averages may be broken differently. They have
probability 0 unless an arm has no noise, or averages are so large that noise is lost in their
rounding. That happens under the cold start `prior` with l = 3: each arm's first average is three
times the last one's, 10¹⁸ after 40 arms. There rounding decides the generic kernel's choices too,
and this path rounds differently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from entice.engine.fast.drift_pointer import DriftPointer, call_drift
from entice.engine.fast.simd import WIDTH
from entice.engine.fast.ucb.bounds import RivalBound, find_greedy, find_leader, fit_block_bounds
from entice.engine.fast.ucb.leader_run import run_leader
from entice.engine.fast.ucb.workspace import (
    BATCH,
    IDLE,
    LANES,
    Counts,
    Floats,
    UCBWorkspace,
    lane_view,
    new_workspace,
)
from entice.engine.kernel import DONE, NOT_FINITE, STOPPED, BanditInstance
from entice.jit.decorators import compiled_internal, inline_always
from entice.rng import fill_normals, seed_stream

__all__ = ["new_workspace", "replicate"]

NOISE, BRIDGE = 19, 20
"""Purposes of the streams: normal draws, and Brownian bridges."""


@inline_always
def replicate(
    policy_params: tuple[()],
    drift_function: DriftPointer,
    arm_params: tuple[Floats, Floats],
    instance: BanditInstance,
    each_arm_once: bool,
    prior: float,
    seed: int,
    first: int,
    checkpoints: Counts,
    workspace: UCBWorkspace,
    stop: Counts,
    metrics: Floats,
    pulls: Counts,
) -> tuple[int, int, int, int]:
    """Fill the same arrays as `kernel.replicate`, from the same distribution."""
    return alternate(
        drift_function, run_leader, fill_normals, _gaussian_reward, arm_params,
        (-np.inf, np.inf), instance, each_arm_once, prior, seed, first, checkpoints, workspace,
        stop, metrics, pulls,
    )  # fmt: skip


@inline_always
def alternate(
    drift_function: DriftPointer,
    run_leader: Callable[..., int],
    fill_noise: Callable[..., None],
    reward: Callable[..., float],
    arm_params: tuple[Any, ...],
    feedback_limits: tuple[float, float],
    instance: BanditInstance,
    each_arm_once: bool,
    prior: float,
    seed: int,
    first: int,
    checkpoints: Counts,
    workspace: UCBWorkspace,
    stop: Counts,
    metrics: Floats,
    pulls: Counts,
) -> tuple[int, int, int, int]:
    """Run the replications, of which a few alternate.

    The kind of arms determines how the leader's pulls are skipped (`run_leader`), the random
    numbers of which rewards are made (`fill_noise`), and a reward (`reward`).
    """
    rows, last_checkpoint = metrics.shape[0], checkpoints.shape[0] - 1
    workspace.progress[:, 0] = IDLE
    started, finished, lane = 0, 0, 0
    while finished < rows:
        lane = (lane + 1) % LANES
        current = lane_view(workspace, lane)
        progress = current.progress
        row, c, t, arm, until = progress[0], progress[1], progress[2], progress[3], progress[4]
        if row != IDLE:
            if current.noise_used[0] == BATCH:
                if stop[0] != 0:
                    return STOPPED, first + row, t, arm
                fill_noise(current.noise_stream, current.noise)
                current.noise_used[0] = 0
            rival_bound = RivalBound(until, current.rival_bound[0], current.rival_bound[1])
            before = t
            t = run_leader(
                drift_function, arm_params, feedback_limits, current, rival_bound,
                instance.limit, t, arm,
            )  # fmt: skip
            if t < 0:
                return NOT_FINITE, first + row, -t, arm
            current.totals[3] += instance.gaps[arm] * (t - before)
        elif started < rows:
            row, c, arm = started, 0, 0
            started += 1
            if stop[0] != 0:
                return STOPPED, first + row, 1, 0
            _reset(current, instance.gaps.shape[0], prior, seed, first + row)
            c, t = _play_first_rounds(
                drift_function, fill_noise, reward, arm_params, feedback_limits,
                instance, each_arm_once, prior, checkpoints, current, metrics[row],
            )  # fmt: skip
            if t < 0:
                return NOT_FINITE, first + row, -t, -t - 1
        else:
            continue
        if t > checkpoints[c]:
            _write_checkpoint(current, instance, metrics[row, c])
            c += 1
        if c > last_checkpoint:
            for i in range(pulls.shape[1]):
                pulls[row, i] = current.pulls[i]
            progress[0] = IDLE
            finished += 1
            continue
        arm, rival_bound = find_leader(current, t, checkpoints[c] + 1, arm)
        progress[0], progress[1], progress[2], progress[3] = row, c, t, arm
        progress[4] = rival_bound.until
        current.rival_bound[0], current.rival_bound[1] = rival_bound.level, rival_bound.slope
    return DONE, 0, 0, 0


@compiled_internal
def _reset(workspace: UCBWorkspace, arms: int, prior: float, seed: int, replication: int) -> None:
    """Clear the last replication, and seed the random streams of this one."""
    workspace.pulls[:] = 0
    workspace.sums[:] = 0.0
    workspace.means[:arms] = prior
    workspace.roots[:] = 0.0
    workspace.levels[:] = -np.inf
    workspace.slopes[:] = 0.0
    workspace.rival[0] = prior
    workspace.totals[:] = 0.0
    workspace.noise_used[0] = BATCH
    seed_stream(workspace.noise_stream, seed, replication, NOISE)
    seed_stream(workspace.bridge_stream, seed, replication, BRIDGE)


@compiled_internal
def _gaussian_reward(arm_params: tuple[Floats, Floats], arm: int, noise: float) -> float:
    return float(arm_params[0][arm] + arm_params[1][arm] * noise)


@compiled_internal
def _play_first_rounds(
    drift_function: DriftPointer,
    fill_noise: Callable[..., None],
    reward: Callable[..., float],
    arm_params: tuple[Any, ...],
    feedback_limits: tuple[float, float],
    instance: BanditInstance,
    each_arm_once: bool,
    prior: float,
    checkpoints: Counts,
    workspace: UCBWorkspace,
    metrics: Floats,
) -> tuple[int, int]:
    """Play the first K rounds, in which either cold start pulls each arm once.

    Meanwhile `rival` holds the highest of the prior and the averages so far, which a myopic player
    would choose. Returns the next checkpoint and the next round, or minus the round whose feedback
    is not finite. Checkpoints on the way are written.
    """
    c, t = 0, 1
    while t <= instance.gaps.shape[0]:
        if t > checkpoints[c]:
            if c + 1 == checkpoints.shape[0]:
                break
            _write_checkpoint(workspace, instance, metrics[c])
            c += 1
        if workspace.noise_used[0] == BATCH:
            fill_noise(workspace.noise_stream, workspace.noise)
            workspace.noise_used[0] = 0
        arm = t - 1
        feedback = reward(arm_params, arm, workspace.noise[workspace.noise_used[0]])
        workspace.noise_used[0] += 1
        payment = workspace.rival[0] - prior
        if payment > 0.0 and not each_arm_once:
            drift = call_drift(drift_function, payment, t, arm)
            feedback = min(max(feedback + drift, feedback_limits[0]), feedback_limits[1])
            workspace.totals[0] += payment
            workspace.totals[1] += 1.0
            workspace.totals[2] += drift
        if not abs(feedback) < instance.limit:
            return c, -t
        workspace.totals[3] += instance.gaps[arm]
        workspace.pulls[arm] = 1
        workspace.sums[arm] = feedback
        workspace.means[arm] = feedback
        workspace.roots[arm] = 1.0
        workspace.rival[0] = max(workspace.rival[0], feedback)
        t += 1
    find_greedy(workspace)
    if workspace.means.shape[0] > WIDTH:
        fit_block_bounds(workspace, t)
    return c, t


@compiled_internal
def _write_checkpoint(workspace: UCBWorkspace, instance: BanditInstance, metrics: Floats) -> None:
    """Write the metrics of a checkpoint, in the order of `METRICS`."""
    totals = workspace.totals
    metrics[0] = totals[3]
    metrics[1] = totals[0]
    metrics[2] = totals[1]
    metrics[3] = totals[2]
    error = abs(workspace.means[instance.best] - instance.best_mean)
    metrics[4] = error / instance.error_unit
