"""The step's halves as a service calls them: one compiled call for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from entice.engine.jit import compiled_apart
from entice.principal.ledger import Ledger, restate
from entice.principal.probe import throw
from entice.principal.step import offer_within
from entice.rng import POLICY, PROBE, Stream, start

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@compiled_apart
def decide(
    select: Callable[..., int],
    display: Callable[..., int],
    price: Callable[..., float],
    seed: int,
    t: int,
    ledger: Ledger,
    counted: Counts,
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
    counts: Counts,
    stream: Stream,
) -> tuple[int, int, float, int, int, int, float]:
    """Make decision t of a campaign, whose random numbers follow from its seed and t alone.

    Returns what `offer_within` does, and how the probe's coin falls, whether it counts or not.
    """
    start(stream, seed, t, POLICY)
    arm, own, payment, limited, first = offer_within(
        select, display, price, t, ledger, counted, memory, params, stream, most,
        eligible, displayed, shown, permitted, means, counts,
    )  # fmt: skip
    start(stream, seed, t, PROBE)
    coin, amount = throw(share, amounts, stream)
    return arm, own, payment, limited, first, coin, amount


@compiled_apart
def enter(
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
    restate(ledger, arm, pulls, total, mean)
    if new:
        update(memory, params, arm, payment, feedback)


@compiled_apart
def show(
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
