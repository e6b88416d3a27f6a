"""Replay of a run in plain Python, to find the line at which a user's function failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from entice.engine import kernel
from entice.jit.interpret import Fault, find_fault, interpret, is_user_function, takes_functions

MAX_ROUNDS = 100_000
"""Maximum number of rounds that are replayed, which takes some seconds."""


def find_fault_in_run(
    parts: Sequence[Callable[..., Any]], arguments: Sequence[Any], horizon: int
) -> Fault | None:
    """Run one replication of the generic kernel without compiling it, until a function fails.

    Parameters
    ----------
    parts
        The functions that the kernel takes.
    arguments
        The kernel's other arguments, in its order. Checkpoints, metrics and pulls are
        replaced.
    horizon
        Rounds; no more than `MAX_ROUNDS` are replayed.
    """
    if not any(map(is_user_function, parts)):
        return None
    plain = [
        interpret(part) if is_user_function(part) or takes_functions(part) else part
        for part in parts
    ]
    *world, seed, first, _, workspace, stop, metrics, pulls = arguments
    rounds = np.array([min(horizon, MAX_ROUNDS)])
    filled = (
        rounds, workspace, stop, np.empty((1, 1, metrics.shape[2])),
        np.empty((1, pulls.shape[1]), np.int64),
    )  # fmt: skip
    return find_fault(interpret(kernel.replicate), *plain, *world, seed, first, *filled)
