"""The functions of a policy as addresses, so that one compiled function serves all policies.

The most common functions have no address: the callers run them in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from entice.jit.address import IN_PLACE, AddressedFunction, Unpack, pack_params, whole_number
from entice.jit.decorators import compiled_internal, inline_always
from entice.model.display import display_averages
from entice.model.ledger import Ledger, new_ledger
from entice.model.payment import pay_required
from entice.model.step import PLAYERS_CHOICE
from entice.policies import greedy
from entice.policies.policy import PolicyKernel, no_update
from entice.rng import Stream

Floats = npt.NDArray[np.float64]
Functions = tuple[Callable[..., Any], ...]


class PolicyPointer(NamedTuple):
    """The functions of a `PolicyKernel` and their parameters. All policies have the same type."""

    select: int
    update: int
    display: int
    payment_rule: int
    params: Floats


@inline_always
def _select(
    select: Callable[..., int], unpack: Unpack,
    t: int, pulls: Floats, means: Floats, memory: Floats, params: Floats, rng: Stream,
) -> int:  # fmt: skip
    arm: int = whole_number(select(t, pulls, means, memory, unpack(params), rng))
    return arm


@inline_always
def _update(
    update: Callable[..., None], unpack: Unpack,
    memory: Floats, params: Floats, arm: int, payment: float, feedback: float,
) -> None:  # fmt: skip
    update(memory, unpack(params), arm, payment, feedback)


@inline_always
def _display(
    display: Callable[..., int], unpack: Unpack,
    ledger: Ledger, memory: Floats, params: Floats, displayed: Floats,
) -> int:  # fmt: skip
    arm: int = whole_number(display(ledger, memory, unpack(params), displayed))
    return arm


@inline_always
def _payment_rule(
    payment_rule: Callable[..., float], unpack: Unpack,
    t: int, arm: int, greedy: int, required: float, memory: Floats, params: Floats, rng: Stream,
) -> float:  # fmt: skip
    return float(payment_rule(t, arm, greedy, required, memory, unpack(params), rng))


_FLOATS, _STREAM, _LEDGER = np.zeros(1), np.zeros(4, np.uint64), new_ledger(1, 0.0)
_SELECT = AddressedFunction(_select, types.int64, 0, _FLOATS, _FLOATS, _FLOATS, _FLOATS, _STREAM)
_UPDATE = AddressedFunction(_update, types.none, _FLOATS, _FLOATS, 0, 0.0, 0.0)
_DISPLAY = AddressedFunction(_display, types.int64, _LEDGER, _FLOATS, _FLOATS, _FLOATS)
_PAYMENT_RULE = AddressedFunction(
    _payment_rule, types.float64, 0, 0, 0, 0.0, _FLOATS, _FLOATS, _STREAM
)
_POLICY = (
    (_SELECT, greedy.select),
    (_UPDATE, no_update),
    (_DISPLAY, display_averages),
    (_PAYMENT_RULE, pay_required),
)
_select_at, _update_at, _display_at = _SELECT.call, _UPDATE.call, _DISPLAY.call
_payment_rule_at = _PAYMENT_RULE.call


def policy_pointer(rules: PolicyKernel) -> tuple[Functions, PolicyPointer]:
    """Return the functions that call any policy, and the policy to pass to them as its parameters.

    The counts that the policy sees must be floats.
    """
    params, unpack = pack_params(rules.params)
    select, update, display, payment_rule = (
        IN_PLACE if function is in_place else kind.address(function, unpack)
        for function, (kind, in_place) in zip(rules.functions, _POLICY, strict=True)
    )
    return CALLERS, PolicyPointer(select, update, display, payment_rule, params)


@compiled_internal
def _call_select(
    t: int, pulls: Floats, means: Floats, memory: Floats, policy: PolicyPointer, rng: Stream
) -> int:
    if policy.select == IN_PLACE:
        return PLAYERS_CHOICE  # as `greedy.select` does
    return int(_select_at(policy.select, (t, pulls, means, memory, policy.params, rng)))


@compiled_internal
def _call_update(
    memory: Floats, policy: PolicyPointer, arm: int, payment: float, feedback: float
) -> None:
    if policy.update != IN_PLACE:
        _update_at(policy.update, (memory, policy.params, arm, payment, feedback))


@compiled_internal
def _call_display(ledger: Ledger, memory: Floats, policy: PolicyPointer, displayed: Floats) -> int:
    if policy.display == IN_PLACE:
        return display_averages(ledger, memory, (), displayed)
    return int(_display_at(policy.display, (ledger, memory, policy.params, displayed)))


@compiled_internal
def _call_payment_rule(
    t: int, arm: int, greedy: int, required: float, memory: Floats, policy: PolicyPointer,
    rng: Stream,
) -> float:  # fmt: skip
    if policy.payment_rule == IN_PLACE:
        return pay_required(t, arm, greedy, required, memory, (), rng)
    return float(
        _payment_rule_at(
            policy.payment_rule, (t, arm, greedy, required, memory, policy.params, rng)
        )
    )


CALLERS: Functions = (_call_select, _call_update, _call_display, _call_payment_rule)
"""Called in place of the functions of a `PolicyKernel`, in their order."""
