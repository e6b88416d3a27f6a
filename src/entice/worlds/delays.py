"""Distributions of the delay between a pull and its rating.

A delay has the unit of its parameters: rounds in a study, days in a plan.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from entice.checks import set_number, set_numbers
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.rng import Stream, normal, uniform

Floats = npt.NDArray[np.float64]


class DelaySampler(NamedTuple):
    """A distribution of delays in the form that the engine runs."""

    draw: Callable[..., float]
    """`draw(params, rng) -> delay`, called for each rating that is not lost."""
    params: tuple[Any, ...]
    longest: float = math.inf
    """An upper bound on the delay."""


class DelaySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of the distributions of delays."""


class ExponentialDelay(DelaySpec, frozen=True, tag="exponential"):
    """Exponential delays with the given mean: ratings arrive at a constant rate.

    >>> import entice
    >>> entice.ExponentialDelay(mean=300)
    ExponentialDelay(mean=300.0)
    """

    mean: float

    def __post_init__(self) -> None:
        _ensure_positive(self, "mean")

    def sampler(self) -> DelaySampler:  # noqa: D102
        return DelaySampler(_exponential, (self.mean,))


@compiled
def _exponential(params: tuple[float], rng: Stream) -> float:
    return -params[0] * math.log(1.0 - uniform(rng))


class LogNormalDelay(DelaySpec, frozen=True, tag="log_normal"):
    """Log-normal delays, some of them very long: `sigma` is the standard deviation of the log.

    Half of the ratings arrive within `median`, and two thirds between `median` / exp(`sigma`) and
    `median` · exp(`sigma`).

    >>> import entice
    >>> entice.LogNormalDelay(median=200, sigma=1.5)
    LogNormalDelay(median=200.0, sigma=1.5)
    """

    median: float
    sigma: float

    def __post_init__(self) -> None:
        _ensure_positive(self, "median")
        _ensure_positive(self, "sigma")

    def sampler(self) -> DelaySampler:  # noqa: D102
        return DelaySampler(_log_normal, (self.median, self.sigma))


@compiled
def _log_normal(params: tuple[float, float], rng: Stream) -> float:
    return params[0] * math.exp(params[1] * normal(rng))


class TableDelay(DelaySpec, frozen=True, tag="table"):
    """A tabulated distribution: a share `shares[i]` of ratings has arrived by age `ages[i]`.

    Shares are interpolated linearly. The first share arrives exactly at the first age, and the last
    share is 1: ratings that never arrive are set by the `loss` of `Players`.

    >>> import entice
    >>> table = entice.TableDelay(ages=[0, 100, 1000], shares=[0.2, 0.7, 1])
    """

    ages: Sequence[float]
    shares: Sequence[float]

    def __post_init__(self) -> None:
        ages = set_numbers(self, "ages", at_least=2)
        shares = set_numbers(self, "shares", at_least=2)
        if ages[0] < 0:
            raise InputError("TableDelay: ages", "must not be negative", given=ages)
        if any(a >= b for a, b in itertools.pairwise(ages)):
            raise InputError("TableDelay: ages", "must increase", given=ages)
        if len(shares) != len(ages):
            rule = f"must have as many entries as ages, {len(ages)}"
            raise InputError("TableDelay: shares", rule, given=shares)
        if shares[0] < 0 or any(a > b for a, b in itertools.pairwise(shares)):
            rule = "must not be negative, nor decrease"
            raise InputError("TableDelay: shares", rule, given=shares)
        if shares[-1] != 1:
            rule = "must end with 1: by the last age all ratings have arrived"
            todo = "Use Players(loss=…) for ratings that never arrive."
            raise InputError("TableDelay: shares", rule, given=shares, todo=todo)

    def sampler(self) -> DelaySampler:  # noqa: D102
        params = np.array(self.ages), np.array(self.shares)
        return DelaySampler(_by_table, params, self.ages[-1])


@compiled
def _by_table(params: tuple[Floats, Floats], rng: Stream) -> float:
    ages, shares = params
    u = uniform(rng)
    if u < shares[0]:
        return float(ages[0])
    for i in range(1, ages.shape[0]):
        if u < shares[i]:
            part = (u - shares[i - 1]) / (shares[i] - shares[i - 1])
            return float(ages[i - 1] + part * (ages[i] - ages[i - 1]))
    return float(ages[-1])


@compiled
def constant_delay(params: tuple[float], rng: Stream) -> float:
    """Return the same delay each time, without drawing."""
    return params[0]


Delay = ExponentialDelay | LogNormalDelay | TableDelay


def _ensure_positive(spec: DelaySpec, field: str) -> None:
    value = set_number(spec, field)
    if value <= 0:
        rule = "must be greater than 0"
        raise InputError(f"{type(spec).__name__}: {field}", rule, given=value)
