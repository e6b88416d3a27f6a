"""What the principal offers so that a myopic player takes its arm."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.rng import Stream


@compiled
def required_payment(displayed: npt.NDArray[np.float64], greedy: int, arm: int) -> float:
    """The paper's payment (line 8 of Algorithm 1): what the player forgoes by its own lights.

    The text prints the total C(T) with its sign flipped; the payment is never negative.
    """
    return float(displayed[greedy] - displayed[arm])


@compiled
def pay_required(
    t: int,
    arm: int,
    greedy: int,
    forgone: float,
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    stream: Stream,
) -> float:
    """Pay what the player forgoes, and no more (the paper)."""
    return forgone
