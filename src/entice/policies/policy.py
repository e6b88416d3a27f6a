"""What a policy is: a frozen spec that turns into two functions, parameters and memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from entice.engine.jit import compiled

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@compiled
def no_update(
    memory: Floats, params: tuple[float, ...], arm: int, payment: float, feedback: float
) -> None:
    """Remember nothing: for policies that decide from counts and averages alone."""


class Rules(NamedTuple):
    """A policy as the engine and a live principal run it."""

    select: Callable[..., int]
    """`select(t, pulls, means, memory, params, rng) -> arm`, called once a round."""
    update: Callable[..., None] = no_update
    """`update(memory, params, arm, payment, feedback)`, called when a rating arrives."""
    params: tuple[float, ...] = ()
    """Handed to both functions."""
    memory: int = 0
    """How many numbers the policy keeps for itself; they are 0.0 before the first round."""


class PolicySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all policies."""


@compiled
def keep_inverse_roots(roots: Floats, taken: Floats, pulls: Counts, more: int) -> None:
    """Keep 1/sqrt(n_i + more) in `roots` without taking roots that are known already.

    `taken` holds, as whole numbers, the n_i + 1 for which each root was taken (0: none yet). Counts
    are compared rather than tracked through `update`: a caller may have rated any arms since the
    last call, in any order, and may pass counts that include pulls in flight.
    """
    known = taken.view(np.int64)
    for i in range(pulls.shape[0]):
        if known[i] != pulls[i] + 1:
            known[i] = pulls[i] + 1
            roots[i] = 1.0 / math.sqrt(pulls[i] + more)
