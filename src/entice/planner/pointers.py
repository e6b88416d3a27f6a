"""The functions of a plan's visitors as addresses, so that one compiled loop simulates all plans.

The most common functions have no address: the loop runs them in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from entice.jit.address import IN_PLACE, AddressedFunction, Unpack, pack_params
from entice.jit.decorators import compiled_internal, inline_always
from entice.policies.pointers import Functions
from entice.rng import Stream
from entice.worlds.delays import DelaySampler, constant_delay
from entice.worlds.players import AcceptanceKernel, LogisticAcceptance
from entice.worlds.response import EVERYONE, ResponseKernel

Floats = npt.NDArray[np.float64]

_logistic, _certain = LogisticAcceptance(0.0, 1.0).kernel().accept, EVERYONE.probability


class FunctionPointer(NamedTuple):
    """A function and its parameters. All functions have the same type."""

    address: int = IN_PLACE
    params: Floats = np.zeros(2)


@inline_always
def _accept(
    accept: Callable[..., bool], unpack: Unpack, payment: float, params: Floats, rng: Stream
) -> bool:
    return bool(accept(payment, unpack(params), rng))


@inline_always
def _delay(draw: Callable[..., float], unpack: Unpack, params: Floats, rng: Stream) -> float:
    return float(draw(unpack(params), rng))


@inline_always
def _response(
    probability: Callable[..., float], unpack: Unpack,
    reward: float, payment: float, params: Floats,
) -> float:  # fmt: skip
    return float(probability(reward, payment, unpack(params)))


_FLOATS, _STREAM = np.zeros(1), np.zeros(4, np.uint64)
_ACCEPT = AddressedFunction(_accept, types.boolean, 0.0, _FLOATS, _STREAM)
_DELAY = AddressedFunction(_delay, types.float64, _FLOATS, _STREAM)
_RESPONSE = AddressedFunction(_response, types.float64, 0.0, 0.0, _FLOATS)
_accept_at, _delay_at, _response_at = _ACCEPT.call, _DELAY.call, _RESPONSE.call


def visitor_pointers(
    acceptance: AcceptanceKernel, delays: DelaySampler, response: ResponseKernel
) -> tuple[Functions, tuple[FunctionPointer, ...]]:
    """Return the functions with which the loop calls any visitors, and what to pass to each."""
    return (_call_accept, _call_delay, _call_response), (
        _pointer(_ACCEPT, _logistic, acceptance.accept, acceptance.params),
        _pointer(_DELAY, constant_delay, delays.draw, delays.params),
        _pointer(_RESPONSE, _certain, response.probability, response.params),
    )


def _pointer(
    kind: AddressedFunction, in_place: Any, function: Any, given: tuple[Any, ...]
) -> FunctionPointer:
    params, unpack = pack_params(given)
    address = IN_PLACE if function is in_place else kind.address(function, unpack)
    return FunctionPointer(address, params)


# Each kind of function: how it is called at its address, compiled for it, and called by the loop.


@compiled_internal
def _call_accept(payment: float, rule: FunctionPointer, rng: Stream) -> bool:
    if rule.address == IN_PLACE:
        return bool(_logistic(payment, (rule.params[0], rule.params[1]), rng))
    return bool(_accept_at(rule.address, (payment, rule.params, rng)))


@compiled_internal
def _call_delay(delay: FunctionPointer, rng: Stream) -> float:
    if delay.address == IN_PLACE:
        return constant_delay((delay.params[0],), rng)
    return float(_delay_at(delay.address, (delay.params, rng)))


@compiled_internal
def _call_response(reward: float, payment: float, response: FunctionPointer) -> float:
    if response.address == IN_PLACE:
        return float(_certain(reward, payment, ()))
    return float(_response_at(response.address, (reward, payment, response.params)))
