"""What players are shown, and so what they would pick by themselves."""

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
    shown: npt.NDArray[np.float64],
) -> int:
    """Show the averages as they are (the paper), and return the arm with the best of them.

    `shown` is the ledger's own array of averages: nothing is copied, and the ledger knows its
    greedy arm.
    """
    return int(ledger.greedy[0])
