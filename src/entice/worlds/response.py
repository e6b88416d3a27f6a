"""Response: the probability that a player rates, given the reward and the payment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from entice.checks import set_number
from entice.jit.decorators import compiled
from entice.rng import Stream, uniform


class ResponseKernel(NamedTuple):
    """A response in the form that the engine and the planner run."""

    responds: Callable[..., bool]
    """`responds(reward, payment, params, rng) -> bool`: the draw of the engine."""
    probability: Callable[..., float]
    """`probability(reward, payment, params) -> float`, for callers that hold a uniform draw."""
    params: tuple[Any, ...] = ()


class LogisticResponse(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="logistic"
):
    """A player rates with probability 1/(1 + exp(−(base + by_reward · r + by_payment · x))).

    r is the reward, that is, the player's experience before any drift. x is the payment that the
    player took: 0 if none was offered, or if the player declined. So the payment changes who rates
    only through `by_payment`, and how they rate only through the drift.

    With `by_reward` > 0, players with good experiences rate more often, and displayed averages are
    too high. With `by_payment` > 0 too, payment also brings ratings of worse experiences, so paid
    ratings are lower than unpaid ones even without drift.

    Parameters
    ----------
    base
        The log-odds of a rating at reward 0 without payment: 0 is one in two, −2 about one in
        eight.
    by_reward, by_payment
        The increase of the log-odds per unit of reward and per unit of payment.

    >>> import entice
    >>> entice.LogisticResponse(base=-1, by_reward=2, by_payment=3)
    LogisticResponse(base=-1.0, by_reward=2.0, by_payment=3.0)
    """

    base: float
    by_reward: float = 0.0
    by_payment: float = 0.0

    def __post_init__(self) -> None:
        for field in ("base", "by_reward", "by_payment"):
            set_number(self, field)

    def kernel(self) -> ResponseKernel:  # noqa: D102
        params = (self.base, self.by_reward, self.by_payment)
        return ResponseKernel(_responds, logistic_probability, params)


@compiled
def logistic_probability(
    reward: float, payment: float, params: tuple[float, float, float]
) -> float:
    """Return the probability of a rating under a `LogisticResponse`."""
    odds_against = -(params[0] + params[1] * reward + params[2] * payment)
    return 1.0 / (1.0 + math.exp(min(odds_against, 700.0)))  # exp(710) overflows


@compiled
def _responds(
    reward: float, payment: float, params: tuple[float, float, float], rng: Stream
) -> bool:
    return uniform(rng) < logistic_probability(reward, payment, params)


@compiled
def _always_responds(reward: float, payment: float, params: tuple[()], rng: Stream) -> bool:
    return True


@compiled
def _certain(reward: float, payment: float, params: tuple[()]) -> float:
    return 1.0


EVERYONE = ResponseKernel(_always_responds, _certain)
"""Every player rates, as in the paper. Draws no random numbers."""

Response = LogisticResponse
