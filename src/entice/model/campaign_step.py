"""The step of a campaign, a compiled call for each half, as service and planner make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled_noinline
from entice.model.in_flight import (
    InFlight,
    add_pull,
    count_all_in_flight,
    count_expected,
    mark_awaited_arms,
    remove_pull,
    update_ages,
)
from entice.model.ledger import Ledger, set_arm_ratings
from entice.model.probe import draw_probe
from entice.model.step import offer_within
from entice.rng import POLICY, PROBE, Stream, seed_stream

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

EXPECTED_RATINGS = 2
"""The version of the rules from which on pulls in flight count as expected ratings."""


@compiled_noinline
def decide(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    seed: int,
    t: int,
    at: int,
    rules: int,
    ledger: Ledger,
    flight: InFlight,
    under_way: Counts,
    memory: Floats,
    params: tuple[Any, ...],
    most: float,
    share: float,
    amounts: Floats,
    eligible: Bools,
    displayed: Floats,
    shown: Floats,
    permitted: Bools,
    means: Floats,
    counts: Floats,
    counted: Floats,
    awaited: Bools,
    stream: Stream,
) -> tuple[int, int, float, int, int, int, float]:
    """Make decision t of a campaign, whose random numbers follow from its seed and t alone.

    `at` is the time of the decision, which gives the ages of the pulls in flight. `rules` is the
    version of the rules that the campaign runs under: before `EXPECTED_RATINGS` each of the pulls
    `under_way` counted in full. `share` and `amounts` are the probe's.

    Returns what `offer_within` does, and the probe's coin and amount, whether they count or not.
    """
    if rules >= EXPECTED_RATINGS:
        update_ages(flight, at)
        count_expected(flight, ledger.pulls, counted)
        mark_awaited_arms(ledger.pulls, counted, awaited)
    else:
        count_all_in_flight(t, ledger.pulls, under_way, counted, awaited)
    seed_stream(stream, seed, t, POLICY)
    arm, own, payment, limited, first = offer_within(
        select, display, payment_rule, t, ledger, counted, awaited, memory, params, stream, most,
        eligible, displayed, shown, permitted, means, counts,
    )  # fmt: skip
    seed_stream(stream, seed, t, PROBE)
    coin, amount = draw_probe(share, amounts, stream)
    return arm, own, payment, limited, first, coin, amount


@compiled_noinline
def begin_pull(flight: InFlight, n: int, at: int, arm: int) -> None:
    """Enter offer n, made at some time, among the pulls in flight."""
    update_ages(flight, at)
    add_pull(flight, n, at, arm)


@compiled_noinline
def end_pull(flight: InFlight, n: int, at: int, arm: int, outcome: int) -> None:
    """Take offer n out of the pulls in flight: see `remove_pull`."""
    update_ages(flight, at)
    remove_pull(flight, n, arm, outcome)


@compiled_noinline
def record_rating(
    update: Callable[..., None],
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    arm: int,
    pulls: int,
    total: float,
    mean: float,
    new: bool,
    payment: float,
    feedback: float,
) -> None:
    """Bring an arm's average up to its ratings and, if one is new, let the policy learn from it."""
    set_arm_ratings(ledger, arm, pulls, total, mean)
    if new:
        update(memory, params, arm, payment, feedback)


@compiled_noinline
def displayed_averages(
    display: Callable[..., int],
    ledger: Ledger,
    memory: Floats,
    params: tuple[Any, ...],
    shown: Floats,
) -> int:
    """Fill in what players see, and return the arm that they would pick."""
    for i in range(shown.shape[0]):
        shown[i] = ledger.means[i]
    return display(ledger, memory, params, shown)
