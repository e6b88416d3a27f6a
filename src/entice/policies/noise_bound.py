"""An upper bound on the variance of Gaussian noise that holds at all times.

Let d be a rating minus a prediction that was made before it, for n ratings of a block, and S their
sum of squares around the block's mean, which no drift changes. Given the past, S/σ² has a
noncentral χ² distribution with n − 1 degrees of freedom, whatever the predictions, so
E exp(−θS/σ²) ≤ (1 + 2θ)^−(n−1)/2. Over all blocks, exp(−θ ΣS/σ²) (1 + 2θ)^(ν/2) is therefore a
supermartingale, with ν = Σ(n − 1), and by Ville's inequality

    σ² ≤ θ ΣS / (½ ν log(1 + 2θ) − log(1/δ))   after all blocks, with probability 1 − δ.

This module takes the lowest of these bounds for six values of θ, each with δ = 1/(6H).
"""

from __future__ import annotations

import math

from entice.jit.decorators import compiled

_THETAS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


@compiled
def variance_bound(squares: float, degrees: float, horizon: float) -> float:
    """Return an upper bound on σ², which fails with probability 1/H; inf if ν is too small."""
    lowest = math.inf
    for theta in _THETAS:
        rest = 0.5 * degrees * math.log(1.0 + 2.0 * theta) - math.log(len(_THETAS) * horizon)
        if rest > 0.0:
            lowest = min(lowest, theta * squares / rest)
    return lowest
