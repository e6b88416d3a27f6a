"""UCB with Bernoulli arms, many rounds at a time.

As with Gaussian arms (`fast/ucb/`), one search over all arms finds the leader and bounds its rivals
for many rounds, and the leader is pulled as long as it is certainly above that bound. Paid rounds
are played one by one. In unpaid ones, the sum of feedback stays above the floor of `fast/ucb` as
long as it stays above a chord of that floor: a line, at which `walk.take_pulls` stops.

Ties between bounds are common with Bernoulli arms. A leader run ends where the leader might no
longer be above the bound after rounding, and a search over all arms breaks ties as the kernel does.
"""

from __future__ import annotations

import math

import numpy as np

from entice.engine.fast.bernoulli.binomial import WORD
from entice.engine.fast.bernoulli.walk import take_pulls
from entice.engine.fast.drift_pointer import DriftPointer, call_drift
from entice.engine.fast.ucb import alternate
from entice.engine.fast.ucb.bounds import ROUNDING, RivalBound, factor_at, record_pulls
from entice.engine.fast.ucb.workspace import BATCH, Counts, Floats, UCBWorkspace
from entice.engine.kernel import BanditInstance
from entice.jit.decorators import compiled_internal, inline_always
from entice.rng import fill_uniforms

_STEPS = 32
"""The maximum number of pulls that are played one by one along the same line."""
_LEAST_RISE = 1e-3


@inline_always
def replicate(
    policy_params: tuple[float, float],
    drift_function: DriftPointer,
    arm_params: tuple[Floats],
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
    """Fill the same arrays as `kernel.replicate`, from the same distribution.

    `policy_params` holds the limits of feedback.
    """
    return alternate(
        drift_function, _run_leader, fill_uniforms, _reward, arm_params,
        policy_params, instance, each_arm_once, prior, seed, first, checkpoints, workspace, stop,
        metrics, pulls,
    )  # fmt: skip


@compiled_internal
def _reward(arm_params: tuple[Floats], arm: int, noise: float) -> float:
    return 1.0 if noise < arm_params[0][arm] else 0.0


@compiled_internal
def _run_leader(
    drift_function: DriftPointer,
    arm_params: tuple[Floats],
    feedback_limits: tuple[float, float],
    workspace: UCBWorkspace,
    rival_bound: RivalBound,
    limit: float,
    t: int,
    arm: int,
) -> int:
    """Pull the arm that leads at round t, for as long as it certainly leads.

    Returns the first round that was not played, or −t if the feedback of round t exceeds the limit.
    """
    at, greedy = np.uint64(arm), np.uint64(workspace.greedy[0])
    payment = workspace.means[greedy] - workspace.means[at]
    if payment > 0.0:
        return _run_paid(
            drift_function, feedback_limits, workspace, rival_bound, limit,
            arm_params[0][at], t, arm, payment,
        )  # fmt: skip
    return _run_unpaid(workspace, rival_bound, arm_params[0][at], t, arm)


@compiled_internal
def _run_paid(
    drift_function: DriftPointer,
    feedback_limits: tuple[float, float],
    workspace: UCBWorkspace,
    rival_bound: RivalBound,
    limit: float,
    mean: float,
    t: int,
    arm: int,
    payment: float,
) -> int:
    """Pull an arm that leads but is not greedy, round by round, until that may have changed."""
    at, noise_used = np.uint64(arm), workspace.noise_used[0]
    pulls, total = workspace.pulls[at], workspace.sums[at]
    until = min(rival_bound.until, t + BATCH - noise_used)
    best = workspace.means[np.uint64(workspace.greedy[0])]
    totals = workspace.totals
    while True:
        reward = 1.0 if workspace.noise[np.uint64(noise_used)] < mean else 0.0
        drift = call_drift(drift_function, payment, t, arm)
        feedback = min(max(reward + drift, feedback_limits[0]), feedback_limits[1])
        if not abs(feedback) < limit:
            return -t
        totals[0] += payment
        totals[1] += 1.0
        totals[2] += drift
        total += feedback
        noise_used += 1
        pulls += 1
        t += 1
        payment = best - total / pulls
        if t >= until or payment <= 0.0:
            break
        factor = factor_at(workspace, t)
        height = rival_bound.level + rival_bound.slope * factor
        if total <= _leading_floor(height, factor, pulls):
            break
    workspace.noise_used[0] = noise_used
    record_pulls(workspace, t, arm, pulls, total)
    return t


@compiled_internal
def _run_unpaid(
    workspace: UCBWorkspace, rival_bound: RivalBound, mean: float, t: int, arm: int
) -> int:
    """Pull an arm that leads and is greedy, by jumps, until that may have changed."""
    at, noise_used, before = np.uint64(arm), workspace.noise_used[0], t
    pulls, total = workspace.pulls[at], workspace.sums[at]
    rival = workspace.rival[0]
    while True:
        factor = factor_at(workspace, t)
        height = rival_bound.level + rival_bound.slope * factor
        above = total - _floor(rival, height, factor, pulls)
        if above <= 0.0 and t > before:
            break
        rise = max(height, rival, _LEAST_RISE)  # the floor rises by less than this per pull
        jump = above > WORD * rise
        length = int(min(above / rise, 1e15)) if jump else min(_STEPS, BATCH - noise_used)
        length = min(length, rival_bound.until - t)
        # The rival bound of the last round and g of the first one overestimate the floor.
        height = rival_bound.level + rival_bound.slope * factor_at(workspace, t + length)
        line = _floor(rival, height, factor, pulls)
        slope = (_floor(rival, height, factor, pulls + length) - line) / length
        taken = 0
        if jump:
            noise_used += 1
            taken, total = take_pulls(total, line, slope, length, mean, workspace.bridge_stream)
        else:
            while taken < length:
                total += float(np.int64(workspace.noise[np.uint64(noise_used)] < mean))
                noise_used += 1
                taken += 1
                line += slope
                if total <= line:
                    break
        pulls += taken
        t += taken
        if t >= rival_bound.until or noise_used == BATCH:
            break
    workspace.noise_used[0] = noise_used
    record_pulls(workspace, t, arm, pulls, total)
    return t


@compiled_internal
def _floor(rival: float, height: float, factor: float, pulls: int) -> float:
    """Return the sum of feedback above which an arm is greedy and leads, also after rounding."""
    line = rival * pulls
    return max(line + ROUNDING * abs(line), _leading_floor(height, factor, pulls))


@compiled_internal
def _leading_floor(height: float, factor: float, pulls: int) -> float:
    """Return the sum of feedback above which an arm leads, also after rounding."""
    level, width = height * pulls, factor * math.sqrt(pulls)
    return level - width + ROUNDING * (abs(level) + width)
