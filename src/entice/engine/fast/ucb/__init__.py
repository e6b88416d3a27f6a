"""UCB with Gaussian arms, many rounds at a time: exact in distribution, not bit for bit.

Between two rounds only the pulled arm's average and log t change. So one look at all arms says
which one leads and, for many rounds, how high its rivals can get (`bounds`). The leader reigns
while it is surely above them: paid rounds are played one by one, unpaid ones jumped over where a
Brownian bridge allows it (`reign`). Where a reign ends, all arms are looked at again; so ceilings
and jumps decide how often one looks, never which arm is chosen.

Two replications take turns, a reign each: the processor looks for the one's next leader while it
plays the other's rounds. Each has its own arrays and random streams, so that its numbers depend
neither on its seat nor on its neighbour.

All comparisons are those of the generic kernel (`engine/kernel.py`, which remains the definition
of what is computed) up to rounding. Ties between bounds or averages may be broken otherwise. They
have probability 0 unless an arm has no noise, or unless averages are so large that noise is lost
in their rounding: under the cold start `prior` with l = 3, each arm's first average is three times
the last one's, 10¹⁸ after 40 arms. There the generic kernel's own choices are made by rounding,
and this path rounds otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from entice.engine.fast.ucb.bounds import Ceiling, draw_lines, find_greedy, look
from entice.engine.fast.ucb.leader_run import reign
from entice.engine.fast.ucb.simd import WIDTH
from entice.engine.fast.ucb.workspace import (
    BATCH,
    NOBODY,
    SEATS,
    Counts,
    Floats,
    Scratch,
    new_workspace,
    seated,
)
from entice.engine.kernel import DONE, NOT_FINITE, STOPPED, BanditInstance, write_metrics
from entice.jit.decorators import compiled_internal, inline_always
from entice.rng import fill_normals, seed_stream

__all__ = ["new_workspace", "replicate"]

NOISE, BRIDGE = 19, 20
"""Purposes of the streams: normal draws, and questions to bridges."""


@inline_always
def replicate(
    drift: Callable[..., float],
    policy_params: tuple[()],
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
    """Fill the arrays that `kernel.replicate` fills, from the same distribution."""
    rows, last_checkpoint = metrics.shape[0], checkpoints.shape[0] - 1
    scratch.turn[:, 0] = NOBODY
    begun, ended, seat = 0, 0, 0
    while ended < rows:
        seat = (seat + 1) % SEATS
        own = seated(scratch, seat)
        row, c, t, arm, until = own.turn[0], own.turn[1], own.turn[2], own.turn[3], own.turn[4]
        if row != NOBODY:
            if own.used[0] == BATCH:
                if stop[0] != 0:
                    return STOPPED, first + row, t, arm
                _draw_noise(own)
            ceiling = Ceiling(until, own.ceiling[0], own.ceiling[1])
            t = reign(drift, drift_params, arm_params, own, ceiling, instance.limit, t, arm)
            if t < 0:
                return NOT_FINITE, first + row, -t, arm
        elif begun < rows:
            row, c, arm = begun, 0, 0
            begun += 1
            if stop[0] != 0:
                return STOPPED, first + row, 1, 0
            _clear(own, instance.gaps.shape[0], prior, seed, first + row)
            c, t = _rate_each_arm(
                drift, drift_params, arm_params, instance, each_arm_once, prior, checkpoints, own,
                metrics[row],
            )  # fmt: skip
            if t < 0:
                return NOT_FINITE, first + row, -t, -t - 1
        else:
            continue
        if t > checkpoints[c]:
            _report(own, instance, metrics[row, c])
            c += 1
        if c > last_checkpoint:
            for i in range(pulls.shape[1]):
                pulls[row, i] = own.pulls[i]
            own.turn[0] = NOBODY
            ended += 1
            continue
        arm, ceiling = look(own, t, checkpoints[c] + 1, arm)
        own.turn[0], own.turn[1], own.turn[2], own.turn[3] = row, c, t, arm
        own.turn[4], own.ceiling[0], own.ceiling[1] = ceiling.until, ceiling.level, ceiling.slope
    return DONE, 0, 0, 0


@compiled_internal
def _clear(scratch: Scratch, arms: int, prior: float, seed: int, replication: int) -> None:
    """Forget the last replication and begin this one's random streams."""
    scratch.pulls[:] = 0
    scratch.sums[:] = 0.0
    scratch.means[:arms] = prior
    scratch.roots[:] = 0.0
    scratch.levels[:] = -np.inf
    scratch.slopes[:] = 0.0
    scratch.rival[0] = prior
    scratch.tally[:] = 0.0
    scratch.used[0] = BATCH
    seed_stream(scratch.noise_stream, seed, replication, NOISE)
    seed_stream(scratch.bridge_stream, seed, replication, BRIDGE)


@compiled_internal
def _draw_noise(scratch: Scratch) -> None:
    fill_normals(scratch.noise_stream, scratch.noise)
    scratch.used[0] = 0


@compiled_internal
def _rate_each_arm(
    drift: Callable[..., float],
    drift_params: tuple[Any, ...],
    arm_params: tuple[Floats, Floats],
    instance: BanditInstance,
    each_arm_once: bool,
    prior: float,
    checkpoints: Counts,
    scratch: Scratch,
    metrics: Floats,
) -> tuple[int, int]:
    """Play the first K rounds, in which under either cold start each arm has its turn.

    Meanwhile `rival` holds the highest of the prior and the averages so far, which is what a
    myopic player would choose. Returns the next checkpoint to report and the next round, or minus
    the round whose feedback is not finite. Checkpoints on the way are reported.
    """
    c, t = 0, 1
    while t <= instance.gaps.shape[0]:
        if t > checkpoints[c]:
            if c + 1 == checkpoints.shape[0]:
                break
            _report(scratch, instance, metrics[c])
            c += 1
        if scratch.used[0] == BATCH:
            _draw_noise(scratch)
        arm = t - 1
        feedback = arm_params[0][arm] + arm_params[1][arm] * scratch.noise[scratch.used[0]]
        scratch.used[0] += 1
        payment = scratch.rival[0] - prior
        if payment > 0.0 and not each_arm_once:
            bend = drift(payment, t, arm, drift_params)
            feedback += bend
            scratch.tally[0] += payment
            scratch.tally[1] += 1.0
            scratch.tally[2] += bend
        if not abs(feedback) < instance.limit:
            return c, -t
        scratch.pulls[arm] = 1
        scratch.sums[arm] = feedback
        scratch.means[arm] = feedback
        scratch.roots[arm] = 1.0
        scratch.rival[0] = max(scratch.rival[0], feedback)
        t += 1
    find_greedy(scratch)
    if scratch.means.shape[0] > WIDTH:
        draw_lines(scratch, t)
    return c, t


@compiled_internal
def _report(scratch: Scratch, instance: BanditInstance, metrics: Floats) -> None:
    """Write down a checkpoint."""
    tally = scratch.tally
    write_metrics(metrics, instance, scratch.pulls, scratch.means, tally[0], tally[1], tally[2])
