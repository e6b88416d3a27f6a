"""The arrays that the kernel fills for the replications of a cell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class RunArrays(NamedTuple):
    """Arrays with a row for each replication of a cell."""

    metrics: Floats
    pulls: Counts
    stopped: Counts
    """The round in which a run was stopped because payments grew without bound; 0 otherwise."""

    def rows(self, first: int, count: int) -> RunArrays:
        """Return a view of some consecutive replications."""
        return RunArrays._make(array[first : first + count] for array in self)
