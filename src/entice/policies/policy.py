"""What a policy is: a frozen spec that turns into two functions, parameters and memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.labels import Named
from entice.model.display import display_averages
from entice.model.payment import pay_required

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_MANY = 32  # below, vectors of counts wait longer for the last one written than they save


@compiled
def no_update(
    memory: Floats, params: tuple[float, ...], arm: int, payment: float, feedback: float
) -> None:
    """Remember nothing: for policies that decide from counts and averages alone."""


class PolicyKernel(NamedTuple):
    """A policy as the engine and a live principal run it."""

    select: Callable[..., int]
    """`select(t, pulls, means, memory, params, rng) -> arm`, called once a round."""
    update: Callable[..., None] = no_update
    """`update(memory, params, arm, payment, feedback)`, called when a rating arrives."""
    params: tuple[float, ...] = ()
    """Handed to both functions."""
    memory: int = 0
    """How many numbers the policy keeps for itself; they are 0.0 before the first round."""
    display: Callable[..., int] = display_averages
    """`display(ledger, memory, params, shown) -> greedy`: fill in what players see."""
    payment_rule: Callable[..., float] = pay_required
    """`payment_rule(t, arm, greedy, forgone, memory, params, rng) -> payment`."""
    reads_counts: bool = True
    """Whether `select` looks at `pulls` at all."""
    counts_in_flight: bool = False
    """Whether `pulls` counts the ratings too that are still expected of pulls in flight."""

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """What is compiled into the kernel, in the kernel's order."""
        return self.select, self.update, self.display, self.payment_rule


class PolicySpec(Named, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all policies; `name` is their label in tables and figures, if there is one."""

    unit_ratings: ClassVar[bool] = False
    """Whether the policy is made for ratings between 0 and 1."""


@compiled
def keep_inverse_roots(roots: Floats, taken: Floats, pulls: Counts, last: int, more: int) -> None:
    """Keep 1/sqrt(n_i + more) in `roots` without taking roots that are known already.

    `taken` holds, as whole numbers, the n_i + 1 for which each root was taken (0: none yet), and
    of fractions the n_i themselves: expected ratings may be too few to change a sum with 1. Counts
    are compared rather than tracked through `update`: a caller may have rated any arms since the
    last call, in any order, and may pass counts that include the expected ratings of pulls in
    flight, which are fractions. `last` is a guess at the arm whose count has changed. If it is
    right, many arms are passed over at once.
    """
    # Known at compile time: an array of whole numbers makes 0 of 0.5.
    fractional = pulls.dtype.type(0.5) > 0
    if fractional:
        for i in range(pulls.shape[0]):
            if taken[i] != pulls[i] or roots[i] == 0.0:
                taken[i] = pulls[i]
                roots[i] = 1.0 / math.sqrt(pulls[i] + more)
        return
    arms, known = pulls.shape[0], taken.view(np.int64)
    if arms > _MANY:
        _take(roots, known, pulls, last, more)
        different = 0
        for i in range(arms):
            different |= known[i] ^ (np.int64(pulls[i]) + 1)
        if different == 0:
            return
    for i in range(arms):
        if known[i] != pulls[i] + 1:
            _take(roots, known, pulls, i, more)


@compiled
def _take(roots: Floats, known: Counts, pulls: Counts, arm: int, more: int) -> None:
    at = np.uint64(arm)
    known[at] = pulls[at] + 1
    roots[at] = 1.0 / math.sqrt(pulls[at] + more)
