"""Intervals of a difference of means, by the bootstrap, and of the probability of improvement."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_NUMBERS_AT_ONCE = 2**22


class Interval(NamedTuple):
    """An estimate with the limits of its interval."""

    value: float
    low: float
    high: float


class _Resamples(NamedTuple):
    """Some resamples: how often each run occurs in each, as arrays of resamples × runs."""

    a: Floats
    b: Floats


class Bootstrap:
    """Resamples of the runs of two cells, a and b.

    Parameters
    ----------
    a, b
        The values of each run.
    paired
        Whether equal indices are runs of the same random streams. Pairs are then resampled as a
        whole; otherwise the runs of a and b are resampled independently.
    resamples
        Number of resamples.
    seed
        Of the resamples.
    """

    def __init__(self, a: Floats, b: Floats, *, paired: bool, resamples: int, seed: int) -> None:
        self._a, self._b, self._paired = a, b, paired
        self._resamples, self._seed = resamples, seed

    def difference(self, confidence: float) -> Interval:
        """Return the mean of a minus that of b, with a bootstrap-t interval.

        Each resample's difference is divided by its own standard error. Of skewed differences,
        such an interval covers the true mean more often than one of plain quantiles;
        `bench/comparison.py` measures its coverage. If a resample has no spread, the quantiles of
        the resampled differences are used.
        """
        a, b = self._a, self._b
        value = float(a.mean() - b.mean())
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return Interval(math.nan, math.nan, math.nan)
        if self._paired:
            parts = [(a - b - value, True)]
        else:
            parts = [(a - a.mean(), True), (b - b.mean(), False)]
        error = math.sqrt(sum(values.var(ddof=1) / len(values) for values, _ in parts))
        if error <= 1e-12 * max(abs(float(a.mean())), abs(float(b.mean()))):  # rounding only
            return Interval(value, value, value)
        shifts, errors = [], []
        for resampled in self._draw():
            shift, variance = np.zeros(len(resampled.a)), np.zeros(len(resampled.a))
            for values, of_a in parts:
                counts, sign = (resampled.a, 1.0) if of_a else (resampled.b, -1.0)
                n = len(values)
                mean = counts @ values / n
                spread = np.maximum(counts @ values**2 / n - mean**2, 0.0)
                shift += sign * mean
                variance += spread / (n - 1)
            shifts.append(shift)
            errors.append(np.sqrt(variance))
        shift, spread = np.concatenate(shifts), np.concatenate(errors)
        tail = (1 - confidence) / 2
        if spread.min() <= 1e-9 * error:
            low, high = np.quantile(shift, [tail, 1 - tail])
            return Interval(value, value + float(low), value + float(high))
        low, high = np.quantile(shift / spread, [tail, 1 - tail])
        return Interval(value, value - float(high) * error, value - float(low) * error)

    def improvement(self, confidence: float) -> Interval:
        """Return the probability that a run of a is lower than an independent run of b.

        Ties count one half. The interval is Wilson's, for as many runs as would give a share the
        variance of this estimate (DeLong, DeLong and Clarke-Pearson 1988), but at most 1.5 times
        the smaller number of runs: near 0 and 1 the variance is underestimated.
        `bench/comparison.py` measures its coverage.
        """
        a, b = np.nan_to_num(self._a, nan=np.inf), np.nan_to_num(self._b, nan=np.inf)
        lower_than_b, higher_than_a = _share_below(a, b), 1 - _share_below(b, a)
        value = float(lower_than_b.mean())
        if self._paired:
            variance = (lower_than_b + higher_than_a).var(ddof=1) / len(a)
        else:
            variance = lower_than_b.var(ddof=1) / len(b) + higher_than_a.var(ddof=1) / len(a)
        runs = 1.5 * min(len(a), len(b))
        if variance > 0:
            runs = min(runs, value * (1 - value) / variance)
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        centre = (value + z**2 / (2 * runs)) / (1 + z**2 / runs)
        half = math.sqrt(value * (1 - value) / runs + (z / (2 * runs)) ** 2) * z / (1 + z**2 / runs)
        return Interval(value, max(0.0, centre - half), min(1.0, centre + half))

    def _draw(self) -> Iterator[_Resamples]:
        """Draw the same resamples at each call, some at a time to bound the memory."""
        rng = np.random.default_rng((self._seed, self._resamples))
        n_a, n_b = len(self._a), len(self._b)
        step = max(1, _NUMBERS_AT_ONCE // max(n_a, n_b))
        for first in range(0, self._resamples, step):
            size = min(step, self._resamples - first)
            counts = _counts(rng, size, n_a)
            yield _Resamples(counts, counts if self._paired else _counts(rng, size, n_b))


def _counts(rng: np.random.Generator, resamples: int, runs: int) -> Floats:
    picks = rng.integers(runs, size=(resamples, runs)) + runs * np.arange(resamples)[:, None]
    counts = np.bincount(picks.ravel(), minlength=resamples * runs)
    return counts.reshape(resamples, runs).astype(np.float64)


def _share_below(a: Floats, b: Floats) -> Floats:
    """Return for each value of b the share of a that is lower; ties count one half."""
    ordered = np.sort(a)
    left, right = (np.searchsorted(ordered, b, side=side) for side in ("left", "right"))
    return np.asarray((left + right) / (2 * len(a)))
