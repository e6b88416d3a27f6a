"""Drift: how a payment bends the feedback. b = f_t(x), unknown to the principal.

Assumption 1 of the paper: f_t is non-decreasing with f_t(0) = 0 and Lipschitz with constant l.
Each drift says what it knows of that as `lipschitz`: the constant, infinity if there is none, None
if nobody has said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from entice.checks import set_name, set_number, set_numbers
from entice.engine.jit import compiled
from entice.errors import InputError
from entice.functions import custom_label, is_stand_in, plain_python, reference, set_function


class Bend(NamedTuple):
    """A drift as the engine runs it."""

    function: Callable[..., float]
    """`f(payment, t, arm, params) -> drift`, asked only in rounds with a payment."""
    params: tuple[float, ...] = ()


class DriftSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all drifts."""


class NoDrift(DriftSpec, frozen=True, tag="none"):
    """Players rate what they got, whatever they were paid.

    >>> import entice
    >>> entice.NoDrift().label
    'NoDrift'
    """

    @property
    def label(self) -> str:  # noqa: D102
        return "NoDrift"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return 0.0

    def bend(self) -> Bend:  # noqa: D102
        return Bend(_no_drift)


@compiled
def _no_drift(payment: float, t: int, arm: int, params: tuple[()]) -> float:
    return 0.0


class LinearDrift(DriftSpec, frozen=True, tag="linear"):
    """b = l · x, the drift of the paper's experiments.

    >>> import entice
    >>> entice.LinearDrift(1.1).label
    'LinearDrift(1.1)'
    """

    l: float

    def __post_init__(self) -> None:
        _not_negative(self, "l")

    @property
    def label(self) -> str:  # noqa: D102
        return f"LinearDrift({self.l:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return self.l

    def bend(self) -> Bend:  # noqa: D102
        return Bend(_linear, (self.l,))


@compiled
def _linear(payment: float, t: int, arm: int, params: tuple[float]) -> float:
    return params[0] * payment


class SaturatingDrift(DriftSpec, frozen=True, tag="saturating"):
    """b = min(l · x, cap): gratitude that does not grow for ever.

    >>> import entice
    >>> entice.SaturatingDrift(l=1.1, cap=0.2).label
    'SaturatingDrift(l=1.1, cap=0.2)'
    """

    l: float
    cap: float

    def __post_init__(self) -> None:
        _not_negative(self, "l")
        _not_negative(self, "cap")

    @property
    def label(self) -> str:  # noqa: D102
        return f"SaturatingDrift(l={self.l:g}, cap={self.cap:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return self.l if self.cap > 0 else 0.0

    def bend(self) -> Bend:  # noqa: D102
        return Bend(_saturating, (self.l, self.cap))


@compiled
def _saturating(payment: float, t: int, arm: int, params: tuple[float, float]) -> float:
    return min(params[0] * payment, params[1])


class StepDrift(DriftSpec, frozen=True, tag="step"):
    """b = size for any payment, however small: the gratitude for a gift, not for its worth.

    Not Lipschitz, and so outside Assumption 1 of the paper: a payment that vanishes still bends
    the rating by as much as ever.

    >>> import entice
    >>> entice.StepDrift(0.3).lipschitz
    inf
    """

    size: float

    def __post_init__(self) -> None:
        _not_negative(self, "size")

    @property
    def label(self) -> str:  # noqa: D102
        return f"StepDrift({self.size:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return math.inf if self.size > 0 else 0.0

    def bend(self) -> Bend:  # noqa: D102
        return Bend(_step, (self.size,))


@compiled
def _step(payment: float, t: int, arm: int, params: tuple[float]) -> float:
    return params[0] if payment > 0.0 else 0.0


class CustomDrift(DriftSpec, frozen=True, tag="custom"):
    """Any function `f(payment, t, arm, params) -> drift`, compiled like the built-in ones.

    Parameters
    ----------
    function
        A Python function in the subset that Numba compiles, or ``"module:name"`` of one. It may
        depend on the round t (a time-varying f_t) and on the arm. f(0) must be 0.
    params
        Numbers handed to the function, so that one function serves a whole family of drifts.
    name
        The name in tables and figures; by default the function's name and its parameters.
    lipschitz
        The constant l of Assumption 1, over all rounds and arms, if you can vouch for one: the
        bounds of `entice.theory` need it. `check_drift` looks for what contradicts it.

    >>> import entice
    >>> def fading(payment, t, arm, params):
    ...     return params[0] * payment / t**0.5
    >>> entice.CustomDrift(fading, params=[2]).label
    'fading(2)'
    """

    function: Any
    params: Sequence[float] = ()
    name: str | None = None
    lipschitz: float | None = None

    def __post_init__(self) -> None:
        set_function(self, "function", ("payment", "t", "arm", "params"))
        set_numbers(self, "params")
        set_name(self, "name")
        if self.lipschitz is not None and set_number(self, "lipschitz") < 0:
            raise InputError("CustomDrift: lipschitz", "must not be negative", given=self.lipschitz)
        if is_stand_in(self.function):
            return
        try:
            at_zero = plain_python(self.function)(0.0, 1, 0, self.params)
        except Exception as error:  # whatever the user's function may raise
            raise InputError(
                f"CustomDrift: {reference(self.function)}",
                "must return 0 for a payment of 0, and not raise an error",
                given=error,
                todo=f"It was called with params={self.params}.",
            ) from error
        if not isinstance(at_zero, (int, float, np.number)) or at_zero != 0:
            raise InputError(
                f"CustomDrift: {reference(self.function)}",
                "must return 0 for a payment of 0 (Assumption 1 of the paper)",
                given=at_zero,
                todo="A player who is not paid has no reason to rate otherwise.",
            )

    @property
    def label(self) -> str:  # noqa: D102
        return self.name or custom_label(self.function, self.params)

    def bend(self) -> Bend:  # noqa: D102
        return Bend(self.function, tuple(self.params))


Drift = NoDrift | LinearDrift | SaturatingDrift | StepDrift | CustomDrift


def _not_negative(spec: DriftSpec, field: str) -> None:
    if set_number(spec, field) < 0:
        raise InputError(
            f"{type(spec).__name__}: {field}",
            "must not be negative: a drift is non-decreasing (Assumption 1 of the paper)",
            given=getattr(spec, field),
            todo="For a payment that lowers ratings, write a CustomDrift.",
        )
