"""The digamma function, which NumPy lacks, for harmonic numbers and divergences of Beta arms."""

from __future__ import annotations

from typing import Any

import numpy as np

from entice.theory.inputs import Floats


def digamma(x: Any) -> Floats:
    """Return ψ(x) for x > 0.

    The recurrence (Abramowitz and Stegun 6.3.5) raises x to at least 12, where the asymptotic
    series (6.3.18) is accurate to the last digits.

    >>> from entice.theory.special import digamma
    >>> bool(abs(digamma(1.0) + np.euler_gamma) < 1e-14)
    True
    """
    raised = np.asarray(x, dtype=np.float64)
    correction = np.zeros_like(raised)
    for _ in range(12):
        correction = correction + np.where(raised < 12, 1 / raised, 0.0)
        raised = np.where(raised < 12, raised + 1, raised)
    s = (1 / raised) ** 2
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132)))))
    return np.asarray(np.log(raised) - 1 / (2 * raised) - series - correction)[()]
