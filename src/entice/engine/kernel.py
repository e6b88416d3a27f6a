"""The compiled simulation loop: many replications of one cell of a study.

Each round calls `model.step.offer`, draws the reward, applies the drift, and records the rating.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.pending_ratings import EMPTY, PendingRatings, pop_due, schedule_rating
from entice.jit.decorators import compiled, inline_always
from entice.model.in_flight import (
    RATED,
    InFlight,
    add_pull,
    clear_in_flight,
    count_expected,
    remove_pull,
    update_ages,
)
from entice.model.ledger import Ledger, clear, is_consistent
from entice.model.probe import HEADS, NO_PROBE, draw_probe
from entice.model.step import offer, settle
from entice.rng import PLAYER, POLICY, PROBE, REWARD, Stream, seed_stream, uniform

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

METRICS = ("regret", "compensation", "compensated_pulls", "total_drift", "best_arm_error")
"""The metrics of each replication at each checkpoint, in the order of the last axis."""

DONE, STOPPED, BAD_ARM, NOT_FINITE, TAMPERED = 0, 1, 2, 3, 4
"""Status codes that `replicate` returns."""


STOP_EVERY = 65_536
"""Number of rounds between checks of the stop flag: a few milliseconds."""


class BanditInstance(NamedTuple):
    """The true means of the arms, and values derived from them for the metrics.

    Only the simulator knows them.
    """

    gaps: Floats
    """Δ_i: the difference between the best true mean and each arm's."""
    best: int
    """The best arm."""
    best_mean: float
    """The true mean of the best arm."""
    error_unit: float
    """The unit of `best_arm_error`: |best_mean|, or nan if that is 0."""
    limit: float
    """Feedback beyond this limit counts as diverged: payments and drift reinforce each other."""


RUNAWAY = 1e6
"""A replication is stopped if its feedback exceeds the scale of the arms by this factor."""


def bandit_instance(means: Floats, scale: float = 1.0) -> BanditInstance:
    """Compute the gaps, the best arm and the limit; of equal arms, the first is the best."""
    best = int(np.argmax(means))
    mean = float(means[best])
    unit = abs(mean) if mean != 0 else float("nan")
    limit = RUNAWAY * max(1.0, scale, float(np.abs(means).max()))
    return BanditInstance(means[best] - means, best, mean, unit, limit)


class RunSettings(NamedTuple):
    """The numeric settings of a run."""

    each_arm_once: bool
    prior: float
    lowest: float
    """The lower end of the range onto which feedback is projected."""
    highest: float
    """The upper end of that range."""
    loss: float
    """The probability that a rating never arrives."""
    rating_window: float
    """Ratings with at least this delay never arrive; infinite if there is no window."""
    probe_share: float
    probe_amounts: Floats
    """The amounts of which a probe draws one."""


class KernelWorkspace(NamedTuple):
    """Arrays that a replication fills and the next one reuses."""

    ledger: Ledger
    memory: Floats
    """The policy's memory."""
    flight: InFlight
    """Pulls in flight, for policies that count them; times are rounds."""
    effective_pulls: npt.NDArray[Any]
    """The counts that the policy sees: the ledger's pulls, with or without expected ratings."""
    displayed: Floats
    """The values that players see; the ledger's own array if averages are displayed unchanged."""
    all_pulls: Counts
    """The pulls of each arm, rated or not."""
    drift_memory: Floats
    adversary_memory: Floats
    pending: PendingRatings
    policy_stream: Stream
    reward_stream: Stream
    player_stream: Stream
    probe_stream: Stream


