"""What a replication of Thompson sampling keeps, and one pull of an arm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.model.ledger import Ledger, clear, new_ledger, record
from entice.model.payment import required_payment
from entice.rng import Stream, normal, seed_stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Params = tuple[bool, float, float]
"""Whether the scale is "std", the largest feedback of a run, and the noise the policy assumes."""

THOMPSON = 21
"""Purpose: all that a replication draws here, rewards included."""

NOBODY = -1
"""Stands for the leader when nobody is watched."""

FAN = 16
"""How many hazards a block adds up, and how many blocks a group does."""


class Account(NamedTuple):
    """What has been paid so far, each in an array of one element."""

    compensation: Floats
    compensated: Counts
    total_drift: Floats


class Scratch(NamedTuple):
    """Arrays that a replication fills and the next one reuses."""

    ledger: Ledger
    account: Account
    spreads: Floats
    """s_i: the standard deviation of each arm's sample."""
    samples: Floats
    hazards: Floats
    """h_i, 0 for the leader; padded with zeros."""
    blocks: Floats
    """Sums of `FAN` hazards each."""
    groups: Floats
    """Sums of `FAN` blocks each."""
    level: Floats
    """One element: a."""
    watched: Counts
    """One element: the leader for whom `watch` holds, or `NOBODY`."""
    watch: Floats
    """What `leaps.ride` knew when it came to a checkpoint, so as to go on from there."""
    retry: Counts
    """One element: the round from which leaping is tried again."""
    stream: Stream


def new_workspace(arms: int, horizon: int) -> Scratch:
    """Make the arrays; they do not grow with the horizon."""
    groups = -(-arms // FAN**2)
    return Scratch(
        new_ledger(arms, 0.0),
        Account(np.zeros(1), np.zeros(1, np.int64), np.zeros(1)),
        np.zeros(arms),
        np.zeros(arms),
        np.zeros(groups * FAN**2),
        np.zeros(groups * FAN),
        np.zeros(groups),
        np.zeros(1),
        np.zeros(1, np.int64),
        np.zeros(4),
        np.zeros(1, np.int64),
        np.zeros(4, dtype=np.uint64),
    )


@compiled_internal
def begin(params: Params, prior: float, seed: int, replication: int, scratch: Scratch) -> None:
    """Forget the last replication."""
    seed_stream(scratch.stream, seed, replication, THOMPSON)
    clear(scratch.ledger, prior)
    scratch.spreads[:] = spread(params, 0)
    scratch.level[0] = math.nan
    scratch.watched[0] = NOBODY
    scratch.retry[0] = 0
    scratch.account.compensation[0] = 0.0
    scratch.account.compensated[0] = 0
    scratch.account.total_drift[0] = 0.0


@compiled_internal
def spread(params: Params, pulls: int) -> float:
    """The standard deviation of an arm's sample: noise/sqrt(n + 1); noise/(n + 1) for "std"."""
    if params[0]:
        return params[2] / (pulls + 1.0)
    return params[2] / math.sqrt(pulls + 1.0)


@compiled_internal
def pull(
    drift: Callable[..., float],
    params: Params,
    drift_params: tuple[Any, ...],
    arm_params: tuple[Floats, Floats],
    t: int,
    arm: int,
    scratch: Scratch,
) -> bool:
    """Pay for an arm what the greedy one is ahead, and enter the feedback, within the limit."""
    ledger = scratch.ledger
    payment = required_payment(ledger.means, ledger.greedy[0], arm)
    feedback = arm_params[0][arm] + arm_params[1][arm] * normal(scratch.stream)
    if payment > 0.0:
        bend = drift(payment, t, arm, drift_params)
        scratch.account.compensation[0] += payment
        scratch.account.compensated[0] += 1
        scratch.account.total_drift[0] += bend
        feedback += bend
    if not abs(feedback) < params[1]:
        return False
    record(ledger, arm, feedback)
    scratch.spreads[arm] = spread(params, ledger.pulls[arm])
    return True


@compiled_internal_noinline
def pull_each(
    params: Params,
    arm_params: tuple[Floats, Floats],
    t: int,
    last: int,
    scratch: Scratch,
) -> int:
    """Play rounds t to last of a cold start: arm t − 1 in round t, unpaid."""
    for arm in range(t - 1, last):
        feedback = arm_params[0][arm] + arm_params[1][arm] * normal(scratch.stream)
        if not abs(feedback) < params[1]:
            return arm
        record(scratch.ledger, arm, feedback)
        scratch.spreads[arm] = spread(params, scratch.ledger.pulls[arm])
    return -1
