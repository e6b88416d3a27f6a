"""Means and standard errors that are bitwise equal for any order of arrival.

Sums of floats depend on their order. Here the order is that of a binary tree over the indices of
the replications: neighbours are merged in pairs, then in fours, then in eights. Each block of a
study corresponds to some nodes of that tree, regardless of where and when it ran.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_CHUNK = 64
"""Number of replications merged at a time, a power of two, so that values stay in the cache."""


class MomentNodes(NamedTuple):
    """Nodes of the tree, one in each row."""

    first: Counts
    """Index of the first replication, a multiple of `size`."""
    size: Counts
    """Number of replications, a power of two."""
    mean: Floats
    squares: Floats
    """Sum of squared deviations from the mean."""


def moment_nodes(first: int, values: Floats) -> MomentNodes:
    """Return the nodes of the replications `first`, `first + 1`, …, each a row of `values`."""
    tree = Moments()
    for begin, size in _aligned_ranges(first, len(values)):
        rows = values[begin - first : begin - first + size]
        for offset in range(0, size, _CHUNK):
            chunk = rows[offset : offset + _CHUNK]
            tree.insert(begin + offset, len(chunk), *_merge_all(chunk))
    return tree.nodes()


class Moments:
    """The tree as filled so far. It keeps only nodes whose neighbour is missing."""

    def __init__(self) -> None:
        self._unpaired: dict[tuple[int, int], tuple[Floats, Floats]] = {}

    def add(self, nodes: MomentNodes) -> None:
        """Insert nodes. Each node may be inserted once."""
        for first, size, mean, squares in zip(*nodes, strict=True):
            self.insert(int(first), int(size), mean, squares)

    def insert(self, first: int, size: int, mean: Floats, squares: Floats) -> None:
        """Insert a node, and merge it with its neighbours as far as they are present."""
        while (neighbour := self._unpaired.pop((first ^ size, size), None)) is not None:
            left, right = (mean, squares), neighbour
            if first & size:
                left, right = right, left
            mean, squares = _merge(*left, size, *right, size)
            first, size = first & ~size, 2 * size
        self._unpaired[first, size] = mean, squares

    def nodes(self) -> MomentNodes:
        """Return the unpaired nodes, sorted."""
        places = sorted(self._unpaired)
        return MomentNodes(
            np.array([first for first, _ in places], dtype=np.int64),
            np.array([size for _, size in places], dtype=np.int64),
            np.stack([self._unpaired[place][0] for place in places]),
            np.stack([self._unpaired[place][1] for place in places]),
        )

    def mean_and_error(self) -> tuple[Floats, Floats]:
        """Return the mean over all replications and its standard error (nan for a single one)."""
        (_, count), (mean, squares) = sorted(self._unpaired.items())[-1]
        for (_, size), node in sorted(self._unpaired.items())[-2::-1]:
            mean, squares = _merge(*node, size, mean, squares, count)
            count += size
        if count == 1:
            return mean, np.full(mean.shape, math.nan)
        return mean, np.sqrt(squares / (count - 1)) / math.sqrt(count)


def _aligned_ranges(first: int, count: int) -> Iterator[tuple[int, int]]:
    """Split a range into the largest ranges that are nodes of the tree."""
    end = first + count
    while first < end:
        size = 1 << ((end - first).bit_length() - 1)
        if first:
            size = min(size, first & -first)
        yield first, size
        first += size


def _merge_all(values: Floats) -> tuple[Floats, Floats]:
    """Merge neighbours, a power of two of them, pair by pair."""
    mean, squares, size = values, np.zeros((1,) * values.ndim), 1
    while len(mean) > 1:
        rest = squares[1::2] if size > 1 else squares
        mean, squares = _merge(mean[0::2], squares[0::2], size, mean[1::2], rest, size)
        size *= 2
    return mean[0], np.broadcast_to(squares[0], mean[0].shape)


def _merge(
    left: Floats, left_squares: Floats, n: int, right: Floats, right_squares: Floats, m: int
) -> tuple[Floats, Floats]:
    """Merge the moments of n and of m replications (Chan, Golub and LeVeque 1979)."""
    with np.errstate(invalid="ignore", over="ignore"):  # nan: a stopped run
        delta = right - left
        mean = left + delta * (m / (n + m))
        return mean, left_squares + right_squares + delta * delta * (n / (n + m) * m)
