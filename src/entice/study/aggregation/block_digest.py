"""The digest of a block: a summary for studies whose numbers do not fit in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.study.aggregation.histogram import BucketCounts, Histogram, count_buckets
from entice.study.aggregation.moments import MomentNodes, Moments, moment_nodes
from entice.study.run_arrays import RunArrays
from entice.study.spec import Study

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

MAX_BYTES = 128 * 2**20
"""Memory limit for the metrics of one cell, and for the last rounds of all cells."""
MIN_REPLICATIONS = 4096
"""With fewer replications, a digest is not much smaller than the numbers themselves."""


def is_large(study: Study) -> bool:
    """Return whether only digests of a study's blocks are kept. Depends on the study alone.

    This is the case if the metrics of a cell, all replications at all checkpoints, exceed 128 MiB:
    with 200 checkpoints, if there are 16,778 or more replications.

    >>> import entice
    >>> from entice.study.aggregation.block_digest import is_large
    >>> study = entice.Study(arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()],
    ...                      horizon=20_000, replications=1_000_000, checkpoints=200)
    >>> is_large(study)
    True
    """
    numbers = study.replications * len(study.checkpoint_rounds()) * len(study.metrics)
    return numbers * 8 > MAX_BYTES and study.replications >= MIN_REPLICATIONS


def is_on_disk(study: Study) -> bool:
    """Return whether the last rounds, a row for each run of each cell, are kept on disk."""
    cells, arms = len(study.policies) * len(study.drifts), len(study.arms.true_means())
    return is_large(study) or study.replications * cells * (arms + 7) * 8 > MAX_BYTES


class FinalRounds(NamedTuple):
    """The part of a block from which the frame of last rounds, `Result.final`, is built."""

    metrics: Floats
    pulls: Counts
    stopped: Counts


class BlockDigest(NamedTuple):
    """The last round of each replication; moments and histogram of all checkpoints."""

    metrics: Floats
    """The metrics of each replication in the last round."""
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
    def nodes(self) -> MomentNodes:
        """The moments, for means and their standard errors."""
        return MomentNodes(self.first, self.size, self.mean, self.squares)

    @property
    def bucket_counts(self) -> BucketCounts:
        """The histogram, for quantiles."""
        return BucketCounts(self.lengths, self.buckets, self.counts)


BlockResult = RunArrays | BlockDigest
"""The result of a block: all of its numbers, or a digest of them."""


def digest(parts: Iterable[tuple[int, RunArrays]]) -> BlockDigest:
    """Reduce consecutive replications of a cell to a digest.

    Each part has the index of its first replication. The parts may share one set of arrays, which
    is refilled between them.
    """
    moments, histogram, last = Moments(), None, []
    for first, arrays in parts:
        moments.add(moment_nodes(first, arrays.metrics))
        histogram = histogram or Histogram(arrays.metrics[0].size)
        histogram.add(count_buckets(arrays.metrics))
        last.append((arrays.metrics[:, -1, :].copy(), arrays.pulls.copy(), arrays.stopped.copy()))
    assert histogram is not None
    metrics, pulls, stopped = map(np.concatenate, zip(*last, strict=True))
    return BlockDigest(metrics, pulls, stopped, *moments.nodes(), *histogram.bucket_counts())
