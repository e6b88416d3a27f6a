"""Quantiles of more values than fit, from counts of values that are nearly alike.

A value's bucket is given by its sign, its exponent and the first seven bits of its mantissa, so
no quantile is off by more than 1/256, 0.4 %, of its value; what is smaller than 1e-12 counts as 0.
Counts do not depend on the order in which values come, and buckets not on any logarithm, which
machines compute differently in the last digit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ACCURACY = 1 / 256
"""No quantile is off by more than this share of its value."""
_SMALLEST = (127 - 40) << 7
"""The upper half of 2^-40 in single precision; what is smaller falls into bucket 0."""
_INFINITE = (255 << 7) - _SMALLEST + 1
_NAN = _INFINITE + 1
_SERIES_AT_ONCE = 40
"""So many are sorted at a time: their values stay in the cache meanwhile."""


class Tally(NamedTuple):
    """How often each bucket was met in each series; those that were not are left out."""

    lengths: npt.NDArray[np.int32]
    """Of each series: how many of the following rows are its own."""
    buckets: npt.NDArray[np.int16]
    counts: npt.NDArray[np.int32]


def tally(values: Floats) -> Tally:
    """Count the buckets of each series, a column of values each."""
    columns = values.reshape(len(values), -1)
    some = range(0, columns.shape[1], _SERIES_AT_ONCE)
    found = [_tally(columns[:, begin : begin + _SERIES_AT_ONCE]) for begin in some]
    return Tally(*map(np.concatenate, zip(*found, strict=True)))


def _tally(columns: Floats) -> Tally:
    ranked = np.ascontiguousarray(_buckets(columns).T)
    ranked.sort(axis=1)
    # Where a bucket begins in its series, and how far it is from there to the next beginning.
    begins = np.ones(ranked.shape, dtype=bool)
    begins[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    at = np.flatnonzero(begins)
    return Tally(
        begins.sum(axis=1, dtype=np.int32),
        ranked.ravel()[at],
        np.diff(at, append=ranked.size).astype(np.int32),
    )


class Histogram:
    """Counts of all values met, a row for each series; as wide as the values lie apart."""

    def __init__(self, series: int) -> None:
        self._counts = np.zeros((series, 0), dtype=np.int64)
        self._lowest = 0
        """The bucket of the first column."""

    def add(self, met: Tally) -> None:
        """Take counts over."""
        self._widen(int(met.buckets.min()), int(met.buckets.max()))
        series = np.repeat(np.arange(len(met.lengths)), met.lengths)
        self._counts[series, met.buckets.astype(np.int64) - self._lowest] += met.counts

    def tally(self) -> Tally:
        """What it has counted."""
        series, columns = np.nonzero(self._counts)
        return Tally(
            np.bincount(series, minlength=len(self._counts)).astype(np.int32),
            (columns + self._lowest).astype(np.int16),
            self._counts[series, columns].astype(np.int32),
        )

    def quantiles(self, shares: Floats) -> Floats:
        """Interpolate between ranks, as for exact quantiles: a row for each share.

        nan counts as the largest value.
        """
        ranks = shares * (int(self._counts[0].sum()) - 1)
        below = np.floor(ranks).astype(np.int64)
        worth = _worth(np.arange(self._lowest, self._lowest + self._counts.shape[1]))
        found = np.empty((len(shares), len(self._counts)))
        for i, row in enumerate(self._counts):
            reached = np.cumsum(row)
            low = worth[np.searchsorted(reached, below, side="right")]
            above = np.minimum(below + 1, reached[-1] - 1)
            high = worth[np.searchsorted(reached, above, side="right")]
            with np.errstate(invalid="ignore"):  # between a number and infinity
                between = low + (high - low) * (ranks - below)
            found[:, i] = np.where((ranks == below) | (low == high), low, between)
        return found

    def _widen(self, lowest: int, highest: int) -> None:
        series, width = self._counts.shape
        if width:
            lowest = min(lowest, self._lowest)
            highest = max(highest, self._lowest + width - 1)
        if highest - lowest + 1 > width:
            wider = np.zeros((series, highest - lowest + 1), dtype=np.int64)
            wider[:, self._lowest - lowest : self._lowest - lowest + width] = self._counts
            self._counts, self._lowest = wider, lowest


def _buckets(values: Floats) -> npt.NDArray[np.int16]:
    """Number the buckets in the order of the values."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    upper = (single.view(np.int32) >> 16).astype(np.int16)
    size = np.maximum(upper & np.int16(0x7FFF), _SMALLEST - 1) - np.int16(_SMALLEST - 1)
    numbers: npt.NDArray[np.int16] = np.where(upper < 0, -size, size)
    if (nan := np.isnan(single)).any():
        numbers[nan] = _NAN
    return numbers


def _worth(buckets: npt.NDArray[np.int64]) -> Floats:
    """The middle of each bucket."""
    size = np.minimum(np.abs(buckets), _INFINITE - 1) + _SMALLEST - 1
    low, high = ((size + step << 16).astype(np.int32).view(np.float32) for step in (0, 1))
    middle = np.where(buckets == 0, 0.0, low + (high.astype(np.float64) - low) / 2)
    middle[np.abs(buckets) >= _INFINITE] = np.inf
    middle = np.copysign(middle, buckets)
    middle[buckets == _NAN] = np.nan
    return middle
