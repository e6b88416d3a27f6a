"""What a block of a study amounts to where all of its numbers would not fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.engine.kernel import METRICS
from entice.study.aggregation.histogram import Histogram, Tally, tally
from entice.study.aggregation.moments import Moments, Nodes, nodes_of
from entice.study.run_arrays import RunArrays
from entice.study.spec import Study

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

MOST_KEPT = 128 * 2**20
"""Bytes that are kept in memory of the metrics of one cell, or of the last rounds of all."""
FEWEST = 4096
"""Of fewer replications a digest is not much smaller than all numbers."""


def is_large(study: Study) -> bool:
    """Tell whether only digests of a study's blocks are kept; it depends on nothing but the study.

    They are if the metrics of a cell, all replications at all checkpoints, would not fit: with 200
    checkpoints from 16,778 replications on.

    >>> import entice
    >>> from entice.study.aggregation.block_digest import is_large
    >>> study = entice.Study(arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()],
    ...                      horizon=20_000, replications=1_000_000, checkpoints=200)
    >>> is_large(study)
    True
    """
    numbers = study.replications * len(study.checkpoint_rounds()) * len(METRICS)
    return numbers * 8 > MOST_KEPT and study.replications >= FEWEST


def is_on_disk(study: Study) -> bool:
    """Tell whether the last rounds, a row for each run of each cell, wait on disk."""
    cells, arms = len(study.policies) * len(study.drifts), len(study.arms.true_means())
    return is_large(study) or study.replications * cells * (arms + 7) * 8 > MOST_KEPT


class FinalRounds(NamedTuple):
    """What the table of last rounds needs of a block."""

    metrics: Floats
    pulls: Counts
    stopped: Counts


class Digest(NamedTuple):
    """The last round of each replication, and what means and quantiles need of all checkpoints."""

    metrics: Floats
    """In the last round."""
    pulls: Counts
    stopped: Counts
    first: Counts
    size: Counts
    mean: Floats
    squares: Floats
    lengths: npt.NDArray[np.int32]
    buckets: npt.NDArray[np.int16]
    counts: npt.NDArray[np.int32]

    @property
    def nodes(self) -> Nodes:
        """For means and their errors."""
        return Nodes(self.first, self.size, self.mean, self.squares)

    @property
    def tally(self) -> Tally:
        """For quantiles."""
        return Tally(self.lengths, self.buckets, self.counts)


BlockResult = RunArrays | Digest
"""The numbers of a finished block: all of them, or a digest."""


def digest(parts: Iterable[tuple[int, RunArrays]]) -> Digest:
    """Reduce consecutive replications of a cell: some, then more, each with the first one's number.

    The rooms may be one and the same, filled again and again.
    """
    moments, histogram, last = Moments(), None, []
    for first, room in parts:
        moments.add(nodes_of(first, room.metrics))
        histogram = histogram or Histogram(room.metrics[0].size)
        histogram.add(tally(room.metrics))
        last.append((room.metrics[:, -1, :].copy(), room.pulls.copy(), room.stopped.copy()))
    assert histogram is not None
    metrics, pulls, stopped = map(np.concatenate, zip(*last, strict=True))
    return Digest(metrics, pulls, stopped, *moments.nodes(), *histogram.tally())
