"""The compiled simulation loop: many replications of one cell of a study.

Each round makes an offer by `model.step.offer`, draws the reward, applies the drift, and records
the rating.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.delivery import Undelivered
from entice.jit.decorators import compiled, inline_always
from entice.jit.likely import likely
from entice.model.ledger import Ledger, clear, is_consistent
from entice.model.probe import HEADS, NO_PROBE, draw_probe
from entice.rng import ARMS, PLAYER, POLICY, PROBE, REWARD, Stream, seed_stream
from entice.worlds.changing_arms import mean_of_round, write_regret_by_round

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

METRICS = ("regret", "compensation", "compensated_pulls", "total_drift", "best_arm_error")
"""The metrics of each replication at each checkpoint, in the order of the last axis."""

RESPONSE_METRICS = ("share_rated", "selection_bias")
"""The metrics that follow if players do not always rate: see `write_response_metrics`."""

DONE, STOPPED, BAD_ARM, NOT_FINITE, TAMPERED = 0, 1, 2, 3, 4
"""Status codes that `replicate` returns."""


STOP_EVERY = 65_536
"""Number of rounds between checks of the stop flag: a few milliseconds."""


class BanditInstance(NamedTuple):
    """The true means of the arms, and values derived from them for the metrics.

    Only the simulator knows them.
    """

    gaps: Floats
    """Δ_i: the difference between the best true mean and each arm's; with segments, of each segment
    and arm."""
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
    regret_by_round: bool
    """Whether regret is counted round by round, in `arms_memory`, because means change."""


class Parameters(NamedTuple):
    """The parameters of the functions that a kernel is compiled for."""

    policy: tuple[Any, ...]
    drift: tuple[Any, ...]
    arms: tuple[Any, ...]
    acceptance: tuple[Any, ...]
    delivery: tuple[Any, ...]
    adversary: tuple[Any, ...]
    probe: tuple[Any, ...]
    response: tuple[Any, ...]


class KernelWorkspace(NamedTuple):
    """Arrays that a replication fills and the next one reuses."""

    ledger: Ledger
    memory: Floats
    """The policy's memory."""
    effective_pulls: Any
    """The counts that the policy sees: the ledger's pulls, with or without expected ratings. With
    known segments, a `SegmentWorkspace`, with which they are computed."""
    displayed: Floats
    """The values that players see; the ledger's own array if averages are displayed unchanged."""
    all_pulls: Counts
    """The pulls of each arm, rated or not; the ledger's own array if ratings are immediate."""
    drift_memory: Floats
    adversary_memory: Floats
    arms_memory: Floats
    """The current means of arms that change; the pulls of each segment and arm, and the round's
    segment; else empty."""
    counted_pulls: npt.NDArray[Any]
    """The pulls that regret is computed from: `all_pulls`, or those of each segment and arm."""
    streams: npt.NDArray[np.uint64]
    """One stream for each purpose, one row for each of `rng.PURPOSES`."""
    undelivered: Undelivered
    """Ratings on their way to the principal; see `delivery`."""
    rated: Floats
    """The number of pulls whose rating comes, and the sum of their rewards minus true means."""
    paid: Floats
    """The compensation, the number of compensated pulls and the total drift. They are in memory
    because local variables would be updated in every round, without a branch."""
    trace: Floats
    """One row for each round of a traced replication; empty otherwise."""


