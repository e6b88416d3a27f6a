"""The blocks of one cell, put together as they arrive, in whatever order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from entice.engine.kernel import METRICS
from entice.study.aggregation.block_digest import BlockResult, Digest
from entice.study.aggregation.histogram import Histogram
from entice.study.aggregation.moments import Moments
from entice.study.aggregation.statistics import QUANTILES, statistics
from entice.study.blocks import Block
from entice.study.run_arrays import RunArrays
from entice.study.spec import Study

Floats = npt.NDArray[np.float64]


class ExactAggregator:
    """All numbers of a cell: its quantiles are exact."""

    def __init__(self, study: Study) -> None:
        arms, rounds = len(study.arms.true_means()), len(study.checkpoint_rounds())
        self.room = RunArrays(
            np.empty((study.replications, rounds, len(METRICS))),
            np.empty((study.replications, arms), dtype=np.int64),
            np.empty(study.replications, dtype=np.int64),
        )

    def take(self, block: Block, piece: BlockResult) -> bool:
        """Take a block over; False if it is none of this cell's."""
        rows = self.room.rows(block.first, block.replications)
        if not isinstance(piece, RunArrays) or any(
            new.shape != row.shape for new, row in zip(piece, rows, strict=True)
        ):
            return False
        for new, row in zip(piece, rows, strict=True):
            row[...] = new
        return True

    def statistics(self) -> dict[str, Floats]:
        """Each statistic as checkpoints × metrics."""
        return statistics(self.room.metrics)


class StreamingAggregator:
    """What means and quantiles of a large study's cell need, and nothing more."""

    def __init__(self, study: Study) -> None:
        self._shape = len(study.checkpoint_rounds()), len(METRICS)
        self._moments = Moments()
        self._histogram = Histogram(self._shape[0] * self._shape[1])

    def take(self, block: Block, piece: BlockResult) -> bool:
        """Take a block over; False if it is none of this cell's."""
        if not isinstance(piece, Digest) or piece.mean.shape[1:] != self._shape:
            return False
        if len(piece.stopped) != block.replications or piece.size.sum() != block.replications:
            return False
        self._moments.add(piece.nodes)
        self._histogram.add(piece.tally)
        return True

    def statistics(self) -> dict[str, Floats]:
        """Each statistic as checkpoints × metrics."""
        mean, error = self._moments.mean_and_error()
        quantiles = self._histogram.quantiles(np.array(list(QUANTILES.values())))
        found: dict[str, Any] = {"mean": mean, "stderr": error}
        for name, values in zip(QUANTILES, quantiles, strict=True):
            found[name] = values.reshape(self._shape)
        return found
