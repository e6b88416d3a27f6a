"""The arrays that the replications of a cell fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class RunArrays(NamedTuple):
    """What the replications of a cell fill, a row each."""

    metrics: Floats
    pulls: Counts
    stopped: Counts
    """The round in which payments had run away, 0 where they did not."""

    def rows(self, first: int, count: int) -> RunArrays:
        """The room of some replications."""
        return RunArrays._make(array[first : first + count] for array in self)