@inline_always
def replicate(
    make_offer: Callable[..., tuple[int, int, float]],
    select: Callable[..., int],
    update: Callable[..., None],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    drift_function: Callable[..., float],
    apply_drift: Callable[..., float],
    sample: Callable[..., float],
    draw_reward: Callable[..., float],
    accept: Callable[..., bool],
    manipulate: Callable[..., float],
    responds: Callable[..., bool],
    count_rated: Callable[..., None],
    draw_delay: Callable[..., float],
    clear_undelivered: Callable[..., None],
    receive: Callable[..., int],
    deliver: Callable[..., tuple[int, float, float]],
    draw_coin: Callable[..., tuple[int, float]],
    observe_display: Callable[..., None],
    observe: Callable[..., None],
    params: Parameters,
    instance: BanditInstance,
    settings: RunSettings,
    seed: int,
    first: int,
    checkpoints: Counts,
    workspace: KernelWorkspace,
    stop: Counts,
    metrics: Floats,
    pulls: Counts,
) -> tuple[int, int, int, int]:
    """Run replications first, first + 1, … and fill one row of `metrics` and `pulls` for each.

    A round begins with the ratings that arrive in it. Then the principal decides, the player rates,
    and the rating is delivered: at once or later, see `delivery`.

    Features that a study does not use, such as delays, probes and traces, are functions that do
    nothing, so that the code of the feature is not even compiled.

    Returns a status code and, unless it is `DONE`, the replication, round and arm where it ended.
    """
    # Numba can't inline Python calls with more than 30 arguments.
    ledger, memory, displayed = workspace.ledger, workspace.memory, workspace.displayed
    effective_pulls, all_pulls = workspace.effective_pulls, workspace.all_pulls
    undelivered, rated, trace = workspace.undelivered, workspace.rated, workspace.trace
    paid = workspace.paid
    drift_memory, adversary_memory = workspace.drift_memory, workspace.adversary_memory
    streams = workspace.streams
    arms_memory = workspace.arms_memory
    policy_stream, reward_stream = streams[POLICY], streams[REWARD]
    player_stream, probe_stream = streams[PLAYER], streams[PROBE]
    arms = ledger.pulls.shape[0]
    lowest, highest = settings.lowest, settings.highest
    # Smaller feedback is neither projected nor beyond the limit. In worlds with projection that
    # holds for none, because a branch that depends on each feedback would often be mispredicted.
    unchanged = instance.limit if lowest == -np.inf and highest == np.inf else 0.0
    for row in range(metrics.shape[0]):
        replication = first + row
        for purpose in range(streams.shape[0]):
            seed_stream(streams[purpose], seed, replication, purpose)
        clear(ledger, settings.prior)
        memory[:] = 0.0
        drift_memory[:] = 0.0
        adversary_memory[:] = 0.0
        arms_memory[:] = 0.0
        clear_undelivered(undelivered, all_pulls, effective_pulls)
        rated[:] = 0.0
        paid[:] = 0.0
        ratings = 0
        # The literal 1 has a type of its own in Numba, which would compile the loop twice.
        t = int(np.int64(1))
        for c in range(checkpoints.shape[0]):
            until = checkpoints[c]
            while t <= until:
                if stop[0] != 0:
                    return STOPPED, replication, t, 0
                pause = min(until, t + STOP_EVERY)
                while t <= pause:
                    ratings += receive(
                        update, t, ledger, memory, params.policy, effective_pulls, undelivered
                    )
                    arm, greedy, payment = make_offer(
                        select, display, payment_rule, t, ledger, effective_pulls, displayed,
                        memory, params.policy, policy_stream, settings.each_arm_once,
                    )  # fmt: skip
                    observe_display(trace, t, displayed)
                    # Repeated here so that the compiler knows that no index is negative.
                    if arm < 0 or arm >= arms:
                        return BAD_ARM, replication, t, arm
                    selected = arm
                    coin, amount = draw_coin(params.probe, probe_stream)
                    if coin == HEADS:
                        payment += amount
                    if arm != greedy and not accept(payment, params.acceptance, player_stream):
                        arm, payment = greedy, 0.0  # a player who declines picks the greedy arm
                    reward = draw_reward(
                        sample, t, arm, params.arms, arms_memory, streams[ARMS], reward_stream
                    )
                    # In two branches: the compiler then omits an unpaid round's drift if it is 0.
                    if payment > 0.0:
                        drift = apply_drift(
                            drift_function, reward, payment, t, arm, params.drift, drift_memory,
                            player_stream,
                        )  # fmt: skip
                        paid[0] += payment
                        paid[1] += 1.0
                        paid[2] += drift
                    else:
                        drift = apply_drift(
                            drift_function, reward, payment, t, arm, params.drift, drift_memory,
                            player_stream,
                        )  # fmt: skip
                        if drift != 0.0:
                            paid[2] += drift
                    feedback = manipulate(
                        reward + drift, t, arm, ledger, params.adversary, adversary_memory
                    )
                    if not likely(abs(feedback) < unchanged):
                        # Comparisons with nan are false, so that it stays nan.
                        feedback = lowest if feedback < lowest else feedback
                        feedback = highest if feedback > highest else feedback
                        if not likely(abs(feedback) < instance.limit):
                            return NOT_FINITE, replication, t, arm
                    recorded, feedback, visible_from = deliver(
                        update, draw_delay, t, arm, payment, feedback,
                        responds(reward, payment, params.response, player_stream), ledger, memory,
                        params.policy, params.delivery, undelivered, all_pulls, player_stream,
                    )  # fmt: skip
                    ratings += recorded
                    count_rated(rated, instance, arms_memory, arm, reward, feedback)
                    observe(
                        trace, t, arm, greedy, payment, drift, feedback, selected, coin, amount,
                        visible_from,
                    )  # fmt: skip
                    t += 1
            write_metrics(
                metrics[row, c], instance, workspace.counted_pulls, ledger.means,
                paid[0], paid[1], paid[2],
            )  # fmt: skip
            if settings.regret_by_round:
                write_regret_by_round(metrics[row, c], arms_memory, ledger.means)
            if metrics.shape[2] > len(METRICS):
                write_response_metrics(metrics[row, c], rated, until)
        for i in range(arms):
            pulls[row, i] = all_pulls[i]
        if not is_consistent(ledger, settings.prior, ratings):
            return TAMPERED, replication, t - 1, 0
    return DONE, 0, 0, 0


