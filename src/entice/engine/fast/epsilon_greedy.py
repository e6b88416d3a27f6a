"""ε-greedy in leaps: from exploration to exploration, past the greedy rounds between them.

Equal in distribution to `entice.engine.kernel.replicate` for Gaussian arms without projection:
only rounding differs, and the random numbers themselves. Two facts carry it.

*When the principal explores has nothing to do with what it sees.* Round s explores with
probability ε_s = min(1, cK/s), independently of everything else. So the rounds of exploration
and the arms tried there can be drawn ahead (`_plan`): ε_s never rises, so q = ε_{t+1} bounds it in
all rounds after t. Candidates that come with probability q in each round have geometric distances
and are drawn directly; the one in round s is kept with probability ε_s / q (thinning).

*Between two explorations only the greedy arm is pulled, and all other averages stand still.* Its
lead D = S − r·n over the highest other average r is a Gaussian random walk, which `bridge.leap`
takes to the next exploration, or to the round in which the arm is overtaken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.fast.random_walk import leap
from entice.engine.kernel import DONE, NOT_FINITE, STOPPED, BanditInstance
from entice.jit.decorators import compiled_internal, compiled_internal_noinline, inline_always
from entice.rng import Stream, advance, as_uniform, fill_normals, get_state, seed_stream, set_state

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

NOISE, PLAN, BRIDGE = 16, 17, 18
"""Purposes of the streams: normal draws, the plan of explorations, and questions to bridges."""

_DRAWS = 128  # normal draws made at a time
_PLANNED = 64  # explorations planned at a time
_FEW = 2  # so many greedy rounds are cheaper to walk than to leap
_SOON = 8.0  # leads that are lost after so many rounds on average, too
_CLOSE = 2.0  # leads of so many standard deviations, too: they would mostly be lost on the way
_WORN = 0.9  # the bound on ε is renewed when ε has fallen to this share of it

COUNT, TOTAL, MEAN, STD = 0, 1, 2, 3
"""Columns of an account: n_i (in floating point, exact up to 2⁵³), S_i, the true mean and std."""


class Scratch(NamedTuple):
    """Arrays that a replication fills and the next one reuses."""

    accounts: Floats
    """For each arm what a pull of it needs, side by side: the columns `COUNT` to `STD`."""
    means: Floats
    """m_i = S_i / n_i, or the prior."""
    ceilings: Floats
    """For each group of neighbouring arms: no average in it but the greedy arm's is higher."""
    draws: Floats
    """Normal draws, made in bulk."""
    rounds: Counts
    """When the next explorations happen."""
    arms: Counts
    """Which arms they try."""
    noise: Stream
    plan: Stream
    bridge: Stream


def new_workspace(arms: int, horizon: int) -> Scratch:
    """Allocate what `replicate` needs, which does not depend on the horizon."""
    groups = ((arms - 1) >> _bits_of(arms)) + 1
    noise, plan, bridge = (np.empty(4, np.uint64) for _ in range(3))
    return Scratch(
        np.empty((arms, 4)), np.empty(arms), np.empty(groups), np.empty(_DRAWS),
        np.empty(_PLANNED, np.int64), np.empty(_PLANNED, np.int64), noise, plan, bridge,
    )  # fmt: skip


def _bits_of(arms: int) -> int:
    """Groups of 2^bits arms: about as many groups as members, and one group up to 16 arms."""
    bits = 4
    while 1 << 2 * bits < arms:
        bits += 1
    return bits


_group_bits = compiled_internal(_bits_of)


