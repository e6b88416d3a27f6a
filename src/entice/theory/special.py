"""The digamma function, which NumPy lacks: for harmonic numbers and divergences of Beta arms."""

from __future__ import annotations

from typing import Any

import numpy as np

from entice.theory.inputs import Floats


def digamma(x: Any) -> Floats:
    """ψ(x) for x > 0: up to where the asymptotic series is exact to the last digits, then that.

    Abramowitz and Stegun 6.3.5 (recurrence) and 6.3.18 (series).

    >>> from entice.theory.special import digamma
    >>> bool(abs(digamma(1.0) + np.euler_gamma) < 1e-14)
    True
    """
    up = np.asarray(x, dtype=np.float64)
    below = np.zeros_like(up)
    for _ in range(12):
        below = below + np.where(up < 12, 1 / up, 0.0)
        up = np.where(up < 12, up + 1, up)
    s = (1 / up) ** 2
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132)))))
    return np.asarray(np.log(up) - 1 / (2 * up) - series - below)[()]
