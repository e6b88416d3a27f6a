"""KL-UCB: confidence bounds by the Bernoulli divergence (Garivier and Cappé 2011)."""

from __future__ import annotations

import math
from typing import ClassVar

from entice.checks import set_number
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.policies.ucb import first_unrated
from entice.rng import Stream

TOLERANCE = 1e-12
"""Maximum error of a computed bound. A bound within this distance of 1 is 1."""
_MARGIN = 1e-9
"""An arm whose bound is lower than the leader's by more than this is skipped without solving."""
_LEAST_MEAN = 1e-300
"""A smaller average counts as 0, because division by it overflows."""


class KLUCB(PolicySpec, frozen=True, tag="kl_ucb"):
    """Select the arm with the highest bound max {q : n_i · kl(m_i, q) ≤ log t + c log log t}.

    kl(p, q) = p log(p/q) + (1 − p) log((1 − p)/(1 − q)), so that bounds are as tight as the
    variance of Bernoulli ratings allows, and valid for any ratings between 0 and 1. Unrated arms
    come first. Garivier and Cappé, "The KL-UCB Algorithm for Bounded Stochastic Bandits and
    Beyond" (COLT 2011).

    Drift may push an average out of the range from 0 to 1; it then counts as the nearest end of the
    range. Arms with averages of 1 or more tie at the bound 1, and the first of them is selected. If
    drift is strong, project ratings with `feedback_range=(0, 1)`.

    Parameters
    ----------
    c
        The weight of log log t, which is 0 before round 3. The proof uses 3; the authors recommend
        0 in practice.

    >>> import entice
    >>> entice.KLUCB().label, entice.KLUCB(c=3).label
    ('KLUCB', 'KLUCB(c=3)')
    """

    c: float = 0.0
    unit_ratings: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if set_number(self, "c") < 0:
            raise InputError("KLUCB: c", "must be at least 0", given=self.c)

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"KLUCB(c={self.c:g})" if self.c else "KLUCB"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        return PolicyKernel(select, params=(self.c,), memory=1)


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[float], rng: Stream
) -> int:
    """Choose by the highest bound, ties to the lowest index.

    The last selected arm usually leads again. Its bound is computed first, and then one divergence
    per arm shows for most others that their bound is lower. The order affects speed only.
    """
    unrated = first_unrated(pulls)
    if unrated >= 0:
        return unrated
    level = math.log(t) + params[0] * math.log(max(1.0, math.log(t)))
    first = int(memory[0])
    best, top = first, -math.inf
    if means[first] > -math.inf:
        top = upper_bound(_clipped(means[first]), level / pulls[first])
    for i in range(pulls.shape[0]):
        if means[i] == -math.inf:  # not permitted: no drift makes an average infinite
            continue
        mean, radius = _clipped(means[i]), level / pulls[i]
        ahead = top - _MARGIN - mean
        if i == first or (ahead > 0.0 and divergence(mean, ahead) > radius):
            continue
        bound = upper_bound(mean, radius)
        if bound > top or (bound == top and i < best):
            best, top = i, bound
    memory[0] = best
    return best


@compiled
def _clipped(mean: float) -> float:
    return min(max(mean, 0.0), 1.0)


@compiled
def divergence(mean: float, ahead: float) -> float:
    """Return kl(mean, mean + ahead) for 0 < ahead < 1 − mean, accurate also for small `ahead`."""
    below = mean * math.log1p(ahead / mean) if mean > _LEAST_MEAN else 0.0
    rest = 1.0 - mean
    return -rest * math.log1p(-ahead / rest) - below


@compiled
def upper_bound(mean: float, radius: float) -> float:
    """Solve kl(mean, q) = radius for q ≥ mean, by Newton's method from above.

    The divergence is convex in q, so steps from above never overshoot. Both starting points are
    above the solution: kl ≥ 2 (q − mean)² (Pinsker), and kl ≥ mean · log(mean) + (1 − mean) ·
    log((1 − mean)/(1 − q)). From the lower of them, each step covers at least half of the remaining
    distance.
    """
    rest = 1.0 - mean
    if radius <= 0.0 or rest <= 0.0:
        return mean
    if mean <= _LEAST_MEAN:
        ahead = -math.expm1(-radius)
    else:
        left = rest * math.exp(-(radius - mean * math.log(mean)) / rest)
        ahead, step = min(math.sqrt(0.5 * radius), rest - left), math.inf
        while step > TOLERANCE and ahead < rest:
            slope = ahead / ((mean + ahead) * (rest - ahead))
            step = (divergence(mean, ahead) - radius) / slope
            ahead -= step
    return 1.0 if rest - ahead < TOLERANCE else mean + ahead