@inline_always
def replicate(
    drift: Callable[..., float],
    policy_params: tuple[float],
    drift_params: tuple[Any, ...],
    arm_params: tuple[Floats, Floats],
    instance: BanditInstance,
    each_arm_once: bool,
    prior: float,
    seed: int,
    first: int,
    checkpoints: Counts,
    scratch: Scratch,
    stop: Counts,
    metrics: Floats,
    pulls: Counts,
) -> tuple[int, int, int, int]:
    """Run replications first, first + 1, … and fill one row of `metrics` and `pulls` for each.

    Returns how it ended and, unless it is `DONE`, the replication, round and arm at which it did.
    """
    accounts, means = scratch.accounts, scratch.means
    arms = accounts.shape[0]
    for i in range(arms):
        accounts[i, MEAN] = arm_params[0][i]
        accounts[i, STD] = arm_params[1][i]
    bits = _group_bits(arms)
    rate = policy_params[0] * arms
    horizon = checkpoints[checkpoints.shape[0] - 1]
    cold = arms if each_arm_once else 0
    for row in range(metrics.shape[0]):
        replication = first + row
        _begin(scratch, seed, replication, prior)
        _plan(scratch, rate, cold, 0, horizon)
        leader, rival = 0, prior
        planned, drawn = 0, _DRAWS
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
                if drawn == _DRAWS:
                    if stop[0] != 0:
                        return STOPPED, replication, t + 1, 0
                    fill_normals(scratch.noise, scratch.draws)
                    drawn = 0
                noise = scratch.draws[np.uint64(drawn)]
                drawn += 1
                explored = scratch.rounds[np.uint64(planned)]
                if t + 1 < explored:
                    rounds = min(explored - 1, last) - t
                    rounds = _exploit(scratch, leader, rival, rounds, noise)
                    regret += instance.gaps[leader] * rounds
                    t += rounds
                    if not abs(means[leader]) < instance.limit:
                        return NOT_FINITE, replication, t, leader
                    if means[leader] <= rival:
                        leader, rival = _overtaken(scratch, leader, bits)
                    continue
                t += 1
                arm = scratch.arms[np.uint64(planned)]
                regret += instance.gaps[arm]
                feedback = _reward(accounts, arm, noise)
                payment = means[np.uint64(leader)] - means[np.uint64(arm)]
                if payment > 0.0 and t > cold:
                    bend = drift(payment, t, arm, drift_params)
                    compensation += payment
                    compensated += 1
                    total_drift += bend
                    feedback += bend
                if not abs(feedback) < instance.limit:
                    return NOT_FINITE, replication, t, arm
                leader, rival = _explore(scratch, leader, rival, arm, feedback, bits)
                planned += 1
                if planned == _PLANNED:
                    _plan(scratch, rate, cold, t, horizon)
                    planned = 0
            error = abs(means[instance.best] - instance.best_mean)
            metrics[row, c, 0] = regret
            metrics[row, c, 1] = compensation
            metrics[row, c, 2] = compensated
            metrics[row, c, 3] = total_drift
            metrics[row, c, 4] = error / instance.error_unit
        for i in range(arms):
            pulls[row, i] = np.int64(accounts[i, COUNT])
    return DONE, 0, 0, 0


@compiled_internal
def _begin(scratch: Scratch, seed: int, replication: int, prior: float) -> None:
    """Go to the beginning of a replication: fresh streams, no ratings."""
    seed_stream(scratch.noise, seed, replication, NOISE)
    seed_stream(scratch.plan, seed, replication, PLAN)
    seed_stream(scratch.bridge, seed, replication, BRIDGE)
    scratch.accounts[:, :MEAN] = 0.0
    scratch.means[:] = prior
    scratch.ceilings[:] = prior


@compiled_internal_noinline
def _plan(scratch: Scratch, rate: float, cold: int, t: int, horizon: int) -> None:
    """Draw the next explorations after round t; what is beyond the horizon is at horizon + 1.

    The first `cold` rounds try one arm after the other.
    """
    stream, rounds, tried = scratch.plan, scratch.rounds, scratch.arms
    state = get_state(stream)
    arms = float(scratch.means.shape[0])
    bound, scale, spread = 1.0, 0.0, arms / rate
    for i in range(rounds.shape[0]):
        if t < cold:
            tried[i] = t
            t += 1
            rounds[i] = t
            continue
        pick = arms
        while pick >= arms:
            if rate < _WORN * bound * (t + 1):
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
            # which arm it tries: it is spread over K · bound / ε_t, of which K are arms.
            word, state = advance(state)
            pick = as_uniform(word) * max(spread * t, arms)
        rounds[i] = t
        tried[i] = int(pick)
    set_state(stream, state)