@inline_always
def replicate(
    select: Callable[..., int],
    update: Callable[..., None],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    drift_function: Callable[..., float],
    apply_drift: Callable[..., float],
    sample: Callable[..., float],
    accept: Callable[..., bool],
    draw_delay: Callable[..., float],
    manipulate: Callable[..., float],
    immediate: Callable[..., bool],
    counts_in_flight: Callable[..., bool],
    has_probe: Callable[..., bool],
    observe_display: Callable[..., None],
    observe: Callable[..., None],
    policy_params: tuple[Any, ...],
    drift_params: tuple[Any, ...],
    arm_params: tuple[Any, ...],
    player_params: tuple[Any, ...],
    adversary_params: tuple[Any, ...],
    instance: BanditInstance,
    settings: RunSettings,
    seed: int,
    first: int,
    checkpoints: Counts,
    workspace: KernelWorkspace,
    stop: Counts,
    trace: Floats,
    metrics: Floats,
    pulls: Counts,
) -> tuple[int, int, int, int]:
    """Run replications first, first + 1, … and fill one row of `metrics` and `pulls` for each.

    At the start of a round, the ages of the pulls in flight are updated and the pull of the last
    round is added. Then the due ratings are recorded, and then the principal decides. So the age of
    a pull is the delay that its rating would have if it arrived now.

    `immediate` (ratings are never late or lost), `counts_in_flight` (the policy counts pulls in
    flight) and `has_probe` are functions with constant results, so that the compiler removes the
    branches that are not taken. `player_params` holds the parameters of `accept` and of
    `draw_delay`.

    Returns a status code and, unless it is `DONE`, the replication, round and arm where it ended.
    """
    # Numba can't inline Python calls with more than 30 arguments.
    ledger, memory, displayed = workspace.ledger, workspace.memory, workspace.displayed
    flight, effective_pulls = workspace.flight, workspace.effective_pulls
    all_pulls, pending = workspace.all_pulls, workspace.pending
    policy_stream, reward_stream = workspace.policy_stream, workspace.reward_stream
    player_stream, probe_stream = workspace.player_stream, workspace.probe_stream
    drift_memory, adversary_memory = workspace.drift_memory, workspace.adversary_memory
    arms = ledger.pulls.shape[0]
    for row in range(metrics.shape[0]):
        replication = first + row
        seed_stream(policy_stream, seed, replication, POLICY)
        seed_stream(reward_stream, seed, replication, REWARD)
        seed_stream(player_stream, seed, replication, PLAYER)
        seed_stream(probe_stream, seed, replication, PROBE)
        clear(ledger, settings.prior)
        memory[:] = 0.0
        drift_memory[:] = 0.0
        adversary_memory[:] = 0.0
        if not immediate():
            all_pulls[:] = 0
            pending.first[:] = EMPTY
        if counts_in_flight():
            clear_in_flight(flight)
            effective_pulls[:] = 0
        compensation = 0.0
        compensated = 0
        total_drift = 0.0
        ratings = 0
        # The literal 1 has a type of its own in Numba, which would compile the loop twice.
        t = int(np.int64(1))
        for c in range(checkpoints.shape[0]):
            until = checkpoints[c]
            while t <= until:
                if t % STOP_EVERY == 1 and stop[0] != 0:
                    return STOPPED, replication, t, 0
                if not immediate():
                    ratings += record_due_ratings(
                        update, counts_in_flight, t, ledger, memory, policy_params, pending, flight
                    )
                if counts_in_flight():
                    count_expected(flight, ledger.pulls, effective_pulls)
                arm, greedy, payment = offer(
                    select, display, payment_rule, t, ledger, effective_pulls, displayed, memory,
                    policy_params, policy_stream, settings.each_arm_once,
                )  # fmt: skip
                observe_display(trace, t, displayed)
                # Repeated here so that the compiler knows that no index is negative.
                if arm < 0 or arm >= arms:
                    return BAD_ARM, replication, t, arm
                selected, coin, amount = arm, NO_PROBE, 0.0
                if has_probe():
                    coin, amount = draw_probe(
                        settings.probe_share, settings.probe_amounts, probe_stream
                    )
                    if coin == HEADS:
                        payment += amount
                if arm != greedy and not accept(payment, player_params[0], player_stream):
                    arm, payment = greedy, 0.0  # a player who declines picks the greedy arm
                reward = sample(arm, arm_params, reward_stream)
                drift = apply_drift(
                    drift_function, reward, payment, t, arm, drift_params, drift_memory,
                    player_stream,
                )  # fmt: skip
                if payment > 0.0:
                    compensation += payment
                    compensated += 1
                total_drift += drift
                raw_feedback = reward + drift
                raw_feedback += manipulate(
                    raw_feedback, t, arm, ledger, adversary_params, adversary_memory
                )
                feedback = min(max(raw_feedback, settings.lowest), settings.highest)
                if not abs(feedback) < instance.limit:
                    return NOT_FINITE, replication, t, arm
                visible_from = t + 1.0
                if immediate():
                    settle(update, ledger, memory, policy_params, arm, payment, feedback)
                else:
                    all_pulls[arm] += 1
                    delay = np.inf
                    if not (settings.loss > 0.0 and uniform(player_stream) < settings.loss):
                        delay = draw_delay(player_params[1], player_stream)
                    if not delay < settings.rating_window:
                        feedback, delay = np.nan, np.inf
                    elif delay < pending.first.shape[0]:
                        schedule_rating(pending, t, int(delay), arm, payment, feedback)
                    visible_from += np.floor(delay)
                if counts_in_flight():
                    update_ages(flight, t + 1)
                    add_pull(flight, t, t + 1, arm)
                observe(
                    trace, t, arm, greedy, payment, drift, feedback, selected, coin, amount,
                    visible_from,
                )  # fmt: skip
                t += 1
            write_metrics(
                metrics[row, c], instance, ledger.pulls if immediate() else all_pulls, ledger.means,
                compensation, compensated, total_drift,
            )  # fmt: skip
        for i in range(ledger.pulls.shape[0]):
            pulls[row, i] = ledger.pulls[i] if immediate() else all_pulls[i]
        if not is_consistent(ledger, settings.prior, t - 1 if immediate() else ratings):
            return TAMPERED, replication, t - 1, 0
    return DONE, 0, 0, 0


