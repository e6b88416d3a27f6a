"""Reigns of UCB's leading arm: the rounds in which it is pulled again and again.

**A reign.** While arm I is pulled, all rivals' bounds stay below a ceiling (`bounds.Ceiling`), and
I is pulled as long as its own bound is above it. Whether it is, is a question about I's sum of
feedback S alone: S > ceiling·n − g·sqrt(n).

**A jump.** If I is also the greedy arm, nothing is paid, and S is a Gaussian random walk until it
falls below max(ceiling·n − g·sqrt(n), n·highest other average). That floor is convex in n, so
below its chord over the next W pulls: a straight line. Draw the walk W pulls ahead, at distance y
from the line after x now. As points of a Brownian motion it touched the line in between with
probability exp(−2xy/(σ²W)), else W rounds are done with two random numbers. If it touched, the
first of the W points below the line is drawn from its conditional law (`bridge.until_lost`). It is
a stopping time of the walk, so what was drawn beyond it may be forgotten. W depends on the present
alone, so that nothing is learned from it.

Paid rounds (I is not greedy) go one by one, for the drift is any function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from entice.engine.fast.random_walk import touches, until_lost
from entice.engine.fast.ucb.bounds import Ceiling, enter, growth_at
from entice.engine.fast.ucb.workspace import BATCH, Floats, Scratch
from entice.jit.decorators import compiled_internal

SHORTEST_JUMP = 5
"""Fewer pulls than these are walked, not jumped."""
SAFETY = 4.0
"""Jumps are so long that the line is some sqrt(4) standard deviations away: rarely touched."""


@compiled_internal
def reign(
    drift: Callable[..., float],
    drift_params: tuple[Any, ...],
    arm_params: tuple[Floats, Floats],
    scratch: Scratch,
    ceiling: Ceiling,
    limit: float,
    t: int,
    arm: int,
) -> int:
    """Pull the arm that leads at round t, and again for as long as it surely leads.

    Returns the first round that was not played, or −t if the feedback of round t exceeds the limit.
    """
    at, greedy = np.uint64(arm), np.uint64(scratch.greedy[0])
    mean, std = arm_params[0][at], arm_params[1][at]
    payment = scratch.means[greedy] - scratch.means[at]
    if payment > 0.0:
        return _paid(drift, drift_params, scratch, ceiling, limit, mean, std, t, arm, payment)
    return _unpaid(scratch, ceiling, mean, std, t, arm)


@compiled_internal
def _paid(
    drift: Callable[..., float],
    drift_params: tuple[Any, ...],
    scratch: Scratch,
    ceiling: Ceiling,
    limit: float,
    mean: float,
    std: float,
    t: int,
    arm: int,
    payment: float,
) -> int:
    """Pull an arm that leads but is not greedy, round by round, until that may have changed."""
    at, used, before = np.uint64(arm), scratch.used[0], t
    pulls, total = scratch.pulls[at], scratch.sums[at]
    until = min(ceiling.until, t + BATCH - used)
    best = scratch.means[np.uint64(scratch.greedy[0])]
    compensation, total_drift = 0.0, 0.0
    while True:
        reward = mean + std * scratch.noise[np.uint64(used)]
        bend = drift(payment, t, arm, drift_params)
        if not abs(reward + bend) < limit:
            return -t
        compensation += payment
        total_drift += bend
        # In this order, and with the division apart, little waits for the sum of the last round.
        total = (total + reward) + bend
        used += 1
        pulls += 1
        t += 1
        payment = best - total * (1.0 / pulls)
        if t >= until or payment <= 0.0:
            break
        growth = growth_at(scratch, t)
        if total <= (ceiling.level + ceiling.slope * growth) * pulls - growth * math.sqrt(pulls):
            break
    scratch.used[0] = used
    scratch.tally[0] += compensation
    scratch.tally[1] += t - before
    scratch.tally[2] += total_drift
    enter(scratch, t, arm, pulls, total)
    return t


@compiled_internal
def _unpaid(scratch: Scratch, ceiling: Ceiling, mean: float, std: float, t: int, arm: int) -> int:
    """Pull an arm that leads and is greedy, by steps and jumps, until that may have changed."""
    at, used, before = np.uint64(arm), scratch.used[0], t
    pulls, total = scratch.pulls[at], scratch.sums[at]
    rival = scratch.rival[0]
    far = math.sqrt(SAFETY * SHORTEST_JUMP) * std
    assumed = scratch.policy_noise[0]
    while True:
        growth = growth_at(scratch, t)
        height = ceiling.level + ceiling.slope * growth
        above = total - _floor(rival, height, growth, pulls)
        if above <= 0.0 and t > before:
            break
        noise = scratch.noise[np.uint64(used)]
        used += 1
        length, ahead = 1, total + (mean + std * noise)
        if above > far:
            climb = ceiling.slope * pulls * assumed * assumed / (t * growth)  # g' = noise²/(t·g)
            rise = height - 0.5 * growth / math.sqrt(pulls) + climb
            reach = _reach(above, max(rise, rival) - mean, std)
            reach = min(reach, ceiling.until - t)
            if reach >= SHORTEST_JUMP:
                length, ahead = _jump(
                    scratch, ceiling, rival, growth, t, pulls, total, mean, std, reach, noise
                )
        total = ahead
        pulls += length
        t += length
        if t >= ceiling.until or used == BATCH:
            break
    scratch.used[0] = used
    enter(scratch, t, arm, pulls, total)
    return t


@compiled_internal
def _floor(rival: float, height: float, growth: float, pulls: int) -> float:
    """What a sum of feedback has to be above for its arm to be greedy and to lead."""
    return max(rival * pulls, height * pulls - growth * math.sqrt(pulls))


@compiled_internal
def _reach(above: float, catch: float, std: float) -> int:
    """How many pulls to jump such that the floor is rarely touched: a matter of speed alone.

    With the floor catching up by d a pull, W = x²/(aσ² + 2dx) leaves it some sqrt(a) standard
    deviations away, and never eats more than half of the distance x on average.
    """
    spread = SAFETY * std * std + 2.0 * max(catch, 0.0) * above
    return int(min(above * above / spread, 1e15))


@compiled_internal
def _jump(
    scratch: Scratch, ceiling: Ceiling, rival: float, growth: float, t: int, pulls: int,
    total: float, mean: float, std: float, length: int, noise: float,
) -> tuple[int, float]:  # fmt: skip
    """Go `length` pulls at once, or to the first point below the floor; return how many and where.

    The ceiling of the last round and g of the first one make the floor higher than it is.
    """
    height = ceiling.level + ceiling.slope * growth_at(scratch, t + length)
    floor = _floor(rival, height, growth, pulls)
    above = total - floor
    if above <= 0.0:  # a ceiling for so many rounds is too high already
        return 1, total + (mean + std * noise)
    ahead = total + (mean * length + std * math.sqrt(length) * noise)
    floor_ahead = _floor(rival, height, growth, pulls + length)
    above_ahead = ahead - floor_ahead
    stream, variance = scratch.bridge_stream, std * std * length
    if above_ahead <= 0.0 or touches(above, above_ahead, variance, stream):
        done, above = until_lost(above, above_ahead, std, length, stream)
        if done < length:
            return done, floor + (floor_ahead - floor) / length * done + above
    return length, ahead
