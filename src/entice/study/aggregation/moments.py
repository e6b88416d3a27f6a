"""Means and spreads of replications that arrive in any order, the same to the last bit.

Sums of floats depend on their order. Here the order is that of a binary tree over the numbers of
the replications: two neighbours are joined, then two pairs, then two fours. A block of a study
amounts to some nodes of that tree, whoever ran it and whenever it came.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_AT_ONCE = 64
"""So many replications are joined at a time, a power of two: their values stay in the cache."""


class Nodes(NamedTuple):
    """Some nodes of the tree, one in each row."""

    first: Counts
    """Each node's first replication, a multiple of its size."""
    size: Counts
    """Its number of replications, a power of two."""
    mean: Floats
    squares: Floats
    """Sums of squared distances from the mean."""


def nodes_of(first: int, values: Floats) -> Nodes:
    """Find the nodes that replications `first`, `first + 1`, … amount to, a row of values each."""
    tree = Moments()
    for begin, size in _aligned(first, len(values)):
        rows = values[begin - first : begin - first + size]
        for some in range(0, size, _AT_ONCE):
            part = rows[some : some + _AT_ONCE]
            tree.put(begin + some, len(part), *_join_all(part))
    return tree.nodes()


class Moments:
    """The tree as far as it has been filled; it keeps only nodes whose neighbour is missing."""

    def __init__(self) -> None:
        self._alone: dict[tuple[int, int], tuple[Floats, Floats]] = {}

    def add(self, nodes: Nodes) -> None:
        """Take nodes over, each of them once."""
        for first, size, mean, squares in zip(*nodes, strict=True):
            self.put(int(first), int(size), mean, squares)

    def put(self, first: int, size: int, mean: Floats, squares: Floats) -> None:
        """Put one node into its place, and join what has become complete."""
        while (neighbour := self._alone.pop((first ^ size, size), None)) is not None:
            left, right = (mean, squares), neighbour
            if first & size:
                left, right = right, left
            mean, squares = _join(*left, size, *right, size)
            first, size = first & ~size, 2 * size
        self._alone[first, size] = mean, squares

    def nodes(self) -> Nodes:
        """What it keeps, in order."""
        places = sorted(self._alone)
        return Nodes(
            np.array([first for first, _ in places], dtype=np.int64),
            np.array([size for _, size in places], dtype=np.int64),
            np.stack([self._alone[place][0] for place in places]),
            np.stack([self._alone[place][1] for place in places]),
        )

    def mean_and_error(self) -> tuple[Floats, Floats]:
        """The mean over all replications, and its standard error (nan for a single one)."""
        (_, count), (mean, squares) = sorted(self._alone.items())[-1]
        for (_, size), node in sorted(self._alone.items())[-2::-1]:
            mean, squares = _join(*node, size, mean, squares, count)
            count += size
        if count == 1:
            return mean, np.full(mean.shape, math.nan)
        return mean, np.sqrt(squares / (count - 1)) / math.sqrt(count)


def _aligned(first: int, count: int) -> Iterator[tuple[int, int]]:
    """Cut a range into the largest pieces that are nodes of the tree."""
    end = first + count
    while first < end:
        size = 1 << ((end - first).bit_length() - 1)
        if first:
            size = min(size, first & -first)
        yield first, size
        first += size


def _join_all(values: Floats) -> tuple[Floats, Floats]:
    """Join a power of two of neighbours, pair by pair."""
    mean, squares, size = values, np.zeros((1,) * values.ndim), 1
    while len(mean) > 1:
        rest = squares[1::2] if size > 1 else squares
        mean, squares = _join(mean[0::2], squares[0::2], size, mean[1::2], rest, size)
        size *= 2
    return mean[0], np.broadcast_to(squares[0], mean[0].shape)


def _join(
    left: Floats, left_squares: Floats, n: int, right: Floats, right_squares: Floats, m: int
) -> tuple[Floats, Floats]:
    """Join the moments of n and of m replications (Chan, Golub and LeVeque 1979)."""
    with np.errstate(invalid="ignore", over="ignore"):  # nan: a run that was stopped
        cache_aligned = right - left
        mean = left + cache_aligned * (m / (n + m))
        return mean, left_squares + right_squares + cache_aligned * cache_aligned * (
            n / (n + m) * m
        )
