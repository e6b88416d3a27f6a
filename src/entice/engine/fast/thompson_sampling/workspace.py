"""The arrays of Thompson sampling's fast path, and one pull of an arm."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.fast.drift_pointer import DriftPointer, call_drift
from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.model.ledger import Ledger, clear, new_ledger, record
from entice.model.payment import required_payment
from entice.rng import Stream, normal, seed_stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Params = tuple[bool, float, float]
"""Whether the scale is "std", the limit on feedback, and the noise assumed by the policy."""

THOMPSON = 21
"""Purpose of the stream: all draws of a replication, rewards included."""

NO_LEADER = -1
"""The value of `bounded_leader` and of `level_leader` if nothing is stored to resume from."""

GROUP_SIZE = 16
"""The number of hazards per block, and of blocks per group."""


class Totals(NamedTuple):
    """Totals of a replication so far, each in an array of one element."""

    compensation: Floats
    compensated: Counts
    total_drift: Floats


class ThompsonWorkspace(NamedTuple):
    """Arrays that a replication fills and the next one reuses."""

    ledger: Ledger
    totals: Totals
    spreads: Floats
    """s_i: the standard deviation of each arm's sample."""
    samples: Floats
    hazards: Floats
    """h_i, 0 for the leader; padded with zeros."""
    blocks: Floats
    """Sums of `GROUP_SIZE` hazards each."""
    groups: Floats
    """Sums of `GROUP_SIZE` blocks each."""
    level: Floats
    """One element: the level a."""
    bounded_leader: Counts
    """One element: the leader for which `bounds` holds, or `NO_LEADER`."""
    bounds: Floats
    """The `LeaderBounds` of `run_leader` at the last checkpoint, and the distance to the next point
    on the line: it resumes from there."""
    level_leader: Counts
    """One element: the arm that `draw_above_level` keeps off the line, or `NO_LEADER`."""
    level_total: Floats
    """One element: the sum of the hazards at the end of `draw_above_level`, which resumes there."""
    retry: Counts
    """One element: the round of the next attempt to jump."""
    stream: Stream


def new_workspace(arms: int, horizon: int) -> ThompsonWorkspace:
    """Allocate the arrays of `replicate`; their size does not depend on the horizon."""
    groups = -(-arms // GROUP_SIZE**2)
    return ThompsonWorkspace(
        new_ledger(arms, 0.0),
        Totals(np.zeros(1), np.zeros(1, np.int64), np.zeros(1)),
        np.zeros(arms),
        np.zeros(arms),
        np.zeros(groups * GROUP_SIZE**2),
        np.zeros(groups * GROUP_SIZE),
        np.zeros(groups),
        np.zeros(1),
        np.zeros(1, np.int64),
        np.zeros(5),
        np.zeros(1, np.int64),
        np.zeros(1),
        np.zeros(1, np.int64),
        np.zeros(4, dtype=np.uint64),
    )


@compiled_internal
def reset(
    params: Params, prior: float, seed: int, replication: int, workspace: ThompsonWorkspace
) -> None:
    """Reset the workspace for a replication."""
    seed_stream(workspace.stream, seed, replication, THOMPSON)
    clear(workspace.ledger, prior)
    workspace.spreads[:] = spread(params, 0)
    workspace.level[0] = math.nan
    workspace.bounded_leader[0] = NO_LEADER
    workspace.level_leader[0] = NO_LEADER
    workspace.retry[0] = 0
    workspace.totals.compensation[0] = 0.0
    workspace.totals.compensated[0] = 0
    workspace.totals.total_drift[0] = 0.0


@compiled_internal
def spread(params: Params, pulls: int) -> float:
    """Return the spread of an arm's sample: noise/sqrt(n + 1), or noise/(n + 1) for "std"."""
    if params[0]:
        return params[2] / (pulls + 1.0)
    return params[2] / math.sqrt(pulls + 1.0)


@compiled_internal
def pull(
    drift_function: DriftPointer,
    params: Params,
    arm_params: tuple[Floats, Floats],
    t: int,
    arm: int,
    workspace: ThompsonWorkspace,
) -> bool:
    """Pay, apply the drift and record the feedback. Return False if feedback exceeds the limit."""
    ledger = workspace.ledger
    payment = required_payment(ledger.means, ledger.greedy[0], arm)
    feedback = arm_params[0][arm] + arm_params[1][arm] * normal(workspace.stream)
    if payment > 0.0:
        drift = call_drift(drift_function, payment, t, arm)
        workspace.totals.compensation[0] += payment
        workspace.totals.compensated[0] += 1
        workspace.totals.total_drift[0] += drift
        feedback += drift
    if not abs(feedback) < params[1]:
        return False
    record(ledger, arm, feedback)
    workspace.spreads[arm] = spread(params, ledger.pulls[arm])
    return True


@compiled_internal_noinline
def pull_each_arm(
    params: Params,
    arm_params: tuple[Floats, Floats],
    t: int,
    last: int,
    workspace: ThompsonWorkspace,
) -> int:
    """Play rounds t to last of a cold start: arm t − 1 in round t, unpaid."""
    for arm in range(t - 1, last):
        feedback = arm_params[0][arm] + arm_params[1][arm] * normal(workspace.stream)
        if not abs(feedback) < params[1]:
            return arm
        record(workspace.ledger, arm, feedback)
        workspace.spreads[arm] = spread(params, workspace.ledger.pulls[arm])
    return -1
