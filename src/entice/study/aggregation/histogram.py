"""Quantiles of more values than fit, from counts of values that are nearly alike.

A value's bucket is given by its sign, its exponent and the first seven bits of its mantissa, so
what is told of a run is off by no more than 1/256, 0.4 %, of its value; what is smaller than 1e-12
counts as 0. Quantiles lie between two runs, told that way. Counts do not depend on the order in
which values come, and buckets not on any logarithm, which machines compute differently in the last
digit.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

ACCURACY = 1 / 256
"""What is told of a run is off by no more than this share of its value."""
_SMALLEST = (127 - 40) << 7
"""The upper half of 2^-40 in single precision; what is smaller falls into bucket 0."""
_INFINITE = (255 << 7) - _SMALLEST + 1
_NAN = _INFINITE + 1
_MIDDLE = 1 << 15
"""Added to a bucket's number, so that none is negative."""
_AT_LEAST = 1 << 20
"""Counts that may wait before they are merged."""
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
    """Counts of all values met in each series; buckets that were not met take no room."""

    def __init__(self, series: int) -> None:
        self._series = series
        self._codes = np.empty(0, dtype=np.int64)
        """Series and bucket in one number, in order."""
        self._counts = np.empty(0, dtype=np.int64)
        self._waiting: list[tuple[Counts, Counts]] = []

    def add(self, met: Tally) -> None:
        """Take counts over."""
        series = np.repeat(np.arange(self._series, dtype=np.int64), met.lengths)
        buckets = met.buckets.astype(np.int64) + _MIDDLE
        self._waiting.append((series << 16 | buckets, met.counts.astype(np.int64)))
        # Rarely, so that each count is moved a few times only.
        if sum(len(codes) for codes, _ in self._waiting) > max(_AT_LEAST, len(self._codes)):
            self._merge()

    def tally(self) -> Tally:
        """What it has counted."""
        self._merge()
        return Tally(
            np.bincount(self._codes >> 16, minlength=self._series).astype(np.int32),
            ((self._codes & 0xFFFF) - _MIDDLE).astype(np.int16),
            self._counts.astype(np.int32),
        )

    def quantiles(self, shares: Floats) -> Floats:
        """Interpolate between ranks, as for exact quantiles: a row for each share.

        nan counts as the largest value.
        """
        self._merge()
        worth = _worth((self._codes & 0xFFFF) - _MIDDLE)
        ends = np.searchsorted(self._codes, np.arange(1, self._series + 1) << 16)
        found = np.empty((len(shares), self._series))
        for i, (begin, end) in enumerate(itertools.pairwise([0, *ends])):
            reached = np.cumsum(self._counts[begin:end])
            ranks = shares * (reached[-1] - 1)
            below = np.floor(ranks).astype(np.int64)
            above = np.minimum(below + 1, reached[-1] - 1)
            low, high = (
                worth[begin + np.searchsorted(reached, rank, side="right")]
                for rank in (below, above)
            )
            with np.errstate(invalid="ignore"):  # between a number and infinity
                between = low + (high - low) * (ranks - below)
            found[:, i] = np.where((ranks == below) | (low == high), low, between)
        return found

    def _merge(self) -> None:
        """Bring what waits into its place."""
        if not self._waiting:
            return
        codes = np.concatenate([self._codes, *(codes for codes, _ in self._waiting)])
        counts = np.concatenate([self._counts, *(counts for _, counts in self._waiting)])
        self._waiting.clear()
        order = np.argsort(codes, kind="stable")  # quick, since it is made of parts in order
        codes = codes[order]
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        self._codes, self._counts = codes[begins], np.add.reduceat(counts[order], begins)


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
