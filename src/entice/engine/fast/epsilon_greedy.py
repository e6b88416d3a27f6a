"""ε-greedy from one exploration to the next, skipping the greedy rounds between them.

Equal in distribution to `entice.engine.kernel.replicate` for Gaussian arms without projection; only
the random numbers and rounding differ. Two facts make this possible.

*The rounds of exploration do not depend on the feedback.* Round s explores with probability
ε_s = min(1, cK/s), independently of everything else. So the rounds of exploration and the arms
tried in them can be drawn in advance (`draw_explorations`). ε_s is non-increasing, so
q = ε_{t+1} bounds it in all rounds after t. Candidates that occur with probability q in each round
have geometric distances and are drawn directly; the one in round s is kept with probability ε_s / q
(thinning).

*Between two explorations only the greedy arm is pulled, and all other averages stay constant.* The
lead of the greedy arm over the highest other average r is D = S − r·n, a Gaussian random walk.
`random_walk.take_steps` advances it to the next exploration, or to the round in which another arm
overtakes the greedy one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.fast.drift_pointer import DriftPointer, call_drift
from entice.engine.fast.random_walk import take_steps
from entice.engine.fast.simd import WIDTH, top_two_values
from entice.engine.kernel import DONE, NOT_FINITE, STOPPED, BanditInstance
from entice.jit.decorators import compiled_internal, compiled_internal_noinline, inline_always
from entice.rng import Stream, advance, as_uniform, fill_normals, get_state, seed_stream, set_state

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

NOISE, EXPLORATION, BRIDGE = 16, 17, 18
"""Purposes of the streams: normal draws, rounds of exploration, and Brownian bridges."""

_NOISE_BATCH = 128  # normal draws made at a time
EXPLORATION_BATCH = 64  # explorations drawn at a time
# Greedy rounds are played one by one, not in a jump, in any of these cases:
_MIN_JUMP = 2  # if there are no more than this,
_MIN_LEAD_ROUNDS = 8.0  # or if the lead is lost after fewer rounds than this on average,
_MIN_LEAD_STDS = 2.0  # or if it is fewer standard deviations: most jumps would be cut short.
_BOUND_DECAY = 0.9  # the bound on ε is renewed once ε is below this share of it

COUNT, TOTAL, MEAN, STD = 0, 1, 2, 3
"""Columns of `arm_stats`: n_i (floating point, exact up to 2⁵³), S_i, the true mean and std."""


class EpsilonGreedyWorkspace(NamedTuple):
    """Arrays that a replication fills and the next one reuses."""

    arm_stats: Floats
    """For each arm, the values that a pull needs, in adjacent columns `COUNT` to `STD`."""
    means: Floats
    """m_i = S_i / n_i, or the prior; −inf in unused entries."""
    group_bounds: Floats
    """For each group of neighbouring arms, a bound on all averages in it but the greedy arm's; −inf
    in unused entries."""
    draws: Floats
    """A batch of normal draws."""
    rounds: Counts
    """The rounds of the next explorations."""
    arms: Counts
    """The arms tried in those explorations."""
    noise_stream: Stream
    exploration_stream: Stream
    bridge_stream: Stream


def new_workspace(arms: int, horizon: int) -> EpsilonGreedyWorkspace:
    """Allocate the arrays of `replicate`; their size does not depend on the horizon."""
    size = 1 << _bits_of(arms)
    groups = -(-arms // size)
    padded = -(-groups // WIDTH) * WIDTH
    streams = (np.empty(4, np.uint64) for _ in range(3))
    return EpsilonGreedyWorkspace(
        np.empty((arms, 4)), np.full(groups * size, -np.inf), np.full(padded, -np.inf),
        np.empty(_NOISE_BATCH),
        np.empty(EXPLORATION_BATCH, np.int64), np.empty(EXPLORATION_BATCH, np.int64), *streams,
    )  # fmt: skip


def _bits_of(arms: int) -> int:
    """Return log₂ of the group size: half of log₂(arms), rounded up, but at least log₂(WIDTH)."""
    bits = 5
    while 1 << 2 * bits < arms:
        bits += 1
    return bits


group_bits = compiled_internal(_bits_of)


@inline_always
def replicate(
    policy_params: tuple[float],
    drift_function: DriftPointer,
    arm_params: tuple[Floats, Floats],
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
    for i in range(arms):
        arm_stats[i, MEAN] = arm_params[0][i]
        arm_stats[i, STD] = arm_params[1][i]
    bits = group_bits(arms)
    rate = policy_params[0] * arms
    horizon = checkpoints[checkpoints.shape[0] - 1]
    cold_start_rounds = arms if each_arm_once else 0
    for row in range(metrics.shape[0]):
        replication = first + row
        reset(workspace, seed, replication, prior)
        draw_explorations(workspace, rate, cold_start_rounds, 0, horizon)
        leader, rival = 0, prior
        exploration, drawn = 0, _NOISE_BATCH
        regret = 0.0
        compensation = 0.0
        compensated = 0
        total_drift = 0.0
        t = 0  # rounds played
        for c in range(checkpoints.shape[0]):
            if stop[0] != 0:
                return STOPPED, replication, t + 1, 0
            last = checkpoints[c]
            while t < last:
                if drawn == _NOISE_BATCH:
                    if stop[0] != 0:
                        return STOPPED, replication, t + 1, 0
                    fill_normals(workspace.noise_stream, workspace.draws)
                    drawn = 0
                noise = workspace.draws[np.uint64(drawn)]
                drawn += 1
                explored = workspace.rounds[np.uint64(exploration)]
                if t + 1 < explored:
                    rounds = min(explored - 1, last) - t
                    rounds = _exploit(workspace, leader, rival, rounds, noise)
                    regret += instance.gaps[leader] * rounds
                    t += rounds
                    if not abs(means[leader]) < instance.limit:
                        return NOT_FINITE, replication, t, leader
                    if means[leader] <= rival:
                        leader, rival = replace_leader(workspace, leader, bits)
                    continue
                t += 1
                arm = workspace.arms[np.uint64(exploration)]
                regret += instance.gaps[arm]
                feedback = _reward(arm_stats, arm, noise)
                payment = means[np.uint64(leader)] - means[np.uint64(arm)]
                if payment > 0.0 and t > cold_start_rounds:
                    drift = call_drift(drift_function, payment, t, arm)
                    compensation += payment
                    compensated += 1
                    total_drift += drift
                    feedback += drift
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
def reset(workspace: EpsilonGreedyWorkspace, seed: int, replication: int, prior: float) -> None:
    """Clear the ratings of the last replication, and seed the random streams of this one."""
    seed_stream(workspace.noise_stream, seed, replication, NOISE)
    seed_stream(workspace.exploration_stream, seed, replication, EXPLORATION)
    seed_stream(workspace.bridge_stream, seed, replication, BRIDGE)
    workspace.arm_stats[:, :MEAN] = 0.0
    arms = workspace.arm_stats.shape[0]
    workspace.means[:arms] = prior
    workspace.group_bounds[: ((arms - 1) >> group_bits(arms)) + 1] = prior


@compiled_internal_noinline
def draw_explorations(
    workspace: EpsilonGreedyWorkspace, rate: float, cold_start_rounds: int, t: int, horizon: int
) -> None:
    """Draw the next explorations after round t; one beyond the horizon is set to horizon + 1.

    The first `cold_start_rounds` rounds try one arm after the other.
    """
    stream, rounds, tried = workspace.exploration_stream, workspace.rounds, workspace.arms
    state = get_state(stream)
    arms = float(workspace.arm_stats.shape[0])
    bound, scale, spread = 1.0, 0.0, arms / rate
    for i in range(rounds.shape[0]):
        if t < cold_start_rounds:
            tried[i] = t
            t += 1
            rounds[i] = t
            continue
        pick = arms
        while pick >= arms:
            if rate < _BOUND_DECAY * bound * (t + 1):
                bound = rate / (t + 1)
                scale = -1.0 / math.log1p(-bound)
                spread = bound / rate * arms
            if scale > 0.0:
                word, state = advance(state)
                skipped = -math.log(1.0 - as_uniform(word)) * scale
                if not (skipped < horizon - t):  # also nan, from 0 · ∞ when ε underflows
                    rounds[i] = horizon + 1
                    return
                t += int(skipped)
            t += 1
            # One draw decides whether the candidate is kept, with probability ε_t / bound, and
            # which arm it tries: uniform on [0, K · bound / ε_t), where values below K are arms.
            word, state = advance(state)
            pick = as_uniform(word) * max(spread * t, arms)
        rounds[i] = t
        tried[i] = int(pick)
    set_state(stream, state)


@compiled_internal
def _exploit(
    workspace: EpsilonGreedyWorkspace, leader: int, rival: float, rounds: int, noise: float
) -> int:
    """Pull the greedy arm `rounds` times, or until it is overtaken; return the number of pulls."""
    at = np.uint64(leader)
    arm_stats = workspace.arm_stats
    count, total = arm_stats[at, COUNT], arm_stats[at, TOTAL]
    mean, std = arm_stats[at, MEAN], arm_stats[at, STD]
    lead = total - rival * count
    if rounds <= _MIN_JUMP or not lead > max(
        _MIN_LEAD_STDS * std, _MIN_LEAD_ROUNDS * (rival - mean)
    ):
        # This branch also handles an arm without ratings.
        rounds = 1
        count += 1.0
        total += mean + std * noise
    else:
        rounds, lead = take_steps(lead, mean - rival, std, rounds, noise, workspace.bridge_stream)
        count += rounds
        total = lead + rival * count
    arm_stats[at, COUNT] = count
    arm_stats[at, TOTAL] = total
    workspace.means[at] = total / count
    return rounds


@compiled_internal
def explore(
    workspace: EpsilonGreedyWorkspace,
    leader: int,
    rival: float,
    arm: int,
    feedback: float,
    bits: int,
) -> tuple[int, float]:
    """Record the rating of an explored arm; return the greedy arm and a bound on all others."""
    mean = _record(workspace, arm, feedback)
    if arm == leader:
        if mean <= rival:
            return replace_leader(workspace, leader, bits)
        return leader, rival
    group = np.uint64(arm >> bits)
    if mean >= rival:
        top = workspace.means[leader]
        if mean > top or (mean == top and arm < leader):
            group = np.uint64(leader >> bits)
            workspace.group_bounds[group] = max(workspace.group_bounds[group], top)
            return arm, top
        rival = mean
    workspace.group_bounds[group] = max(workspace.group_bounds[group], mean)
    return leader, rival


@compiled_internal
def _record(workspace: EpsilonGreedyWorkspace, arm: int, feedback: float) -> float:
    """Record one rating; return the arm's new average."""
    at = np.uint64(arm)
    count = workspace.arm_stats[at, COUNT] + 1.0
    total = workspace.arm_stats[at, TOTAL] + feedback
    mean = float(total / count)
    workspace.arm_stats[at, COUNT] = count
    workspace.arm_stats[at, TOTAL] = total
    workspace.means[at] = mean
    return mean


