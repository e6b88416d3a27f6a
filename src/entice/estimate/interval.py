"""An estimate with its interval, and the quantiles of Student's t that intervals are made of."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from entice.checks import as_number
from entice.errors import InputError


class Estimate(NamedTuple):
    """How steeply feedback rises with the payment: l, where the drift is linear."""

    slope: float
    low: float
    """The interval goes from here …"""
    high: float
    """… to here."""
    stderr: float
    observations: int
    """How many ratings it rests on."""
    method: str
    warning: str = ""
    """Why it is not to be trusted as it stands; empty if nothing speaks against it."""


def check_level(given: Any) -> float:
    """Return `given` as the level of an interval."""
    level = as_number("level", given)
    if not 0 < level < 1:
        rule = "must be between 0 and 1, such as 0.95"
        raise InputError("level", rule, given=given)
    return level


_AT, _WEIGHT = np.polynomial.legendre.leggauss(48)


@lru_cache(maxsize=256)
def t_critical_value(level: float, degrees_of_freedom: float) -> float:
    """How many standard errors an interval reaches to either side: c with P(|t| ≤ c) = level.

    With t = √ν tan θ the density of Student's t is proportional to cos^(ν−1) θ; the integral is
    taken by Gauss and Legendre's rule, its limit found by halving.

    >>> from entice.estimate.interval import reach
    >>> round(reach(0.95, 4), 4)
    2.7764
    """
    # Far in the tails nothing is left of the density; a rule on all of it would miss its middle.
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
"""Below so many probes an estimate says that it rests on few."""


def probe_warning(heads: int, probes: int) -> str:
    """Say what speaks against an estimate from so many probes, of which so many were heads.

    A coin that fell to one side more often than a fair one does in 999 of 1,000 cases was not
    fair, or some of its offers are missing for a reason that it has to do with.
    """
    warnings = []
    if probes < FEW_PROBES:
        warnings.append(f"rests on {probes} probed offers only")
    if abs(2 * heads - probes) > 3.2905 * math.sqrt(probes):
        warnings.append(
            f"the coin fell heads in {heads} of {probes} probed offers, which a fair one does "
            "less than once in 1,000 times: do offers or ratings go missing when less is paid?"
        )
    return "; ".join(warnings)
