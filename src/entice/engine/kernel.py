"""The replication loop around the step: one cell of a study, many replications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.pending_ratings import NONE, PendingRatings, pop_due, schedule_rating
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
"""What is measured in each replication at each checkpoint, in the order of the last axis."""

DONE, STOPPED, BAD_ARM, NOT_FINITE, TAMPERED = 0, 1, 2, 3, 4
"""How a run of the kernel may end."""


STOP_EVERY = 65_536
"""Rounds after which a run looks whether it is to stop: some milliseconds."""


class BanditInstance(NamedTuple):
    """What only the simulator knows of the arms."""

    gaps: Floats
    """Δ_i: how far each arm's true mean is below the best."""
    best: int
    """The best arm."""
    best_mean: float
    """Its true mean."""
    error_unit: float
    """What errors of its average are relative to: |best_mean|, or nan when that is 0."""
    limit: float
    """Feedback beyond it has run away: payments feed on the drift that they cause."""


RUNAWAY = 1e6
"""How many times the arms' own scale feedback may reach before a replication is stopped."""


def bandit_instance(means: Floats, scale: float = 1.0) -> BanditInstance:
    """Work out what the metrics need from the true means; of equal arms the first is the best."""
    best = int(np.argmax(means))
    mean = float(means[best])
    unit = abs(mean) if mean != 0 else float("nan")
    limit = RUNAWAY * max(1.0, scale, float(np.abs(means).max()))
    return BanditInstance(means[best] - means, best, mean, unit, limit)


class RunSettings(NamedTuple):
    """How offers reach players and ratings come back, as numbers."""

    each_arm_once: bool
    prior: float
    lowest: float
    """Feedback is projected onto the range from here …"""
    highest: float
    """… to here."""
    loss: float
    """The probability that a rating never comes."""
    rating_window: float
    """A rating whose delay is not below it never comes; infinite if there is no window."""
    probe_share: float
    probe_amounts: Floats
    """One of them hangs on each coin that is thrown."""


class KernelWorkspace(NamedTuple):
    """Arrays that a replication fills and the next one reuses."""

    ledger: Ledger
    memory: Floats
    """The policy's."""
    flight: InFlight
    """Pulls without a rating, for a policy that counts them; their times are rounds."""
    counted: npt.NDArray[Any]
    """What the policy is told of: the ledger's pulls, or those and the ratings still expected."""
    shown: Floats
    """What players see; the ledger's own averages where they are shown as they are."""
    tried: Counts
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
    drift: Callable[..., float],
    apply_drift: Callable[..., float],
    sample: Callable[..., float],
    accept: Callable[..., bool],
    draw_delay: Callable[..., float],
    manipulate: Callable[..., float],
    at_once: Callable[..., bool],
    counting: Callable[..., bool],
    probing: Callable[..., bool],
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

    A round begins with the pulls in flight: each is a round older, and the last round's is new
    among them. Then the ratings that are due arrive, and then the principal decides. So a pull is
    as old as the delay that its rating has if it comes now.

    Returns how it ended and, unless it is `DONE`, the replication, round and arm at which it did.
    `at_once` (ratings are never late or lost), `counting` (the policy counts pulls in flight) and
    `probing` are functions so that the compiler sees which world this is, and leaves the others
    out. `player_params` are those of `accept` and those of `draw_delay`.
    """
    # Python calls with more than 30 arguments are too many for Numba to inline.
    ledger, memory, shown = workspace.ledger, workspace.memory, workspace.shown
    flight, counted, tried = workspace.flight, workspace.counted, workspace.tried
    pending = workspace.pending
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
        if not at_once():
            tried[:] = 0
            pending.first[:] = NONE
        if counting():
            clear_in_flight(flight)
            counted[:] = 0
        compensation = 0.0
        compensated = 0
        total_drift = 0.0
        ratings = 0
        # Not the literal 1, a type of its own to Numba, for which it would compile all below twice.
        t = int(np.int64(1))
        for c in range(checkpoints.shape[0]):
            until = checkpoints[c]
            while t <= until:
                if t % STOP_EVERY == 1 and stop[0] != 0:
                    return STOPPED, replication, t, 0
                if not at_once():
                    ratings += record_due_ratings(
                        update, counting, t, ledger, memory, policy_params, pending, flight
                    )
                if counting():
                    count_expected(flight, ledger.pulls, counted)
                arm, greedy, payment = offer(
                    select, display, payment_rule, t, ledger, counted, shown, memory, policy_params,
                    policy_stream, settings.each_arm_once,
                )  # fmt: skip
                observe_display(trace, t, shown)
                # Asked again, so that the compiler knows from here on: no index is negative.
                if arm < 0 or arm >= arms:
                    return BAD_ARM, replication, t, arm
                wanted, coin, amount = arm, NO_PROBE, 0.0
                if probing():
                    coin, amount = draw_probe(
                        settings.probe_share, settings.probe_amounts, probe_stream
                    )
                    if coin == HEADS:
                        payment += amount
                if arm != greedy and not accept(payment, player_params[0], player_stream):
                    arm, payment = greedy, 0.0  # who declines takes what looks best
                reward = sample(arm, arm_params, reward_stream)
                bend = apply_drift(
                    drift, reward, payment, t, arm, drift_params, drift_memory, player_stream
                )
                if payment > 0.0:
                    compensation += payment
                    compensated += 1
                total_drift += bend
                felt = reward + bend
                felt += manipulate(felt, t, arm, ledger, adversary_params, adversary_memory)
                feedback = min(max(felt, settings.lowest), settings.highest)
                if not abs(feedback) < instance.limit:
                    return NOT_FINITE, replication, t, arm
                seen_from = t + 1.0
                if at_once():
                    settle(update, ledger, memory, policy_params, arm, payment, feedback)
                else:
                    tried[arm] += 1
                    delay = np.inf
                    if not (settings.loss > 0.0 and uniform(player_stream) < settings.loss):
                        delay = draw_delay(player_params[1], player_stream)
                    if not delay < settings.rating_window:
                        feedback, delay = np.nan, np.inf
                    elif delay < pending.first.shape[0]:
                        schedule_rating(pending, t, int(delay), arm, payment, feedback)
                    seen_from += np.floor(delay)
                if counting():
                    update_ages(flight, t + 1)
                    add_pull(flight, t, t + 1, arm)
                observe(
                    trace, t, arm, greedy, payment, bend, feedback, wanted, coin, amount, seen_from
                )
                t += 1
            write_metrics(
                metrics[row, c], instance, ledger.pulls if at_once() else tried, ledger.means,
                compensation, compensated, total_drift,
            )  # fmt: skip
        for i in range(ledger.pulls.shape[0]):
            pulls[row, i] = ledger.pulls[i] if at_once() else tried[i]
        if not is_consistent(ledger, settings.prior, t - 1 if at_once() else ratings):
            return TAMPERED, replication, t - 1, 0
    return DONE, 0, 0, 0


TRACE_COLUMNS = 9
"""How many numbers a trace keeps of a round, before those that the arms displayed."""


@compiled
def record_due_ratings(
    update: Callable[..., None],
    counting: Callable[..., bool],
    t: int,
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    pending: PendingRatings,
    flight: InFlight,
) -> int:
    """Enter the ratings that are due in round t, the oldest pull's first; count them."""
    ratings = 0
    place = pop_due(pending, t)
    while place != NONE:
        arm = pending.arm[place]
        if counting():
            remove_pull(flight, pending.pulled[place], arm, RATED)
        settle(
            update, ledger, memory, params, arm, pending.payment[place],
            pending.feedback[place],
        )  # fmt: skip
        ratings += 1
        place = pending.following[place]
    return ratings


