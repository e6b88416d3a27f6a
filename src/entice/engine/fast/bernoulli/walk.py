"""Many unpaid pulls of a Bernoulli arm at once, for as long as its sum stays above a line.

**Certain pulls.** A reward of 0 leaves the sum unchanged, while the line rises by its slope. So a
sum that is x above the line stays above it for x / slope pulls, whatever the rewards: their number
of ones is binomial, and one draw replaces them all. In the same time the sum gains on the line
unless the arm's mean is below the slope, so that the certain pulls become more and more.

**Uncertain pulls.** If fewer than `WORD` pulls are certain, up to `WORD` rewards are drawn at once,
as the bits of a word, and the sum is followed through them one by one. Where it falls to the line,
the rewards behind it are discarded: that is a stopping time, so they are independent of all that is
kept.

The number of pulls depends only on the present sum, never on later rewards. So nothing here is
approximate.
"""

from __future__ import annotations

import math

import numpy as np

from entice.engine.fast.bernoulli.binomial import WORD, draw_binomial, draw_rewards
from entice.jit.decorators import compiled_internal
from entice.rng import Stream

_ROUNDING = 1e-12
"""A sum this close to the line, relative to its size, counts as on the line.

Rounding errors are smaller: a sum above the line by more is also above it in the generic kernel.
"""


@compiled_internal
def take_pulls(
    total: float, line: float, slope: float, pulls: int, p: float, stream: Stream
) -> tuple[int, float]:
    """Take `pulls` ≥ 1 pulls, or stop after the first one that leaves the sum at or below the line.

    Parameters
    ----------
    total
        The sum of the arm's feedback so far.
    line, slope
        The line now, and its rise per pull.
    pulls
        The maximum number of pulls. It must not depend on anything drawn for them.
    p
        The arm's mean.
    stream
        The stream for all draws.

    Returns
    -------
    tuple
        The number of pulls taken, and the sum after them.
    """
    line += _ROUNDING * (abs(total) + abs(line) + abs(slope) * pulls)
    above, certain = total - line, 0.0
    if above > 0.0:
        # One pull less, because the quotient is rounded.
        certain = above / slope - 1.0 if slope > 0.0 else np.inf
    if certain >= min(pulls, WORD):
        pulls = int(min(float(pulls), certain))
        return pulls, add_ones(total, draw_binomial(pulls, p, stream))
    pulls = min(pulls, WORD)
    rewards = draw_rewards(pulls, p, stream)
    for j in range(pulls):
        total += float(np.int64(rewards & np.uint64(1)))
        rewards >>= np.uint64(1)
        line += slope
        if total <= line:
            return j + 1, total
    return pulls, total


@compiled_internal
def add_ones(total: float, count: int) -> float:
    """Return total + 1 + 1 + …, rounded after each addition as in the generic kernel."""
    end = total + count
    if end - count == total:  # `end` is not rounded, so no smaller sum is
        return end
    while count > 0:
        # Sums are rounded only where they pass a power of 2, or 0.
        step = 1.0
        if total > 1.0:
            step = math.ceil(math.ldexp(1.0, math.frexp(total)[1]) - total)
        elif total < -1.0:
            step = math.floor(-total)
        step = min(step, float(count))
        total += step
        count -= int(step)
    return total
