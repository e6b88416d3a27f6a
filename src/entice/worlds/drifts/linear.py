"""Drifts proportional to the payment, and no drift."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from entice.checks import set_number, set_numbers
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.worlds.drifts.drift import DriftKernel, DriftSpec, Floats, require_non_negative


class NoDrift(DriftSpec, frozen=True, tag="none"):
    """b = 0: payments do not change ratings.

    >>> import entice
    >>> entice.NoDrift().label
    'NoDrift'
    """

    @property
    def default_label(self) -> str:  # noqa: D102
        return "NoDrift"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return 0.0

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(linear, (0.0,))  # one compilation for this and linear drifts


class LinearDrift(DriftSpec, frozen=True, tag="linear"):
    """b = l · x, the drift of the paper's experiments.

    >>> import entice
    >>> entice.LinearDrift(1.1).label
    'LinearDrift(1.1)'
    """

    l: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_non_negative(self, "l")

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"LinearDrift({self.l:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return self.l

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(linear, (self.l,))


@compiled
def linear(payment: float, t: int, arm: int, params: tuple[float]) -> float:
    """Return l · x; `params` holds l."""
    return params[0] * payment


class NegativeDrift(DriftSpec, frozen=True, tag="negative"):
    """b = −l · x: players who are paid feel bought, and rate lower.

    >>> import entice
    >>> entice.NegativeDrift(1.1).outside
    'decreases'
    """

    l: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_non_negative(self, "l")

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"NegativeDrift({self.l:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return math.inf if self.l > 0 else 0.0

    @property
    def outside(self) -> str:  # noqa: D102
        return "decreases" if self.l > 0 else ""

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(linear, (-self.l,))


class FadingDrift(DriftSpec, frozen=True, tag="fading"):
    """b = l · 2^(−t / half_life) · x: gratitude that wears off as payments become common.

    >>> import entice
    >>> entice.FadingDrift(l=1.1, half_life=5000).label
    'FadingDrift(l=1.1, half_life=5000)'
    """

    l: float
    half_life: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_non_negative(self, "l")
        if set_number(self, "half_life") <= 0:
            rule = "must be greater than 0, in rounds"
            raise InputError("FadingDrift: half_life", rule, given=self.half_life)

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"FadingDrift(l={self.l:g}, half_life={self.half_life:g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return self.l

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(_fading, (self.l, math.log(2) / self.half_life))


@compiled
def _fading(payment: float, t: int, arm: int, params: tuple[float, float]) -> float:
    return params[0] * payment * math.exp(-params[1] * t)


class ArmDrift(DriftSpec, frozen=True, tag="per_arm"):
    """b = l_i · x, with a separate slope for each arm.

    >>> import entice
    >>> entice.ArmDrift([0.5, 2.0]).lipschitz
    2.0
    """

    slopes: Sequence[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        slopes = set_numbers(self, "slopes", at_least=2)
        if min(slopes) < 0:
            raise InputError("ArmDrift: slopes", "must not be negative", given=slopes)

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"ArmDrift({min(self.slopes):g}–{max(self.slopes):g})"

    @property
    def lipschitz(self) -> float:  # noqa: D102
        return max(self.slopes)

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(_arm_slope, (np.array(self.slopes),))


@compiled
def _arm_slope(payment: float, t: int, arm: int, params: tuple[Floats]) -> float:
    return float(params[0][arm] * payment)
