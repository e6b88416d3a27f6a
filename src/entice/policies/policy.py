"""The interface of a policy: a frozen spec that yields functions, parameters and memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.errors import InputError
from entice.jit.decorators import compiled, compiled_noinline
from entice.labels import Named
from entice.model.display import display_averages
from entice.model.learned_price import LearnedPrice
from entice.model.payment import pay_required

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_MANY = 32  # with fewer arms, a vectorised comparison stalls on the last write and is slower


@compiled
def no_update(
    memory: Floats, params: tuple[float, ...], arm: int, payment: float, feedback: float
) -> None:
    """Store nothing: for policies that use counts and averages only."""


class PolicyKernel(NamedTuple):
    """A policy in the form that the engine and a live principal run."""

    select: Callable[..., int]
    """`select(t, pulls, means, memory, params, rng) -> arm`, called once a round."""
    update: Callable[..., None] = no_update
    """`update(memory, params, arm, payment, feedback)`, called when a rating arrives."""
    params: tuple[float, ...] = ()
    """Parameters passed to both functions."""
    memory: int = 0
    """The length of the policy's memory; all numbers are 0.0 before the first round."""
    display: Callable[..., int] = display_averages
    """`display(ledger, memory, params, displayed) -> greedy`: fill in the values players see."""
    payment_rule: Callable[..., float] = pay_required
    """`payment_rule(t, arm, greedy, required, memory, params, rng) -> payment`."""
    reads_counts: bool = True
    """Whether `select` reads `pulls`."""
    counts_in_flight: bool = False
    """Whether `pulls` includes the ratings still expected from pulls in flight."""
    relearns: bool = True
    """Whether the memory can be computed again from ratings and their payments, after a rating has
    been changed or removed. Plans for the next rounds may be lost."""
    limit_slot: int = -1
    """The index in `memory` at which `select` finds the most that this round's offer may pay, or
    0.0 if there is no limit. −1: `select` does not need to know, because the policy pays exactly
    what an arm requires, and arms that require more are not permitted anyway."""
    remove: Callable[..., None] | None = None
    """`remove(memory, params, arm)`, called in plain Python when a rating has been removed, if the
    memory has to know. It may then be computed again from the other ratings, but need not be."""

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions compiled into the kernel, in the kernel's order."""
        return self.select, self.update, self.display, self.payment_rule


class PolicySpec(Named, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all policies; `name` is an optional label for tables and figures."""

    unit_ratings: ClassVar[bool] = False
    """Whether the policy is designed for ratings between 0 and 1."""
    equal_pay: ClassVar[bool] = False
    """Whether the policy compares only ratings under equal payments, which a probe would break."""


def check_probe(where: str, probe: object, policy: PolicySpec) -> None:
    """Reject a probe together with a policy that depends on equal payments."""
    if probe is not None and policy.equal_pay:
        rule = f"can't be used with {policy.label}, which compares ratings under equal payments"
        todo = "A probe pays some players more. Remove the probe, or choose another policy."
        raise InputError(where, rule, given=probe, todo=todo)


def check_price(where: str, price: object, policy: PolicySpec) -> None:
    """Reject what is not a learned price, and a learned price for a policy with equal payments."""
    if price is None:
        return
    if not isinstance(price, LearnedPrice):
        raise InputError(where, "must be a LearnedPrice", given=price)
    if policy.equal_pay:
        rule = f"can't be used with {policy.label}, which pays the same for all items it compares"
        todo = "A learned price changes from offer to offer. Leave it out, or use another policy."
        raise InputError(where, rule, given=price, todo=todo)


@compiled
def has_fractions(pulls: Counts) -> bool:
    """Return whether counts include expected ratings, which are fractions.

    Known at compile time: 0.5 converted to an integer type is 0.
    """
    return bool(pulls.dtype.type(0.5) > 0)


@compiled
def update_inverse_roots(
    roots: Floats, taken: Floats, pulls: Counts, last: int, more: int
) -> float:
    """Update `roots` to 1/sqrt(n_i + more), recomputing only the roots whose count has changed.

    `taken` stores the count n_i from which each root was computed; a root of 0 is not computed yet.
    Returns the sum of all counts.

    Counts are compared rather than tracked through `update`: since the last call, any arms may have
    been rated, in any order, and counts may include the expected ratings of pulls in flight, which
    are fractions. `last` is a guess at the arm whose count has changed. If it is right, one pass
    over all arms suffices.
    """
    arms, total, different = pulls.shape[0], 0.0, 0
    if arms > _MANY:
        at = np.uint64(last)
        taken[at] = pulls[at]
        roots[at] = inverse_root(pulls[at] + more)
        for i in range(arms):
            total += pulls[i]
            different += taken[i] != pulls[i] or roots[i] == 0.0
        if different == 0:
            return total
        total = 0.0
    for i in range(arms):
        total += pulls[i]
        if taken[i] != pulls[i] or roots[i] == 0.0:
            taken[i] = pulls[i]
            roots[i] = inverse_root(pulls[i] + more)
    return total


@compiled_noinline
def inverse_root(count: float) -> float:
    """Return 1/sqrt(count).

    A call, because LLVM would otherwise compute the roots of all arms to save a branch.
    """
    return 1.0 / math.sqrt(count)
