"""Many steps of a Gaussian random walk at once, for as long as it stays positive.

A lead x takes steps with mean `slope` and standard deviation σ. At integer times, a Brownian motion
with variance σ² per unit of time has the same law as the walk. Given its ends, x now and y after m
steps, it hits 0 with probability exp(−2xy / (σ²m)), whatever the slope, and certainly if y ≤ 0. If
it does not hit 0, neither does the walk, and all m steps need only two random numbers.

If it hits 0, the walk is reconstructed from the first hitting time τ, whose law given both ends is
explicit, through an inverse Gaussian variable. The motion is positive before τ, so the walk is
positive at all integer times before τ. From (τ, 0) to (m, y) the motion is an ordinary Brownian
bridge, independent of its past, so its value at the next integer time k is normal. If that value is
positive, the same procedure is repeated for the bridge from there to (m, y). Otherwise the lead was
lost in step k, and the draws for later steps are discarded: k is a stopping time of the walk, whose
later steps are independent of everything that is kept. Nothing here is approximate: up to rounding,
the law is that of the walk.
"""

from __future__ import annotations

import math

from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.rng import Stream, normal, uniform

_CERTAIN = 36.8  # e^−36.8 < 2⁻⁵³, the smallest positive uniform draw


@compiled_internal
def take_steps(
    lead: float, slope: float, std: float, steps: int, noise: float, stream: Stream
) -> tuple[int, float]:
    """Take `steps` steps, or stop where a positive lead is lost.

    Parameters
    ----------
    lead, slope, std
        The walk: its position, and the mean and standard deviation of its steps.
    steps
        The maximum number of steps. It must not depend on anything drawn for them.
    noise
        A standard normal draw.
    stream
        The stream for all other draws.

    Returns
    -------
    tuple
        The number of steps taken, and the lead after them. A lead that is not positive is lost. If
        it is lost to begin with, one step is taken.
    """
    if not lead > 0.0:
        return 1, lead + slope + std * noise
    variance = std * std * steps
    end = lead + steps * slope + math.sqrt(variance) * noise
    if end <= 0.0 or bridge_hits_zero(lead, end, variance, stream):
        return steps_until_lost(lead, end, std, steps, stream)
    return steps, end


@compiled_internal
def bridge_hits_zero(start: float, end: float, variance: float, stream: Stream) -> bool:
    """Draw whether a Brownian bridge between positive ends hits 0; `variance` is its total."""
    exponent = 2.0 * start * end
    if exponent > _CERTAIN * variance:
        return False
    return 1.0 - uniform(stream) < math.exp(-exponent / variance)


@compiled_internal_noinline
def steps_until_lost(
    lead: float, end: float, std: float, steps: int, stream: Stream
) -> tuple[int, float]:
    """Take up to `steps` steps, until the lead is lost.

    The law is conditional on the Brownian motion from `lead` to `end` hitting 0 on the way.
    Returns the number of steps and the lead after them.
    """
    height = abs(end)  # by reflection, the first hitting time does not depend on the sign
    passed = 0
    while True:
        # τ / (rest − τ) is inverse Gaussian with mean lead / height and shape
        # lead² / (σ² rest): Michael, Schucany and Haas (1976), arranged so as not to cancel.
        rest = steps - passed
        h = 0.5 * std * std * rest * normal(stream) ** 2 / lead
        root = height + h + math.sqrt(h * (h + 2.0 * height))
        if uniform(stream) * (root + height) >= root:
            root = height * height / root
        hit = rest * lead / (lead + root)
        whole = min(max(math.ceil(hit), 1.0), float(rest))
        passed += int(whole)
        if passed == steps:
            return steps, end
        after, before = whole - hit, rest - whole
        share = after / (rest - hit)
        lead = end * share + std * math.sqrt(share * before) * normal(stream)
        if lead <= 0.0:
            return passed, lead
        if end > 0.0 and not bridge_hits_zero(lead, end, std * std * before, stream):
            return steps, end
