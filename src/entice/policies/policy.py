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
def keep_inverse_roots(roots: Floats, memory: Floats, pulls: Counts, t: int, more: int) -> None:
    """Keep 1/sqrt(n_i + more) in `roots` without taking roots that are known already.

    In round t only the count of the arm selected in round t - 1 is new, which the policy has put
    into memory[0]; memory[1] tells whether that was the round before. A caller for whom other
    counts have changed as well clears memory[1]: then all roots are taken anew.
    """
    if memory[1] == t:
        last = np.uint64(memory[0])
        roots[last] = 1.0 / math.sqrt(pulls[last] + more)
    else:
        for i in range(pulls.shape[0]):
            roots[i] = 1.0 / math.sqrt(pulls[i] + more)
    memory[1] = t + 1
