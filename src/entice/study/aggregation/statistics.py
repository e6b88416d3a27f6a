"""Means, standard errors and quantiles. Means alone mislead: regret is heavily skewed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from entice.study.aggregation.order_statistics import order_statistics

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.50, "q75": 0.75, "q95": 0.95}
STATISTICS = ("mean", "stderr", *QUANTILES)
_ROWS_AT_ONCE, _SERIES_AT_ONCE = 64, 256
"""Sizes of the parts that are transposed at a time."""


def statistics(values: npt.NDArray[Any]) -> dict[str, npt.NDArray[np.float64]]:
    """Summarise over the first axis, the replications.

    The standard error of a single replication is nan. Where a run was stopped (nan), the mean and
    its standard error are nan; in quantiles the run counts as the largest value.
    """
    count = values.shape[0]
    mean = values.mean(axis=0, keepdims=True)
    spread = np.full(mean.shape, math.nan)
    if count > 1:
        spread = values.std(axis=0, ddof=1, mean=mean, keepdims=True)
    quantiles = _quantiles(values, mean - 3.0 * spread, mean + 3.0 * spread)
    return {
        "mean": mean[0],
        "stderr": spread[0] / math.sqrt(count),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }


def _quantiles(
    values: npt.NDArray[Any], low: npt.NDArray[Any], high: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """Interpolate linearly between ranks. Most values should be between `low` and `high`."""
    count = values.shape[0]
    ranks = np.array(list(QUANTILES.values())) * (count - 1)
    below = np.floor(ranks).astype(np.int64)
    wanted, places = np.unique([below, np.minimum(below + 1, count - 1)], return_inverse=True)
    rows, low, high = values.reshape(count, -1), low.reshape(-1), high.reshape(-1)
    found = np.empty((rows.shape[1], len(wanted)))
    for begin in range(0, rows.shape[1], _SERIES_AT_ONCE):
        part = slice(begin, begin + _SERIES_AT_ONCE)
        # nan is ranked last, so a stopped run counts as the largest value.
        found[part] = order_statistics(_transposed(rows[:, part]), wanted, low[part], high[part])
    below_values, above_values = found.T[places].transpose(0, 2, 1)
    between = below_values + (above_values - below_values) * (ranks - below)
    quantiles: npt.NDArray[np.float64] = np.where(ranks == below, below_values, between)
    return quantiles.T.reshape(len(ranks), *values.shape[1:])


def _transposed(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return a contiguous copy of the transposed array, made in parts that stay in the cache."""
    columns = np.empty(rows.shape[::-1])
    for begin in range(0, len(rows), _ROWS_AT_ONCE):
        end = begin + _ROWS_AT_ONCE
        columns[:, begin:end] = rows[begin:end].T
    return columns
