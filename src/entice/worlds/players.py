"""Players: whether they accept an offer, whether they rate, and when their rating arrives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from entice.checks import set_number, set_numbers, set_whole
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.rng import Stream, uniform
from entice.worlds.delays import Delay, DelaySampler, DelaySpec, constant_delay
from entice.worlds.response import EVERYONE, Response, ResponseKernel

Floats = npt.NDArray[np.float64]

MAX_DELAY_ROUNDS = 10**7
"""Longest delay of a rating. A run keeps 56 bytes for each round that a rating may be pending."""


class AcceptanceKernel(NamedTuple):
    """An acceptance rule in the form that the engine runs."""

    accept: Callable[..., bool]
    """`accept(payment, params, rng) -> bool`, called if the offered arm is not the greedy one."""
    params: tuple[Any, ...] = ()


class AcceptanceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of the rules by which players accept or decline an offer."""


class AlwaysAccept(AcceptanceSpec, frozen=True, tag="always"):
    """Every player accepts (as in the paper).

    >>> import entice
    >>> entice.AlwaysAccept()
    AlwaysAccept()
    """

    def kernel(self) -> AcceptanceKernel:  # noqa: D102
        return AcceptanceKernel(_always)


@compiled
def _always(payment: float, params: tuple[()], rng: Stream) -> bool:
    return True


class LogisticAcceptance(AcceptanceSpec, frozen=True, tag="logistic"):
    """An offer of x is accepted with probability 1/(1 + exp(−(x − midpoint)/width)).

    >>> import entice
    >>> entice.LogisticAcceptance(midpoint=0.1, width=0.05)
    LogisticAcceptance(midpoint=0.1, width=0.05)
    """

    midpoint: float
    width: float

    def __post_init__(self) -> None:
        set_number(self, "midpoint")
        if set_number(self, "width") <= 0:
            rule = "must be greater than 0"
            raise InputError("LogisticAcceptance: width", rule, given=self.width)

    def kernel(self) -> AcceptanceKernel:  # noqa: D102
        return AcceptanceKernel(_logistic, (self.midpoint, self.width))


@compiled
def _logistic(payment: float, params: tuple[float, float], rng: Stream) -> bool:
    return uniform(rng) * (1.0 + math.exp(-(payment - params[0]) / params[1])) < 1.0


class TableAcceptance(AcceptanceSpec, frozen=True, tag="table"):
    """A tabulated rule: an offer of `payments[i]` is accepted with probability `shares[i]`.

    Shares are interpolated linearly, and constant below the first and beyond the last payment.

    >>> import entice
    >>> table = entice.TableAcceptance(payments=[0, 0.1, 0.2], shares=[0.34, 0.67, 0.77])
    """

    payments: Sequence[float]
    shares: Sequence[float]

    def __post_init__(self) -> None:
        payments = set_numbers(self, "payments", at_least=2)
        shares = set_numbers(self, "shares", at_least=2)
        if any(a >= b for a, b in itertools.pairwise(payments)):
            raise InputError("TableAcceptance: payments", "must increase", given=payments)
        if len(shares) != len(payments):
            rule = f"must have as many entries as payments, {len(payments)}"
            raise InputError("TableAcceptance: shares", rule, given=shares)
        if min(shares) < 0 or max(shares) > 1:
            raise InputError("TableAcceptance: shares", "must lie between 0 and 1", given=shares)

    def kernel(self) -> AcceptanceKernel:  # noqa: D102
        return AcceptanceKernel(_by_table, (np.array(self.payments), np.array(self.shares)))


@compiled
def _by_table(payment: float, params: tuple[Floats, Floats], rng: Stream) -> bool:
    payments, shares = params
    u = uniform(rng)
    if payment <= payments[0]:
        return bool(u < shares[0])
    for i in range(1, payments.shape[0]):
        if payment < payments[i]:
            part = (payment - payments[i - 1]) / (payments[i] - payments[i - 1])
            return bool(u < shares[i - 1] + part * (shares[i] - shares[i - 1]))
    return bool(u < shares[-1])


Acceptance = AlwaysAccept | LogisticAcceptance | TableAcceptance


class Players(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The behaviour of players: acceptance of offers, and response, delay and loss of ratings.

    Parameters
    ----------
    acceptance
        The rule by which players accept offers. A player who declines picks the arm with the best
        displayed average, unpaid.
    delay
        The delay of ratings in rounds: one number for all of them, or a distribution. A rating of
        round t with delay d is visible from round t + 1 + ⌊d⌋ on. Ratings that become visible in
        the same round are recorded in the order of their pulls.
    loss
        The probability that a rating never arrives.
    rating_window
        The number of rounds after which a missing rating is no longer awaited: a rating of round t
        that is not visible before round t + 1 + `rating_window` never arrives. Policies that count
        pulls in flight know the window. By default it is the length of the study.
    response
        The probability that a player rates, as a function of reward and payment. By default all
        players rate. A rating arrives if the player rates and it is not lost. A study with a
        response has two more metrics: see `Result`.

    >>> import entice
    >>> entice.Players(delay=500, loss=0.7)
    Players(acceptance=AlwaysAccept(), delay=500, loss=0.7, rating_window=None, response=None)
    >>> late = entice.Players(delay=entice.ExponentialDelay(mean=300), rating_window=3000)
    >>> the_satisfied = entice.Players(response=entice.LogisticResponse(base=-1, by_reward=2))
    """

    acceptance: Acceptance = AlwaysAccept()
    delay: int | Delay = 0
    loss: float = 0.0
    rating_window: int | None = None
    response: Response | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.acceptance, AcceptanceSpec):
            rule = "must be one of AlwaysAccept, LogisticAcceptance, TableAcceptance"
            raise InputError("Players: acceptance", rule, given=self.acceptance)
        if not isinstance(self.delay, DelaySpec):
            set_whole(self, "delay", at_least=0, at_most=MAX_DELAY_ROUNDS)
        if not 0 <= set_number(self, "loss") < 1:
            raise InputError("Players: loss", "must be at least 0 and less than 1", given=self.loss)
        if self.response is not None and not isinstance(self.response, Response):
            rule = "must be a LogisticResponse or None"
            raise InputError("Players: response", rule, given=self.response)
        if self.rating_window is None:
            return
        window = set_whole(self, "rating_window", at_least=1)
        if isinstance(self.delay, int) and window <= self.delay:
            rule = f"must be greater than the delay, {self.delay}, or no rating ever arrives"
            raise InputError("Players: rating_window", rule, given=window)

    @property
    def rates_immediately(self) -> bool:
        """Whether every rating is visible before the next decision."""
        return self.delay == 0 and self.loss == 0 and self.response is None

    def delay_sampler(self) -> DelaySampler:
        """Return the sampler of delays; a constant delay draws no random numbers."""
        if isinstance(self.delay, DelaySpec):
            return self.delay.sampler()
        return DelaySampler(constant_delay, (float(self.delay),), self.delay)

    def response_kernel(self) -> ResponseKernel:
        """Return the response in the form that the engine runs."""
        return EVERYONE if self.response is None else self.response.kernel()

    def longest_wait(self, horizon: int) -> int:
        """Return the maximum number of rounds for which a rating may be pending in a study."""
        rounds = horizon if self.rating_window is None else min(horizon, self.rating_window)
        longest = self.delay_sampler().longest
        return rounds if longest >= rounds else math.floor(longest) + 1
