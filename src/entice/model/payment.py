"""The payment of Algorithm 1: the compensation that a myopic player requires to try an arm."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.rng import Stream


@compiled
def required_payment(displayed: npt.NDArray[np.float64], greedy: int, arm: int) -> float:
    """Return the payment of Algorithm 1 (line 8): the displayed value that the player gives up.

    The paper prints the total C(T) with its sign flipped; the payment is never negative.
    """
    return float(displayed[greedy] - displayed[arm])


@compiled
def pay_required(
    t: int,
    arm: int,
    greedy: int,
    required: float,
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    stream: Stream,
) -> float:
    """Pay exactly the required payment, as in the paper: the default `payment_rule`."""
    return required