@compiled_internal
def _exploit(scratch: Scratch, leader: int, rival: float, rounds: int, noise: float) -> int:
    """Pull the greedy arm for so many rounds, or until it may be overtaken; returns how many."""
    at = np.uint64(leader)
    account = scratch.accounts
    count, total = account[at, COUNT], account[at, TOTAL]
    mean, std = account[at, MEAN], account[at, STD]
    lead = total - rival * count
    if rounds <= _FEW or not lead > max(_CLOSE * std, _SOON * (rival - mean)):
        # Also an arm without ratings.
        rounds = 1
        count += 1.0
        total += mean + std * noise
    else:
        rounds, lead = leap(lead, mean - rival, std, rounds, noise, scratch.bridge)
        count += rounds
        total = lead + rival * count
    account[at, COUNT] = count
    account[at, TOTAL] = total
    scratch.means[at] = total / count
    return rounds


@compiled_internal
def _explore(
    scratch: Scratch, leader: int, rival: float, arm: int, feedback: float, bits: int
) -> tuple[int, float]:
    """Enter the rating of an explored arm; returns the greedy arm and the bound on all others."""
    mean = _enter(scratch, arm, feedback)
    if arm == leader:
        if mean <= rival:
            return _overtaken(scratch, leader, bits)
        return leader, rival
    group = np.uint64(arm >> bits)
    if mean >= rival:
        top = scratch.means[leader]
        if mean > top or (mean == top and arm < leader):
            group = np.uint64(leader >> bits)
            scratch.ceilings[group] = max(scratch.ceilings[group], top)
            return arm, top
        rival = mean
    scratch.ceilings[group] = max(scratch.ceilings[group], mean)
    return leader, rival


@compiled_internal
def _enter(scratch: Scratch, arm: int, feedback: float) -> float:
    """Enter one rating; returns the arm's new average."""
    at = np.uint64(arm)
    count = scratch.accounts[at, COUNT] + 1.0
    total = scratch.accounts[at, TOTAL] + feedback
    mean = float(total / count)
    scratch.accounts[at, COUNT] = count
    scratch.accounts[at, TOTAL] = total
    scratch.means[at] = mean
    return mean


@compiled_internal
def _reward(accounts: Floats, arm: int, noise: float) -> float:
    """The true reward of a pull whose standard normal draw is `noise`."""
    at = np.uint64(arm)
    return float(accounts[at, MEAN] + accounts[at, STD] * noise)


@compiled_internal
def _overtaken(scratch: Scratch, leader: int, bits: int) -> tuple[int, float]:
    """Find the greedy arm after the last one fell to the bound on the others, or below."""
    group = leader >> bits
    scratch.ceilings[group] = max(scratch.ceilings[group], scratch.means[leader])
    return _find_leader(scratch.means, scratch.ceilings, bits)


@compiled_internal_noinline
def _find_leader(means: Floats, ceilings: Floats, bits: int) -> tuple[int, float]:
    """Find the greedy arm, ties to the lowest index, and a bound on all other averages.

    Looks into the group with the highest ceiling, the first of them in case of ties. If its best
    average reaches the ceiling, no arm is better; otherwise the ceiling comes down to it.
    """
    while True:
        group, top, others = _top_two(ceilings, 0, ceilings.shape[0])
        begin = group << bits
        leader, best, second = _top_two(means, begin, min(begin + (1 << bits), means.shape[0]))
        if best < top:
            ceilings[group] = best
        else:
            ceilings[group] = second
            return leader, max(second, others)


@compiled_internal
def _top_two(values: Floats, begin: int, end: int) -> tuple[int, float, float]:
    """Find where the highest value in a range is, ties to the first, and the two highest."""
    place, best, second = begin, values[begin], -np.inf
    for i in range(begin + 1, end):
        value = values[np.uint64(i)]
        if value > second:
            if value > best:
                place, second, best = i, best, value
            else:
                second = value
    return place, best, second