TRACE_COLUMNS = 9
"""The columns of a trace before those of the displayed values."""


@compiled
def record_due_ratings(
    update: Callable[..., None],
    counts_in_flight: Callable[..., bool],
    t: int,
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    pending: PendingRatings,
    flight: InFlight,
) -> int:
    """Record the ratings due in round t, in the order of their pulls, and return their number."""
    ratings = 0
    slot = pop_due(pending, t)
    while slot != EMPTY:
        arm = pending.arm[slot]
        if counts_in_flight():
            remove_pull(flight, pending.round_pulled[slot], arm, RATED)
        settle(
            update, ledger, memory, params, arm, pending.payment[slot],
            pending.feedback[slot],
        )  # fmt: skip
        ratings += 1
        slot = pending.next_slot[slot]
    return ratings


@compiled
def compile_time_true() -> bool:
    """Return true; the compiler removes the other branch."""
    return True


@compiled
def compile_time_false() -> bool:
    """Return false; the compiler removes the other branch."""
    return False


@compiled
def write_metrics(
    metrics: Floats,
    instance: BanditInstance,
    pulls: Counts,
    means: Floats,
    compensation: float,
    compensated: float,
    total_drift: float,
) -> None:
    """Write a replication's metrics at a checkpoint, in the order of `METRICS`."""
    regret = 0.0
    for i in range(instance.gaps.shape[0]):
        regret += instance.gaps[i] * pulls[i]
    metrics[0] = regret
    metrics[1] = compensation
    metrics[2] = compensated
    metrics[3] = total_drift
    metrics[4] = abs(means[instance.best] - instance.best_mean) / instance.error_unit


@compiled
def ignore_display(trace: Floats, t: int, displayed: Floats) -> None:
    """Do nothing with the displayed values: for studies, which record no trace."""


@compiled
def trace_display(trace: Floats, t: int, displayed: Floats) -> None:
    """Write each arm's displayed value to the trace, before the round's rating changes it.

    A trace with only `TRACE_COLUMNS` columns keeps none of them.
    """
    for i in range(trace.shape[1] - TRACE_COLUMNS):
        trace[t - 1, TRACE_COLUMNS + i] = displayed[i]


@compiled
def ignore_round(
    trace: Floats,
    t: int,
    arm: int,
    greedy: int,
    payment: float,
    drift: float,
    feedback: float,
    selected: int,
    coin: int,
    amount: float,
    visible_from: float,
) -> None:
    """Do nothing with a round: for studies, which record no trace."""


@compiled
def trace_round(
    trace: Floats,
    t: int,
    arm: int,
    greedy: int,
    payment: float,
    drift: float,
    feedback: float,
    selected: int,
    coin: int,
    amount: float,
    visible_from: float,
) -> None:
    """Write a round to the trace of a single replication."""
    trace[t - 1, 0] = arm
    trace[t - 1, 1] = greedy
    trace[t - 1, 2] = payment
    trace[t - 1, 3] = drift
    trace[t - 1, 4] = feedback
    trace[t - 1, 5] = selected
    trace[t - 1, 6] = coin
    trace[t - 1, 7] = amount
    trace[t - 1, 8] = visible_from
