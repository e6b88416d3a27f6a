"""Thompson sampling on Gaussian arms, visiting only the rounds in which something can happen.

Round t is won by the highest of K independent samples θ_i ~ N(m_i, s_i²), where the spread s_i
depends on n_i alone. Nothing here approximates that; what is left undone is drawing samples whose
order can't matter. The tools:

*A level and a clock.* Fix a level a. Sample i exceeds it with probability p_i, whose hazard is
h_i = −log(1 − p_i) = −log Φ((a − m_i)/s_i). Lay the hazards of all rivals, round after round, on a
line. Points at independent Exp(1) distances hit the segment of length h_i with probability
1 − exp(−h_i) = p_i, independently of all other segments: they name the samples above the level.
After a hit one goes on from the end of the segment. Because the distances have no memory, the
level, the hazards and the set of rivals may change between rounds at will, as long as that is
decided from what has happened and not from how far away the next point is. Samples that exceed
the level are then drawn from the normal distribution above it, all others are known to be below.

*The leader.* One arm, the leader, is kept off the line. If it wins by its sample being above the
level while no rival's is, the rivals need no sample at all.

*Dips.* While the leader's average stays above a floor, its sample falls below the level with
probability at most q̄ = Φ((a − floor)/s̄), where s̄ is its spread when the floor was set: pulls only
reduce the spread. So the leader too gets a segment, −log(1 − q̄); a hit is a dip with probability
q/q̄, where q belongs to the average and spread of that very round. In between, the leader wins.

*Leaps.* In the rounds before the next point the leader is pulled time and again, unpaid since all
rivals' averages are below its floor. The sum of N rewards is one normal variable. The discrete
walk of its sums is a Brownian motion seen at whole times, which crosses the straight line
"floor · n" with the probability of a Brownian bridge, exp(−2xy/(Nσ²)). When it does not, the
average has never been below the floor. When it does, the discrete path is rebuilt by reflection
up to the first round in which the average is below the floor, and the rest of it is forgotten:
by the strong Markov property, what follows such a round does not depend on what was forgotten.

So the only differences from the generic kernel are the random numbers and rounding: of the
hazards (relative error below 2 · 10⁻¹³; 5 · 10⁻¹¹ beyond 30 spreads, where a sample stays below
the level with probability e⁻⁴⁵⁰), and of sums of rewards that are drawn in one go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from entice.engine.fast.thompson_sampling.leaps import ride
from entice.engine.fast.thompson_sampling.rounds import draw_all, search
from entice.engine.fast.thompson_sampling.state import (
    Counts,
    Floats,
    Params,
    Scratch,
    begin,
    new_workspace,
    pull_each,
)
from entice.engine.kernel import (
    DONE,
    NOT_FINITE,
    STOP_EVERY,
    STOPPED,
    BanditInstance,
    write_metrics,
)
from entice.jit.decorators import inline_always

__all__ = ["new_workspace", "replicate"]

FIRST = np.int64(1)
"""The first round, as a number that is no literal: those are compiled for separately."""

AHEAD = 1 << 20
"""Rounds after which a run looks whether it is to stop, at the latest."""

# What follows decides how fast it is, not what comes out.
_FEW_ARMS = 64  # so many samples are drawn outright sooner than searched for
_EXPLORE = 64  # rounds that are played outright before it is tried again


@inline_always
def replicate(
    drift: Callable[..., float],
    policy_params: Params,
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
    """Do what `kernel.replicate` does, for Gaussian arms."""
    ledger, account = scratch.ledger, scratch.account
    arms = ledger.pulls.shape[0]
    for row in range(metrics.shape[0]):
        replication = first + row
        begin(policy_params, prior, seed, replication, scratch)
        t = int(FIRST)
        for c in range(checkpoints.shape[0]):
            last = checkpoints[c]
            while t <= last:
                if stop[0] != 0:
                    return STOPPED, replication, t, 0
                if each_arm_once and t <= arms:
                    fault = pull_each(policy_params, arm_params, t, min(last, arms), scratch)
                    t = min(last, arms) + 1
                else:
                    ahead = min(last, t + AHEAD)
                    t, fault = play(
                        drift, policy_params, drift_params, arm_params, t, ahead, scratch
                    )
                if fault >= 0:
                    return NOT_FINITE, replication, t, fault
            write_metrics(
                metrics[row, c], instance, ledger.pulls, ledger.means, account.compensation[0],
                account.compensated[0], account.total_drift[0],
            )  # fmt: skip
        for i in range(arms):
            pulls[row, i] = ledger.pulls[i]
    return DONE, 0, 0, 0


@inline_always
def play(
    drift: Callable[..., float],
    params: Params,
    drift_params: tuple[Any, ...],
    arm_params: tuple[Floats, Floats],
    t: int,
    last: int,
    scratch: Scratch,
) -> tuple[int, int]:
    """Play from round t on, to round last at most: leap while that pays, else round by round.

    Returns the next round and the arm whose feedback was not finite, or −1.
    """
    arms, retry = scratch.spreads.shape[0], scratch.retry
    few = arms <= _FEW_ARMS
    if t >= retry[0]:
        t, fault = ride(drift, params, drift_params, arm_params, t, last, scratch)
        if t > last or fault >= 0:
            return t, fault
        retry[0] = t + (_EXPLORE if few else max(_EXPLORE, arms, min(t // 8, STOP_EVERY)))
    last = min(last, retry[0] - 1)
    if few:
        return draw_all(drift, params, drift_params, arm_params, t, last, scratch)
    return search(drift, params, drift_params, arm_params, t, last, scratch)
