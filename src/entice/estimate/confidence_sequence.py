"""A confidence sequence for the difference between the mean ratings of two groups.

The interval is valid at every look: the probability that it ever misses, at any number of ratings,
is at most 1 − confidence. So it may be read every day, and a campaign may be stopped because of it.

Guarantee
---------
The bound is not asymptotic: it holds from the first rating on. It needs ratings within the scale,
and nothing else about their distribution. The target is the difference between the running averages
μ̄ of the two groups' conditional means μ_i = E[Y_i | all that happened before rating i]. The means
may change over time, as they do while a policy learns.

Method
------
Theorem 4 of Howard, Ramdas, McAuliffe and Sekhon (2021), the empirical Bernstein bound: if Ŷ_i is a
prediction of Y_i made before it is seen, and ratings span a range R, then for 0 ≤ λ < 1/R

    exp(λ Σ (Y_i − μ_i) − ψ(λ) Σ (Y_i − Ŷ_i)²),   ψ(λ) = (−log(1 − Rλ) − Rλ) / R²

is a supermartingale that starts at 1, so a mixture over λ exceeds 1/α at any time with probability
at most α (Ville). Three details are specific to this module:

1. *Sums are enough.* Ŷ_i is the mean of the earlier ratings and of `PRIOR_RATINGS` ratings in the
   middle of the scale. The sum V = Σ (Y_i − Ŷ_i)² is not stored, but the recursion of least squares
   gives Σ (1 − 1/(k+i)) (Y_i − Ŷ_i)² = A, the sum of squares about the final mean. The terms are at
   most R², so V is largest if the first ones are R²: V ≤ A + R² log(1 + m/k), where
   m = min(n, A (k+1) / (k R²)).
2. *One martingale for both groups.* The groups are weighted in advance by the ratio r of their
   shares: Z = Σ_small (Y − μ) − r Σ_large (Y − μ) has V = V_small + r² V_large. A bound on |Z| is
   one on the difference of means if r n_large = n_small. Otherwise what is left, |r n_large /
   n_small − 1| times the error of the large group's mean, is added; its bound takes
   `SHARE_FOR_LARGE_GROUP` of the error probability.
3. *The mixture* is discrete: `RATES` with `WEIGHTS`, chosen so that between 30 and 10⁶ ratings of
   the smaller group the interval is at most 1.3 times as wide as an asymptotic confidence sequence
   tuned for 1,000, if ratings from 1 to 5 have a standard deviation of 1.

References
----------
- Howard, Ramdas, McAuliffe, Sekhon (2021), Time-uniform, nonparametric, nonasymptotic confidence
  sequences. Annals of Statistics 49(2), 1055–1080. https://arxiv.org/abs/1810.08240
- Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas (2024), Time-uniform central limit theory and
  asymptotic confidence sequences. Annals of Statistics 52(6). https://arxiv.org/abs/2103.06476
  (the alternative: narrower with few ratings, but without a guarantee for them)
- Robbins (1970), Statistical methods related to the law of the iterated logarithm. Annals of
  Mathematical Statistics 41(5), 1397–1409.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

PRIOR_RATINGS = 5
"""Ratings in the middle of the scale that the prediction of each rating starts with."""
SHARE_FOR_LARGE_GROUP = 0.1
"""The share of the error probability for the mean of the larger group alone."""
RATES = 0.7 * 1.5 ** -np.arange(28.0)
"""λ R of the mixture: from 0.7, for a few ratings, to 0.00001, for more than there are people."""
WEIGHTS = RATES**0.7 / np.sum(RATES**0.7)
_CURVATURE = -np.log1p(-RATES) - RATES
"""ψ(λ) R²."""
_NEWTON_STEPS = 20
_TOLERANCE = 1e-12


class RatingSums(NamedTuple):
    """Ratings of a group: their number, sum and sum of squares; arrays hold several looks."""

    ratings: Floats
    total: Floats
    squares: Floats


def difference_interval(
    one: RatingSums, other: RatingSums, *,
    share_of_other: float, lowest: float, highest: float, confidence: float,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """Return the difference of mean ratings, one − other, and its interval, at each look.

    Each group needs a rating. `share_of_other` is the share of players that the other group was
    to get. The interval is valid whatever the shares turn out to be; it is narrowest if they
    are as stated.
    """
    span = highest - lowest
    flipped = share_of_other > 0.5
    small, large = (one, other) if flipped else (other, one)
    share = 1 - share_of_other if flipped else share_of_other
    ratio = share / (1 - share)
    error = 1 - confidence
    middle = (lowest + highest) / 2
    small_variance = variance_bound(small, middle, span)
    large_variance = variance_bound(large, middle, span)
    together = sum_bound(
        small_variance + ratio**2 * large_variance, span, (1 - SHARE_FOR_LARGE_GROUP) * error / 2
    )
    alone = sum_bound(large_variance, span, SHARE_FOR_LARGE_GROUP * error / 2)
    imbalance = np.abs(ratio * large.ratings / small.ratings - 1)
    half_width = together / small.ratings + imbalance * alone / large.ratings
    difference = one.total / one.ratings - other.total / other.ratings
    low = np.maximum(difference - half_width, -span)
    high = np.minimum(difference + half_width, span)
    return difference, low, high


def sum_bound(variance: Floats, span: float, error: float) -> Floats:
    """Return a bound on Σ (Y_i − μ_i), given V: exceeded at any time with probability `error`.

    The bound u solves Σ_j w_j exp(λ_j u − ψ(λ_j) V) = 1 / error. The logarithm of the left side is
    convex and increasing, so Newton's method converges from above.
    """
    scaled = np.asarray(variance, float)[..., None] / span**2
    level = -math.log(error)
    offsets = np.log(WEIGHTS) - _CURVATURE * scaled
    bound = np.min((level - offsets) / RATES, axis=-1, keepdims=True)
    for _ in range(_NEWTON_STEPS):
        exponents = offsets + RATES * bound
        top = exponents.max(axis=-1, keepdims=True)
        parts = np.exp(exponents - top)
        total = parts.sum(axis=-1, keepdims=True)
        slope = (parts * RATES).sum(axis=-1, keepdims=True) / total
        step = (top + np.log(total) - level) / slope
        bound = bound - step
        if np.all(step <= _TOLERANCE * bound):
            break
    return np.asarray(bound[..., 0] * span)


def variance_bound(group: RatingSums, middle: float, span: float) -> Floats:
    """Return the largest V = Σ (Y_i − Ŷ_i)² that is compatible with the sums."""
    count, total, squares = group
    k = PRIOR_RATINGS
    about_mean = squares + k * middle**2 - (total + k * middle) ** 2 / (count + k)
    about_mean = np.maximum(about_mean, 0.0)  # rounding
    early = np.minimum(count, about_mean * (k + 1) / (k * span**2))
    return np.asarray(about_mean + span**2 * np.log1p(early / k))
