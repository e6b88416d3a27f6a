"""Quantiles of more values than fit in memory, from a histogram.

The bucket of a value is its sign, its exponent and the first seven bits of its mantissa, so the
relative error is at most 1/256 (0.4 %); values below 1e-12 count as 0. Quantiles interpolate
between two values of that accuracy. Counts do not depend on the order in which values arrive.
Buckets need no logarithm, whose last digit differs between machines.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

ACCURACY = 1 / 256
"""Maximum relative error of a value."""
_SMALLEST = (127 - 40) << 7
"""The upper 16 bits of 2^-40 in single precision; smaller values fall into bucket 0."""
_INFINITE = (255 << 7) - _SMALLEST + 1
_NAN = _INFINITE + 1
_OFFSET = 1 << 15
"""Added to the index of a bucket, so that none is negative."""
_MIN_PENDING = 1 << 20
"""Minimum number of counts that are collected before they are merged."""
_SERIES_AT_ONCE = 40
"""Number of series that are sorted at a time, so that their values stay in the cache."""


class BucketCounts(NamedTuple):
    """The number of values in each non-empty bucket of each series."""

    lengths: npt.NDArray[np.int32]
    """For each series, its number of entries in `buckets` and `counts`."""
    buckets: npt.NDArray[np.int16]
    counts: npt.NDArray[np.int32]


def count_buckets(values: Floats) -> BucketCounts:
    """Count the values in each bucket; each column of `values` is a series."""
    columns = values.reshape(len(values), -1)
    some = range(0, columns.shape[1], _SERIES_AT_ONCE)
    found = [_count_buckets(columns[:, begin : begin + _SERIES_AT_ONCE]) for begin in some]
    return BucketCounts(*map(np.concatenate, zip(*found, strict=True)))


def _count_buckets(columns: Floats) -> BucketCounts:
    ranked = np.ascontiguousarray(_buckets(columns).T)
    ranked.sort(axis=1)
    # A bucket begins where the sorted values change; its count is the distance to the next one.
    begins = np.ones(ranked.shape, dtype=bool)
    begins[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    at = np.flatnonzero(begins)
    return BucketCounts(
        begins.sum(axis=1, dtype=np.int32),
        ranked.ravel()[at],
        np.diff(at, append=ranked.size).astype(np.int32),
    )


class Histogram:
    """A sparse histogram of each of several series."""

    def __init__(self, series: int) -> None:
        self._series = series
        self._codes = np.empty(0, dtype=np.int64)
        """Series and bucket packed into one number, sorted."""
        self._counts = np.empty(0, dtype=np.int64)
        self._pending: list[tuple[Counts, Counts]] = []

    def add(self, new: BucketCounts) -> None:
        """Add counts."""
        series = np.repeat(np.arange(self._series, dtype=np.int64), new.lengths)
        buckets = new.buckets.astype(np.int64) + _OFFSET
        self._pending.append((series << 16 | buckets, new.counts.astype(np.int64)))
        # Merge rarely, so that each count is moved only a few times.
        if sum(len(codes) for codes, _ in self._pending) > max(_MIN_PENDING, len(self._codes)):
            self._merge()

    def bucket_counts(self) -> BucketCounts:
        """Return all counts."""
        self._merge()
        return BucketCounts(
            np.bincount(self._codes >> 16, minlength=self._series).astype(np.int32),
            ((self._codes & 0xFFFF) - _OFFSET).astype(np.int16),
            self._counts.astype(np.int32),
        )

    def quantiles(self, shares: Floats) -> Floats:
        """Return quantiles, interpolated linearly between ranks: a row for each share.

        nan counts as the largest value.
        """
        self._merge()
        values = _bucket_values((self._codes & 0xFFFF) - _OFFSET)
        ends = np.searchsorted(self._codes, np.arange(1, self._series + 1) << 16)
        found = np.empty((len(shares), self._series))
        for i, (begin, end) in enumerate(itertools.pairwise([0, *ends])):
            cumulative = np.cumsum(self._counts[begin:end])
            ranks = shares * (cumulative[-1] - 1)
            below = np.floor(ranks).astype(np.int64)
            above = np.minimum(below + 1, cumulative[-1] - 1)
            low, high = (
                values[begin + np.searchsorted(cumulative, rank, side="right")]
                for rank in (below, above)
            )
            with np.errstate(invalid="ignore"):  # between a number and infinity
                between = low + (high - low) * (ranks - below)
            found[:, i] = np.where((ranks == below) | (low == high), low, between)
        return found

    def _merge(self) -> None:
        """Merge the pending counts."""
        if not self._pending:
            return
        codes = np.concatenate([self._codes, *(codes for codes, _ in self._pending)])
        counts = np.concatenate([self._counts, *(counts for _, counts in self._pending)])
        self._pending.clear()
        order = np.argsort(codes, kind="stable")  # fast, because the parts are sorted
        codes = codes[order]
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        self._codes, self._counts = codes[begins], np.add.reduceat(counts[order], begins)


def _buckets(values: Floats) -> npt.NDArray[np.int16]:
    """Return the bucket index of each value; indices are ordered as the values are."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    upper = (single.view(np.int32) >> 16).astype(np.int16)
    size = np.maximum(upper & np.int16(0x7FFF), _SMALLEST - 1) - np.int16(_SMALLEST - 1)
    numbers: npt.NDArray[np.int16] = np.where(upper < 0, -size, size)
    if (nan := np.isnan(single)).any():
        numbers[nan] = _NAN
    return numbers


def _bucket_values(buckets: npt.NDArray[np.int64]) -> Floats:
    """Return the middle of each bucket."""
    size = np.minimum(np.abs(buckets), _INFINITE - 1) + _SMALLEST - 1
    low, high = ((size + step << 16).astype(np.int32).view(np.float32) for step in (0, 1))
    middle = np.where(buckets == 0, 0.0, low + (high.astype(np.float64) - low) / 2)
    middle[np.abs(buckets) >= _INFINITE] = np.inf
    middle = np.copysign(middle, buckets)
    middle[buckets == _NAN] = np.nan
    return middle
