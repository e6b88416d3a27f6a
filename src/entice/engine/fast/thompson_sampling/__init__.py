"""Thompson sampling on Gaussian arms, skipping the samples and rounds that can't matter.

In round t the arm with the highest of K independent samples θ_i ~ N(m_i, s_i²) is pulled; the
spread s_i depends on n_i only. This path makes the same choice without approximation; it only
avoids drawing samples that cannot affect the choice. It combines four ideas:

*A level and exponential distances.* Fix a level a. Sample i exceeds it with probability p_i, and
its hazard is h_i = −log(1 − p_i) = −log Φ((a − m_i)/s_i). Lay the hazards of all rivals, round
after round, as segments on a line. Points at independent Exp(1) distances hit the segment of length
h_i with probability 1 − exp(−h_i) = p_i, independently of all other segments: they identify the
samples above the level. After a hit, continue from the end of the segment. The exponential
distribution is memoryless, so the level, the hazards and the set of rivals may change between
rounds, as long as the change depends only on the past and not on the distance to the next point.
Samples above the level are then drawn from the normal distribution above it; all others are known
to be below.

*The leader.* One arm, the leader, is kept off the line. If its sample is above the level and no
rival's is, it wins, and the rivals need no samples at all.

*Dips.* While the leader's average stays above a floor, its sample falls below the level with
probability at most q̄ = Φ((a − floor)/s̄), where s̄ is its spread when the floor was set: pulls only
reduce the spread. So the leader gets a segment too, −log(1 − q̄). A hit is a dip with probability
q/q̄, where q follows from the average and spread in that round. Between hits, the leader wins.

*Jumps.* In the rounds before the next point the leader is pulled every time, unpaid because all
rivals' averages are below its floor. The sum of N rewards is one normal variable. At integer times
its partial sums are a Brownian motion, which crosses the straight line floor · n with the
probability of a Brownian bridge, exp(−2xy/(Nσ²)). If it does not, the average has never been below
the floor. If it does, the path is reconstructed by reflection up to the first round in which the
average is below the floor, and the rest is discarded: by the strong Markov property, the rounds
after that one do not depend on what is discarded.

So only the random numbers and rounding differ from the generic kernel: rounding of the hazards
(relative error below 2 · 10⁻¹³; 5 · 10⁻¹¹ beyond 30 spreads, where a sample stays below the level
with probability e⁻⁴⁵⁰), and of sums of rewards that are drawn at once.
"""

from __future__ import annotations

import numpy as np

from entice.engine.fast.drift_pointer import DriftPointer
from entice.engine.fast.thompson_sampling.leader_run import run_leader
from entice.engine.fast.thompson_sampling.rounds import draw_above_level, draw_all_samples
from entice.engine.fast.thompson_sampling.workspace import (
    Counts,
    Floats,
    Params,
    ThompsonWorkspace,
    new_workspace,
    pull_each_arm,
    reset,
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
"""The first round. Numba would compile the loop separately for a literal 1."""

MAX_ROUNDS_AHEAD = 1 << 20
"""Maximum number of rounds between checks of the stop flag."""

# These constants affect speed only.
_FEW_ARMS = 64  # up to this many arms, drawing all samples is faster than the method by level
_RETRY_AFTER = 128  # rounds played one by one before the next attempt to jump


@inline_always
def replicate(
    policy_params: Params,
    drift_function: DriftPointer,
    arm_params: tuple[Floats, Floats],
    instance: BanditInstance,
    each_arm_once: bool,
    prior: float,
    seed: int,
    first: int,
    checkpoints: Counts,
    workspace: ThompsonWorkspace,
    stop: Counts,
    metrics: Floats,
    pulls: Counts,
) -> tuple[int, int, int, int]:
    """Fill the same arrays as `kernel.replicate`, from the same distribution."""
    ledger, totals = workspace.ledger, workspace.totals
    arms = ledger.pulls.shape[0]
    for row in range(metrics.shape[0]):
        replication = first + row
        reset(policy_params, prior, seed, replication, workspace)
        t = int(FIRST)
        for c in range(checkpoints.shape[0]):
            last = checkpoints[c]
            while t <= last:
                if stop[0] != 0:
                    return STOPPED, replication, t, 0
                if each_arm_once and t <= arms:
                    fault = pull_each_arm(policy_params, arm_params, t, min(last, arms), workspace)
                    t = min(last, arms) + 1
                else:
                    ahead = min(last, t + MAX_ROUNDS_AHEAD)
                    t, fault = play_rounds(
                        drift_function, policy_params, arm_params, t, ahead, workspace
                    )
                if fault >= 0:
                    return NOT_FINITE, replication, t, fault
            write_metrics(
                metrics[row, c], instance, ledger.pulls, ledger.means, totals.compensation[0],
                totals.compensated[0], totals.total_drift[0],
            )  # fmt: skip
        for i in range(arms):
            pulls[row, i] = ledger.pulls[i]
    return DONE, 0, 0, 0


@inline_always
def play_rounds(
    drift_function: DriftPointer,
    params: Params,
    arm_params: tuple[Floats, Floats],
    t: int,
    last: int,
    workspace: ThompsonWorkspace,
) -> tuple[int, int]:
    """Play rounds t to `last` at most, by jumps while that is faster, otherwise one by one.

    Returns the next round and the arm whose feedback was not finite, or −1.
    """
    arms, retry = workspace.spreads.shape[0], workspace.retry
    few = arms <= _FEW_ARMS
    if t >= retry[0]:
        t, fault = run_leader(drift_function, params, arm_params, t, last, workspace)
        if t > last or fault >= 0:
            return t, fault
        retry[0] = t + (_RETRY_AFTER if few else max(_RETRY_AFTER, arms, min(t // 8, STOP_EVERY)))
    last = min(last, retry[0] - 1)
    if few:
        return draw_all_samples(drift_function, params, arm_params, t, last, workspace)
    return draw_above_level(drift_function, params, arm_params, t, last, workspace)
