"""Nonlinear drift functions: saturating, a step, a power."""

from __future__ import annotations

import math

from entice.checks import set_number
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.worlds.drifts.drift import DriftKernel, DriftSpec, require_non_negative


class SaturatingDrift(DriftSpec, frozen=True, tag="saturating"):
    """b = min(l · x, cap): gratitude that does not grow without bound.

    >>> import entice
    >>> entice.SaturatingDrift(l=1.1, cap=0.2).label
    'SaturatingDrift(l=1.1, cap=0.2)'
    """

    l: float
    cap: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_non_negative(self, "l")
        require_non_negative(self, "cap")

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"SaturatingDrift(l={self.l:g}, cap={self.cap:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return self.l if self.cap > 0 else 0.0

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(saturating, (self.l, self.cap))


@compiled
def saturating(payment: float, t: int, arm: int, params: tuple[float, float]) -> float:
    """Return min(l · x, cap); `params` holds l and the cap."""
    return min(params[0] * payment, params[1])


class StepDrift(DriftSpec, frozen=True, tag="step"):
    """b = size for any payment, however small: gratitude for the gift, not for its value.

    Not Lipschitz, and so outside Assumption 1 of the paper: a payment close to 0 still has the full
    effect.

    >>> import entice
    >>> entice.StepDrift(0.3).lipschitz
    inf
    """

    size: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_non_negative(self, "size")

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"StepDrift({self.size:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return math.inf if self.size > 0 else 0.0

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(_step, (self.size,))


@compiled
def _step(payment: float, t: int, arm: int, params: tuple[float]) -> float:
    return params[0] if payment > 0.0 else 0.0


class PowerDrift(DriftSpec, frozen=True, tag="power"):
    """b = l · x^exponent. Below 1, small payments have the largest effect; above 1, large ones.

    Outside Assumption 1 unless the exponent is 1: the slope is infinite at 0, or unbounded.

    >>> import entice
    >>> entice.PowerDrift(l=5, exponent=2).label
    'PowerDrift(l=5, exponent=2)'
    """

    l: float
    exponent: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_non_negative(self, "l")
        if set_number(self, "exponent") <= 0:
            rule = "must be greater than 0"
            raise InputError("PowerDrift: exponent", rule, given=self.exponent)

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"PowerDrift(l={self.l:g}, exponent={self.exponent:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        if self.l == 0:
            return 0.0
        return self.l if self.exponent == 1 else math.inf

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(_power, (self.l, self.exponent))


@compiled
def _power(payment: float, t: int, arm: int, params: tuple[float, float]) -> float:
    return float(params[0] * payment ** params[1])
