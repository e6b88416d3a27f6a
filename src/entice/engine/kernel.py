"""The replication loop around the step: one cell of a study, many replications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.jit import compiled, compiled_apart
from entice.principal.ledger import Ledger, clear, is_consistent
from entice.principal.step import offer, settle
from entice.rng import POLICY, REWARD, Stream, start

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

METRICS = ("regret", "compensation", "compensated_pulls", "total_drift", "best_arm_error")
"""What is measured in each replication at each checkpoint, in the order of the last axis."""

DONE, STOPPED, BAD_ARM, NOT_FINITE, TAMPERED = 0, 1, 2, 3, 4
"""How a run of the kernel may end."""


STOP_EVERY = 65_536
"""Rounds after which a run looks whether it is to stop: some milliseconds."""


class Truth(NamedTuple):
    """What only the simulator knows of the arms."""

    gaps: Floats
    """Δ_i: how far each arm's true mean is below the best."""
    best: int
    """The best arm."""
    best_mean: float
    """Its true mean."""
    error_unit: float
    """What errors of its average are relative to: |best_mean|, or nan when that is 0."""


def truth_of(means: Floats) -> Truth:
    """Work out what the metrics need from the true means; of equal arms the first is the best."""
    best = int(np.argmax(means))
    mean = float(means[best])
    return Truth(means[best] - means, best, mean, abs(mean) if mean != 0 else float("nan"))


class Workspace(NamedTuple):
    """Arrays that a replication fills and the next one reuses."""

    ledger: Ledger
    memory: Floats
    policy_stream: Stream
    reward_stream: Stream


@compiled_apart
def replicate(
    select: Callable[..., int],
    update: Callable[..., None],
    drift: Callable[..., float],
    sample: Callable[..., float],
    observe: Callable[..., None],
    policy_params: tuple[Any, ...],
    drift_params: tuple[Any, ...],
    arm_params: tuple[Any, ...],
    truth: Truth,
    each_arm_once: bool,
    prior: float,
    lowest: float,
    highest: float,
    seed: int,
    first: int,
    checkpoints: Counts,
    workspace: Workspace,
    stop: Counts,
    trace: Floats,
    metrics: Floats,
    pulls: Counts,
) -> tuple[int, int, int, int]:
    """Run replications first, first + 1, … and fill one row of `metrics` and `pulls` for each.

    Returns how it ended and, unless it is `DONE`, the replication, round and arm at which it did.
    """
    ledger, memory, policy_stream, reward_stream = workspace
    arms = ledger.pulls.shape[0]
    for row in range(metrics.shape[0]):
        replication = first + row
        start(policy_stream, seed, replication, POLICY)
        start(reward_stream, seed, replication, REWARD)
        clear(ledger, prior)
        memory[:] = 0.0
        compensation = 0.0
        compensated = 0
        total_drift = 0.0
        t = 1
        for c in range(checkpoints.shape[0]):
            until = checkpoints[c]
            while t <= until:
                if t % STOP_EVERY == 1 and stop[0] != 0:
                    return STOPPED, replication, t, 0
                arm, greedy, payment = offer(
                    select, t, ledger, memory, policy_params, policy_stream, each_arm_once
                )
                # Asked again, so that the compiler knows from here on: no index is negative.
                if arm < 0 or arm >= arms:
                    return BAD_ARM, replication, t, arm
                reward = sample(arm, arm_params, reward_stream)
                bend = 0.0
                if arm != greedy:
                    bend = drift(payment, t, arm, drift_params)
                    compensation += payment
                    compensated += 1
                    total_drift += bend
                feedback = min(max(reward + bend, lowest), highest)
                if not np.isfinite(feedback):
                    return NOT_FINITE, replication, t, arm
                settle(update, ledger, memory, policy_params, arm, payment, feedback)
                observe(trace, t, arm, greedy, payment, bend, feedback)
                t += 1
            write_metrics(
                metrics[row, c], truth, ledger.pulls, ledger.means, compensation, compensated,
                total_drift,
            )  # fmt: skip
        for i in range(ledger.pulls.shape[0]):
            pulls[row, i] = ledger.pulls[i]
        if not is_consistent(ledger, prior, t - 1):
            return TAMPERED, replication, t - 1, 0
    return DONE, 0, 0, 0


@compiled
def write_metrics(
    metrics: Floats,
    truth: Truth,
    pulls: Counts,
    means: Floats,
    compensation: float,
    compensated: float,
    total_drift: float,
) -> None:
    """Write down how a replication stands at a checkpoint, in the order of `METRICS`."""
    regret = 0.0
    for i in range(truth.gaps.shape[0]):
        regret += truth.gaps[i] * pulls[i]
    metrics[0] = regret
    metrics[1] = compensation
    metrics[2] = compensated
    metrics[3] = total_drift
    metrics[4] = abs(means[truth.best] - truth.best_mean) / truth.error_unit


@compiled
def unobserved(
    trace: Floats, t: int, arm: int, greedy: int, payment: float, drift: float, feedback: float
) -> None:
    """Keep nothing of a round: the observer of a study."""


@compiled
def traced(
    trace: Floats, t: int, arm: int, greedy: int, payment: float, drift: float, feedback: float
) -> None:
    """Write a round down: the observer of a trace of one replication."""
    trace[t - 1, 0] = arm
    trace[t - 1, 1] = greedy
    trace[t - 1, 2] = payment
    trace[t - 1, 3] = drift
    trace[t - 1, 4] = feedback
