"""The averages that players see, and the arm that they would pick without a payment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.model.ledger import Ledger


@compiled
def display_averages(
    ledger: Ledger,
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    displayed: npt.NDArray[np.float64],
) -> int:
    """Display the averages unchanged (as in the paper), and return the arm with the best one.

    `displayed` is the ledger's own array of averages, so nothing is copied, and the greedy arm is
    the one that the ledger stores.
    """
    return int(ledger.greedy[0])
