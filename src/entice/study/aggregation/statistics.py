"""Means, standard errors and quantiles. Means alone mislead: regret is heavily skewed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entice.study.aggregation.order_statistics import order_statistics

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.50, "q75": 0.75, "q95": 0.95}
STATISTICS = ("mean", "stderr", *QUANTILES)
_MIN_SERIES, _NUMBERS_AT_ONCE = 64, 1 << 17
"""How many series, and numbers, are copied and summarised at a time: they stay in the cache."""
_TILE = 256
"""How many replications of these series are copied at a time: 2 ns a number instead of 11."""


def statistics(*parts: npt.NDArray[Any]) -> dict[str, npt.NDArray[np.float64]]:
    """Summarise over the first axis, the replications, which may be given in several parts.

    The standard error of a single replication is nan. Where a run was stopped (nan), the mean and
    its standard error are nan; in quantiles the run counts as the largest value.
    """
    shape, count = parts[0].shape[1:], sum(map(len, parts))
    rows = [part.reshape(len(part), -1) for part in parts]
    ranks = np.array(list(QUANTILES.values())) * (count - 1)
    below = np.floor(ranks).astype(np.int64)
    wanted, places = np.unique([below, np.minimum(below + 1, count - 1)], return_inverse=True)
    series = rows[0].shape[1]
    mean, spread = np.empty(series), np.full(series, math.nan)
    found = np.empty((series, len(wanted)))
    width = max(_MIN_SERIES, _NUMBERS_AT_ONCE // count)
    for begin in range(0, series, width):
        some = slice(begin, begin + width)
        values = _transposed(rows, some, count)
        mean[some] = values.mean(axis=1)
        if count > 1:
            spread[some] = values.std(axis=1, ddof=1, mean=mean[some, None])
        low, high = mean[some] - 3.0 * spread[some], mean[some] + 3.0 * spread[some]
        # nan is ranked last, so a stopped run counts as the largest value.
        found[some] = order_statistics(values, wanted, low, high)
    below_values, above_values = found.T[places].transpose(0, 2, 1)
    between = below_values + (above_values - below_values) * (ranks - below)
    quantiles = np.where(ranks == below, below_values, between).T
    summary = {"mean": mean, "stderr": spread / math.sqrt(count)}
    summary |= dict(zip(QUANTILES, quantiles, strict=True))
    return {name: values.reshape(shape) for name, values in summary.items()}


def _transposed(
    parts: Sequence[npt.NDArray[Any]], some: slice, count: int
) -> npt.NDArray[np.float64]:
    """Copy some series, with a row for each, of all replications."""
    values = np.empty((parts[0][:1, some].shape[1], count))
    end = 0
    for part in parts:
        for begin in range(0, len(part), _TILE):
            tile = part[begin : begin + _TILE, some].T
            values[:, end : end + tile.shape[1]] = tile
            end += tile.shape[1]
    return values
