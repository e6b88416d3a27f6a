"""The `Estimate` class, critical values of Student's t, and warnings about unreliable probes."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from entice.checks import as_number
from entice.errors import InputError

if TYPE_CHECKING:
    from entice.estimate.response import ResponseBounds


class Estimate(NamedTuple):
    """The slope of feedback as a function of the payment, with its interval.

    If the drift is linear, the slope is l.
    """

    slope: float
    low: float
    """The lower end of the interval."""
    high: float
    """The upper end of the interval."""
    stderr: float
    observations: int
    """The number of ratings used."""
    method: str
    warning: str = ""
    """Reasons not to trust the estimate; empty if there are none."""
    bounds: ResponseBounds | None = None
    """Bounds that hold if payment changes who rates; None if they cannot be computed."""

    def __str__(self) -> str:
        """Return a sentence, which begins with the bounds if the response differs."""
        slope = f"slope {self.slope:.2f} ({self.low:.2f} to {self.high:.2f})"
        source = f"{self.observations} ratings, {self.method}"
        bounds = self.bounds
        if bounds is None:
            parts = [slope, source]
        else:
            within = f"bounds {bounds.low:.2f} to {bounds.high:.2f}"
            parts = [within, slope, source] if bounds.differs else [slope, within, source]
        return "; ".join(filter(None, [*parts, self.warning]))


def check_level(given: Any) -> float:
    """Return `given` as the confidence level of an interval."""
    level = as_number("level", given)
    if not 0 < level < 1:
        rule = "must be between 0 and 1, such as 0.95"
        raise InputError("level", rule, given=given)
    return level


_AT, _WEIGHT = np.polynomial.legendre.leggauss(48)


@lru_cache(maxsize=256)
def t_critical_value(level: float, degrees_of_freedom: float) -> float:
    """Return the two-sided critical value of Student's t: c with P(|t| ≤ c) = level.

    With t = √ν tan θ, the density of Student's t is proportional to cos^(ν−1) θ. The integral is
    computed by Gauss–Legendre quadrature, its limit by bisection.

    >>> from entice.estimate.interval import t_critical_value
    >>> round(t_critical_value(0.95, 4), 4)
    2.7764
    """
    # The density vanishes in the tails; quadrature over the whole range would miss its peak.
    middle = min(math.pi / 2, 40 / math.sqrt(degrees_of_freedom))
    scale = math.exp(
        math.lgamma((degrees_of_freedom + 1) / 2) - math.lgamma(degrees_of_freedom / 2)
    )
    scale *= 2 / math.sqrt(math.pi)
    low, high = 0.0, middle
    for _ in range(64):
        limit = (low + high) / 2
        angles = limit / 2 * (_AT + 1)
        inside = scale * limit / 2 * float(_WEIGHT @ np.cos(angles) ** (degrees_of_freedom - 1))
        low, high = (limit, high) if inside < level else (low, limit)
    return math.sqrt(degrees_of_freedom) * math.tan((low + high) / 2)


FEW_PROBES = 30
"""Estimates from fewer probes carry a warning."""


def few_probes_warning(probes: int) -> str:
    """Return the warning about an estimate from few probes, or an empty string."""
    return f"based on only {probes} probed offers" if probes < FEW_PROBES else ""


def unfair_coin_warning(heads: int, tossed: int, of: str) -> str:
    """Return the warning about too many or too few heads, or an empty string.

    If a fair coin shows such a share of heads less than once in 1,000 times, the coin was not
    fair, or offers are missing for a reason that depends on it.
    """
    if abs(2 * heads - tossed) <= 3.2905 * math.sqrt(tossed):
        return ""
    return (
        f"the coin fell heads in {heads} of {tossed} {of}, which happens less than once in 1,000 "
        "times with a fair coin: check whether offers or ratings go missing when less is paid"
    )
