"""A run once more, in plain Python, to find the line at which a user's function failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from entice.engine import kernel
from entice.jit.interpret import Fault, find_fault, interpreted, is_user_function, takes_functions

MOST_ROUNDS = 100_000
"""That are played again: some seconds."""


def find_fault_in_run(
    parts: Sequence[Callable[..., Any]], arguments: Sequence[Any], horizon: int
) -> Fault | None:
    """Play one replication by the generic kernel without compiling it, until a function fails.

    Parameters
    ----------
    parts
        The functions that the kernel takes.
    arguments
        Its other arguments, but for what is to be filled: checkpoints, metrics and pulls are made
        here. In the kernel's order, with the number of the replication among them.
    horizon
        Rounds; no more than `MOST_ROUNDS` are played.
    """
    if not any(map(is_user_function, parts)):
        return None
    plain = [
        interpreted(part) if is_user_function(part) or takes_functions(part) else part
        for part in parts
    ]
    *world, seed, first, _, workspace, stop, _, _, pulls = arguments
    rounds = np.array([min(horizon, MOST_ROUNDS)])
    nothing = np.empty((0, kernel.TRACE_COLUMNS))
    metrics = np.empty((1, 1, len(kernel.METRICS)))
    filled = rounds, workspace, stop, nothing, metrics, np.empty((1, pulls.shape[1]), np.int64)
    return find_fault(interpreted(kernel.replicate), *plain, *world, seed, first, *filled)