TRACE_COLUMNS = 9
"""The columns of a trace before those of the displayed values."""


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
def write_response_metrics(metrics: Floats, rated: Floats, pulls: int) -> None:
    """Write the metrics of response, in the order of `RESPONSE_METRICS`.

    `share_rated`: the share of pulls so far whose rating comes, now or later. `selection_bias`: the
    mean, over the ratings that come, of the reward minus the true mean of its arm; so arms count by
    their ratings. It is the part of the error of displayed averages that is due to who rates:
    rewards contain no drift, and its expectation is 0 if the response does not depend on them.
    nan before the first rating.
    """
    metrics[5] = rated[0] / pulls
    metrics[6] = rated[1] / rated[0] if rated[0] > 0.0 else np.nan


@compiled
def ignore_rated(
    rated: Floats,
    instance: BanditInstance,
    arms_memory: Floats,
    arm: int,
    reward: float,
    feedback: float,
) -> None:
    """Count nothing: for studies in which all players rate."""


@compiled
def count_if_rated(
    rated: Floats,
    instance: BanditInstance,
    arms_memory: Floats,
    arm: int,
    reward: float,
    feedback: float,
) -> None:
    """Count a pull whose rating comes; `feedback` is nan if it never does."""
    if not np.isnan(feedback):
        mean = instance.best_mean - instance.gaps[arm]
        if arms_memory.shape[0] > 0:
            mean = mean_of_round(arms_memory, arm)
        rated[0] += 1.0
        rated[1] += reward - mean


@compiled
def no_coin(params: tuple[()], stream: Stream) -> tuple[int, float]:
    """Toss no coin: for studies without a probe."""
    return NO_PROBE, 0.0


@compiled
def probe_coin(params: tuple[float, Floats], stream: Stream) -> tuple[int, float]:
    """Draw whether a round is probed, the coin, and the amount at stake."""
    return draw_probe(params[0], params[1], stream)


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
