"""Aggregation of the blocks of one cell, which arrive in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from entice.study.aggregation.block_digest import BlockDigest, BlockResult, FinalRounds
from entice.study.aggregation.histogram import Histogram
from entice.study.aggregation.moments import Moments
from entice.study.aggregation.statistics import QUANTILES, statistics
from entice.study.blocks import Block
from entice.study.run_arrays import RunArrays
from entice.study.spec import Study

Floats = npt.NDArray[np.float64]


class ExactAggregator:
    """An aggregator that keeps all numbers of a cell, so its quantiles are exact."""

    def __init__(self, study: Study) -> None:
        self._shapes = (
            (len(study.checkpoint_rounds()), len(study.metrics)),
            (len(study.arms.true_means()),),
            (),
        )
        self._blocks: dict[int, RunArrays] = {}

    def add(self, block: Block, result: BlockResult) -> bool:
        """Add a block. Return False if it does not belong to this cell."""
        if not isinstance(result, RunArrays) or any(
            new.shape != (block.replications, *shape)
            for new, shape in zip(result, self._shapes, strict=True)
        ):
            return False
        self._blocks[block.first] = result
        return True

    @property
    def nbytes(self) -> int:
        """The number of bytes of all numbers."""
        return sum(array.nbytes for block in self._blocks.values() for array in block)

    def last_rounds(self) -> FinalRounds:
        """Return a copy of the numbers of the last round."""
        blocks = self._in_order()
        return FinalRounds(
            np.concatenate([block.metrics[:, -1, :] for block in blocks]),
            np.concatenate([block.pulls for block in blocks]),
            np.concatenate([block.stopped for block in blocks]),
        )

    def statistics(self) -> dict[str, Floats]:
        """Return each statistic as an array of checkpoints × metrics."""
        return statistics(*(block.metrics for block in self._in_order()))

    def _in_order(self) -> list[RunArrays]:
        return [self._blocks[first] for first in sorted(self._blocks)]


class StreamingAggregator:
    """An aggregator that keeps only moments and a histogram, for cells too large for memory."""

    def __init__(self, study: Study) -> None:
        self._shape = len(study.checkpoint_rounds()), len(study.metrics)
        self._moments = Moments()
        self._histogram = Histogram(self._shape[0] * self._shape[1])

    def add(self, block: Block, result: BlockResult) -> bool:
        """Add a block. Return False if it does not belong to this cell."""
        if not isinstance(result, BlockDigest) or result.mean.shape[1:] != self._shape:
            return False
        if len(result.stopped) != block.replications or result.size.sum() != block.replications:
            return False
        self._moments.add(result.nodes)
        self._histogram.add(result.bucket_counts)
        return True

    @property
    def nbytes(self) -> int:
        """0: moments and histogram are small."""
        return 0

    def statistics(self) -> dict[str, Floats]:
        """Return each statistic as an array of checkpoints × metrics."""
        mean, error = self._moments.mean_and_error()
        quantiles = self._histogram.quantiles(np.array(list(QUANTILES.values())))
        found: dict[str, Any] = {"mean": mean, "stderr": error}
        for name, values in zip(QUANTILES, quantiles, strict=True):
            found[name] = values.reshape(self._shape)
        return found