@compiled
def compile_time_true() -> bool:
    """The world is so."""
    return True


@compiled
def compile_time_false() -> bool:
    """The world is not so."""
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
    """Write down how a replication stands at a checkpoint, in the order of `METRICS`."""
    regret = 0.0
    for i in range(instance.gaps.shape[0]):
        regret += instance.gaps[i] * pulls[i]
    metrics[0] = regret
    metrics[1] = compensation
    metrics[2] = compensated
    metrics[3] = total_drift
    metrics[4] = abs(means[instance.best] - instance.best_mean) / instance.error_unit


@compiled
def ignore_display(trace: Floats, t: int, shown: Floats) -> None:
    """Keep nothing of what was displayed: the observer of a study."""


@compiled
def trace_display(trace: Floats, t: int, shown: Floats) -> None:
    """Write down what each arm displays, before the round's rating changes it.

    A trace whose rows end after `TRACE_COLUMNS` numbers keeps none of it.
    """
    for i in range(trace.shape[1] - TRACE_COLUMNS):
        trace[t - 1, TRACE_COLUMNS + i] = shown[i]


@compiled
def ignore_round(
    trace: Floats,
    t: int,
    arm: int,
    greedy: int,
    payment: float,
    drift: float,
    feedback: float,
    wanted: int,
    coin: int,
    amount: float,
    seen_from: float,
) -> None:
    """Keep nothing of a round: the observer of a study."""


@compiled
def traced(
    trace: Floats,
    t: int,
    arm: int,
    greedy: int,
    payment: float,
    drift: float,
    feedback: float,
    wanted: int,
    coin: int,
    amount: float,
    seen_from: float,
) -> None:
    """Write a round down: the observer of a trace of one replication."""
    trace[t - 1, 0] = arm
    trace[t - 1, 1] = greedy
    trace[t - 1, 2] = payment
    trace[t - 1, 3] = drift
    trace[t - 1, 4] = feedback
    trace[t - 1, 5] = wanted
    trace[t - 1, 6] = coin
    trace[t - 1, 7] = amount
    trace[t - 1, 8] = seen_from
