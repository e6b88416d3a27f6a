"""Means, standard errors and quantiles: means alone mislead here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.50, "q75": 0.75, "q95": 0.95}
STATISTICS = ("mean", "stderr", *QUANTILES)


def statistics(values: npt.NDArray[Any]) -> dict[str, npt.NDArray[np.float64]]:
    """Summarise over the first axis, the replications.

    The standard error of a single replication is nan: one run tells nothing of its spread.
    """
    count = values.shape[0]
    spread = values.std(axis=0, ddof=1) if count > 1 else np.full(values.shape[1:], math.nan)
    quantiles = np.quantile(values, list(QUANTILES.values()), axis=0)
    return {
        "mean": values.mean(axis=0),
        "stderr": spread / math.sqrt(count),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }
