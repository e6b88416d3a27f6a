"""Leader runs of UCB: the consecutive rounds in which the leading arm is pulled.

**A leader run.** While arm I is pulled, all rivals' bounds stay below a rival bound B
(`bounds.RivalBound`), and I is pulled as long as its own bound exceeds B. That is a condition on
I's sum of feedback S only: S > B·n − g·sqrt(n).

**A jump.** If I is also the greedy arm, nothing is paid, and S is a Gaussian random walk until it
falls below the floor max(B·n − g·sqrt(n), n·highest other average). The floor is convex in n, so it
lies below its chord over the next W pulls: a straight line. Draw the walk W pulls ahead; its
distance from the line is x now and y then. A Brownian motion through both points hits the line in
between with probability exp(−2xy/(σ²W)). If it does not, W rounds need only two random numbers. If
it does, the first of the W points below the line is drawn from its conditional law
(`random_walk.steps_until_lost`). That point is a stopping time of the walk, so draws beyond it may
be discarded. W depends only on the present, so it carries no information about later draws.

Paid rounds (I is not greedy) are played one by one, because the drift may be any function.
"""

from __future__ import annotations

import math

import numpy as np

from entice.engine.fast.drift_pointer import DriftPointer, call_drift
from entice.engine.fast.random_walk import bridge_hits_zero, steps_until_lost
from entice.engine.fast.ucb.bounds import RivalBound, factor_at, record_pulls
from entice.engine.fast.ucb.workspace import BATCH, Floats, UCBWorkspace
from entice.jit.decorators import compiled_internal

SHORTEST_JUMP = 5
"""Fewer pulls than this are played one by one."""
SAFETY = 4.0
"""Jumps end about sqrt(SAFETY) standard deviations above the line, so that they rarely hit it."""


@compiled_internal
def run_leader(
    drift_function: DriftPointer,
    arm_params: tuple[Floats, Floats],
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
    mean, std = arm_params[0][at], arm_params[1][at]
    payment = workspace.means[greedy] - workspace.means[at]
    if payment > 0.0:
        return _run_paid(drift_function, workspace, rival_bound, limit, mean, std, t, arm, payment)
    return _run_unpaid(workspace, rival_bound, mean, std, t, arm)


@compiled_internal
def _run_paid(
    drift_function: DriftPointer,
    workspace: UCBWorkspace,
    rival_bound: RivalBound,
    limit: float,
    mean: float,
    std: float,
    t: int,
    arm: int,
    payment: float,
) -> int:
    """Pull an arm that leads but is not greedy, round by round, until that may have changed."""
    at, noise_used, before = np.uint64(arm), workspace.noise_used[0], t
    pulls, total = workspace.pulls[at], workspace.sums[at]
    until = min(rival_bound.until, t + BATCH - noise_used)
    best = workspace.means[np.uint64(workspace.greedy[0])]
    compensation, total_drift = 0.0, 0.0
    while True:
        reward = mean + std * workspace.noise[np.uint64(noise_used)]
        drift = call_drift(drift_function, payment, t, arm)
        if not abs(reward + drift) < limit:
            return -t
        compensation += payment
        total_drift += drift
        # This order, and a separate division, shorten the dependency on the last round's sum.
        total = (total + reward) + drift
        noise_used += 1
        pulls += 1
        t += 1
        payment = best - total * (1.0 / pulls)
        if t >= until or payment <= 0.0:
            break
        factor = factor_at(workspace, t)
        height = rival_bound.level + rival_bound.slope * factor
        if total <= height * pulls - factor * math.sqrt(pulls):
            break
    workspace.noise_used[0] = noise_used
    workspace.totals[0] += compensation
    workspace.totals[1] += t - before
    workspace.totals[2] += total_drift
    record_pulls(workspace, t, arm, pulls, total)
    return t


@compiled_internal
def _run_unpaid(
    workspace: UCBWorkspace, rival_bound: RivalBound, mean: float, std: float, t: int, arm: int
) -> int:
    """Pull an arm that leads and is greedy, by steps and jumps, until that may have changed."""
    at, noise_used, before = np.uint64(arm), workspace.noise_used[0], t
    pulls, total = workspace.pulls[at], workspace.sums[at]
    rival = workspace.rival[0]
    far = math.sqrt(SAFETY * SHORTEST_JUMP) * std
    assumed = workspace.policy_noise[0]
    while True:
        factor = factor_at(workspace, t)
        height = rival_bound.level + rival_bound.slope * factor
        above = total - _floor(rival, height, factor, pulls)
        if above <= 0.0 and t > before:
            break
        noise = workspace.noise[np.uint64(noise_used)]
        noise_used += 1
        length, ahead = 1, total + (mean + std * noise)
        if above > far:
            # g' = noise²/(t·g)
            climb = rival_bound.slope * pulls * assumed * assumed / (t * factor)
            rise = height - 0.5 * factor / math.sqrt(pulls) + climb
            reach = _jump_length(above, max(rise, rival) - mean, std)
            reach = min(reach, rival_bound.until - t)
            if reach >= SHORTEST_JUMP:
                length, ahead = _jump(
                    workspace, rival_bound, rival, factor, t, pulls, total, mean, std, reach, noise
                )
        total = ahead
        pulls += length
        t += length
        if t >= rival_bound.until or noise_used == BATCH:
            break
    workspace.noise_used[0] = noise_used
    record_pulls(workspace, t, arm, pulls, total)
    return t


@compiled_internal
def _floor(rival: float, height: float, factor: float, pulls: int) -> float:
    """Return the sum of feedback above which an arm is greedy and leads."""
    return max(rival * pulls, height * pulls - factor * math.sqrt(pulls))


@compiled_internal
def _jump_length(above: float, catch: float, std: float) -> int:
    """Return a number of pulls after which the floor is rarely hit. It affects speed only.

    If the floor catches up by d per pull, W = x²/(aσ² + 2dx) ends about sqrt(a) standard deviations
    above it, and uses up at most half of the distance x on average.
    """
    spread = SAFETY * std * std + 2.0 * max(catch, 0.0) * above
    return int(min(above * above / spread, 1e15))


@compiled_internal
def _jump(
    workspace: UCBWorkspace, rival_bound: RivalBound, rival: float, factor: float, t: int,
    pulls: int, total: float, mean: float, std: float, length: int, noise: float,
) -> tuple[int, float]:  # fmt: skip
    """Make `length` pulls at once, or stop at the first point below the floor.

    Returns the number of pulls and the sum after them. The rival bound of the last round and g of
    the first one overestimate the floor.
    """
    height = rival_bound.level + rival_bound.slope * factor_at(workspace, t + length)
    floor = _floor(rival, height, factor, pulls)
    above = total - floor
    if above <= 0.0:  # the bound for so many rounds is already too high
        return 1, total + (mean + std * noise)
    ahead = total + (mean * length + std * math.sqrt(length) * noise)
    floor_ahead = _floor(rival, height, factor, pulls + length)
    above_ahead = ahead - floor_ahead
    stream, variance = workspace.bridge_stream, std * std * length
    if above_ahead <= 0.0 or bridge_hits_zero(above, above_ahead, variance, stream):
        done, above = steps_until_lost(above, above_ahead, std, length, stream)
        if done < length:
            return done, floor + (floor_ahead - floor) / length * done + above
    return length, ahead
