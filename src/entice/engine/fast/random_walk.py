"""Many steps of a Gaussian random walk at once, as long as it stays positive.

A lead x makes steps of mean `slope` and standard deviation σ. Whether it was lost on the way to
its value y after m steps is asked of a Brownian motion seen at whole times, with variance σ² per
unit of time, which has the same law there as the walk. Given its ends, it touches 0 with
probability exp(−2xy / (σ²m)), whatever its slope, and surely if y ≤ 0. If it did not touch 0, nor
did the walk, and all m steps are done with two random numbers.

If it did touch 0, the walk is rebuilt from there. The law of the first touch τ given both ends is
explicit, through an inverse Gaussian variable. Before τ the lead was positive, so it was at all
whole times before. From (τ, 0) to (m, y) the motion is an ordinary Brownian bridge, whatever came
before, so its value at the next whole time k is normal. If it is positive, the bridge from there
to (m, y) is asked the same question; otherwise the lead was lost in step k, and what was drawn for
later steps is dropped: k is a stopping time of the walk, whose later steps are independent of all
that is kept. Nothing here is approximate; rounding apart, the law is that of the walk.
"""

from __future__ import annotations

import math

from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.rng import Stream, normal, uniform

_CERTAIN = 36.8  # e^−36.8 < 2⁻⁵³, the smallest positive uniform draw: no draw is below it


@compiled_internal
def leap(
    lead: float, slope: float, std: float, steps: int, noise: float, stream: Stream
) -> tuple[int, float]:
    """Take so many steps, or as many as it takes to lose a positive lead.

    Parameters
    ----------
    lead, slope, std
        The walk: where it is, and the mean and standard deviation of its steps.
    steps
        How many, at most. It must not depend on anything drawn for them.
    noise
        A standard normal draw.
    stream
        Where other draws come from.

    Returns
    -------
    tuple
        How many steps were taken, and the lead after them. It is lost if it is not positive. A lead
        that is lost to begin with takes one step.
    """
    if not lead > 0.0:
        return 1, lead + slope + std * noise
    variance = std * std * steps
    end = lead + steps * slope + math.sqrt(variance) * noise
    if end <= 0.0 or touches(lead, end, variance, stream):
        return until_lost(lead, end, std, steps, stream)
    return steps, end


@compiled_internal
def touches(start: float, end: float, variance: float, stream: Stream) -> bool:
    """Draw whether a Brownian bridge between positive ends touches 0; `variance` is the whole's."""
    exponent = 2.0 * start * end
    if exponent > _CERTAIN * variance:
        return False
    return 1.0 - uniform(stream) < math.exp(-exponent / variance)


@compiled_internal_noinline
def until_lost(
    lead: float, end: float, std: float, steps: int, stream: Stream
) -> tuple[int, float]:
    """Follow a lead whose Brownian motion touches 0 on its way to `end`, which it would reach."""
    height = abs(end)  # by reflection, the first touch does not depend on the sign
    passed = 0
    while True:
        # τ / (rest − τ) is inverse Gaussian with mean lead / height and shape
        # lead² / (σ² rest): Michael, Schucany and Haas (1976), arranged so as not to cancel.
        rest = steps - passed
        h = 0.5 * std * std * rest * normal(stream) ** 2 / lead
        root = height + h + math.sqrt(h * (h + 2.0 * height))
        if uniform(stream) * (root + height) >= root:
            root = height * height / root
        touch = rest * lead / (lead + root)
        whole = min(max(math.ceil(touch), 1.0), float(rest))
        passed += int(whole)
        if passed == steps:
            return steps, end
        after, before = whole - touch, rest - whole
        share = after / (rest - touch)
        lead = end * share + std * math.sqrt(share * before) * normal(stream)
        if lead <= 0.0:
            return passed, lead
        if end > 0.0 and not touches(lead, end, std * std * before, stream):
            return steps, end