@compiled_internal
def _reward(arm_stats: Floats, arm: int, noise: float) -> float:
    """Return the true reward of a pull whose standard normal draw is `noise`."""
    at = np.uint64(arm)
    return float(arm_stats[at, MEAN] + arm_stats[at, STD] * noise)


@compiled_internal
def replace_leader(workspace: EpsilonGreedyWorkspace, leader: int, bits: int) -> tuple[int, float]:
    """Find the new greedy arm after the previous one fell to the bound on the others."""
    group = leader >> bits
    workspace.group_bounds[group] = max(workspace.group_bounds[group], workspace.means[leader])
    return _find_leader(workspace.means, workspace.group_bounds, bits)


@compiled_internal_noinline
def _find_leader(means: Floats, group_bounds: Floats, bits: int) -> tuple[int, float]:
    """Find the greedy arm, ties to the lowest index, and a bound on all other averages.

    Search the group with the highest bound, the first of them in case of ties. If its best average
    reaches the bound, no arm is better; otherwise the bound is lowered to that average.
    """
    while True:
        group, top, others = _top_two(group_bounds, 0, group_bounds.shape[0])
        begin = group << bits
        leader, best, second = _top_two(means, begin, begin + (1 << bits))
        if best < top:
            group_bounds[group] = best
        else:
            group_bounds[group] = second
            return leader, max(second, others)


@compiled_internal
def _top_two(values: Floats, begin: int, end: int) -> tuple[int, float, float]:
    """Return the position of the highest value in a range, ties to the first, and the top two."""
    position, best, second = top_two_values(values, begin)
    for start in range(begin + WIDTH, end, WIDTH):
        other, value, below = top_two_values(values, start)
        second = max(second, below, min(value, best))
        if value > best:
            position, best = other, value
    return position, best, second
