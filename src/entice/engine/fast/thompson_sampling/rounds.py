"""Rounds that are played one by one: all samples drawn, or only those that may win."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from entice.engine.fast.thompson_sampling.hazards import (
    highest_above,
    highest_below,
    set_hazard,
    set_hazards,
)
from entice.engine.fast.thompson_sampling.normal_tails import exponential, hazard
from entice.engine.fast.thompson_sampling.state import Floats, Params, Scratch, pull
from entice.jit.decorators import compiled_internal_noinline
from entice.policies.thompson_sampling import highest_sample
from entice.rng import normal


@compiled_internal_noinline
def draw_all(
    drift: Callable[..., float],
    params: Params,
    drift_params: tuple[Any, ...],
    arm_params: tuple[Floats, Floats],
    t: int,
    last: int,
    scratch: Scratch,
) -> tuple[int, int]:
    """Play rounds t to last by drawing every sample."""
    means, spreads, samples = scratch.ledger.means, scratch.spreads, scratch.samples
    while t <= last:
        arm = highest_sample(means, spreads, 1.0, samples, scratch.stream)
        if not pull(drift, params, drift_params, arm_params, t, arm, scratch):
            return t, arm
        t += 1
    return t, -1


@compiled_internal_noinline
def search(
    drift: Callable[..., float],
    params: Params,
    drift_params: tuple[Any, ...],
    arm_params: tuple[Floats, Floats],
    t: int,
    last: int,
    scratch: Scratch,
) -> tuple[int, int]:
    """Play rounds t to last, drawing the leader's sample and those above a level.

    The level is kept such that a few samples exceed it; in the rare rounds in which none does,
    all are drawn from below it.
    """
    ledger, spreads, stream = scratch.ledger, scratch.spreads, scratch.stream
    means = ledger.means
    # Expected cost: a few dozen ns for each exceeding sample, a few for each arm if there is none.
    target = math.log(max(means.shape[0] / 8.0, 2.0))
    low, high = 0.7 * target, 1.5 * target
    leader = ledger.greedy[0]
    total = seek_level(scratch, leader, target)
    place = exponential(stream)
    while t <= last:
        if not low <= total <= high:
            leader = ledger.greedy[0]
            total = seek_level(scratch, leader, target)
            if not low <= total <= high:  # averages beyond all measure: no such level was found
                return draw_all(drift, params, drift_params, arm_params, t, last, scratch)
        top = means[leader] + spreads[leader] * normal(stream)
        place, arm, top = highest_above(scratch, place, total, leader, top)
        if top <= scratch.level[0]:
            arm = highest_below(scratch, leader, top)
        if not pull(drift, params, drift_params, arm_params, t, arm, scratch):
            return t, arm
        t += 1
        if arm != leader:
            z = (scratch.level[0] - means[arm]) / spreads[arm]
            total = set_hazard(scratch, arm, hazard(z))
    return t, -1


@compiled_internal_noinline
def seek_level(scratch: Scratch, leader: int, target: float) -> float:
    """Move the level until about `target` rivals exceed it; returns the sum of their hazards."""
    means, spreads = scratch.ledger.means, scratch.spreads
    total = set_hazards(scratch, leader, scratch.level[0])
    if not 1e-3 <= total <= 100.0 * target:  # the last level is of no use, or there is none
        level = -math.inf
        for i in range(means.shape[0]):
            if i != leader:
                level = max(level, means[i] + 2.0 * spreads[i])
        total = set_hazards(scratch, leader, level)
    for _ in range(12):
        if not (total < 0.85 * target or total > 1.2 * target):
            break
        # The sum falls about exponentially in the level: a step of Newton's for its logarithm,
        # with h'/h ≈ z + 0.8, which is good enough for a level that may be anywhere.
        slope = 0.0
        for i in range(means.shape[0]):
            z = (scratch.level[0] - means[i]) / spreads[i]
            slope += scratch.hazards[i] * (max(z, 0.0) + 0.8) / spreads[i]
        step = total / slope * math.log(total / target)
        total = set_hazards(scratch, leader, scratch.level[0] + step)
    return total
