"""Quantiles by selection are the sorted values, bit for bit, whatever the distribution."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from entice.study.aggregation.order_statistics import order_statistics
from entice.study.aggregation.statistics import QUANTILES, statistics

Floats = npt.NDArray[np.float64]

COUNT = 1_000
RANKS = np.array([0, 49, 50, 499, 500, 950, 998, 999])


def _series() -> dict[str, Floats]:
    random = np.random.default_rng(1)
    normal = random.normal(size=COUNT)
    missing, infinite = normal.copy(), normal.copy()
    missing[::7], infinite[::7] = np.nan, np.inf
    return {
        "normal": normal,
        "whole numbers": np.floor(10 * normal),
        "equal": np.full(COUNT, 3.0),
        "heavy tails": np.exp(9 * normal),
        "one outlier": np.append(normal[1:], 1e300),
        "sorted": np.sort(normal),
        "in reverse": np.sort(normal)[::-1].copy(),
        "range beyond the largest number": np.append(normal[2:], [1e308, -1e308]),
        "subnormal": np.floor(10 * normal) * 5e-324,
        "nan": missing,
        "all nan": np.full(COUNT, np.nan),
        "infinite": infinite,
    }


@pytest.mark.parametrize("name", _series())
def test_selected_ranks_are_those_of_sorted_values(name: str) -> None:
    series = _series()[name]
    for low, high in (
        (-3.0, 3.0),
        (0.0, 0.0),
        (-1e9, 1e9),
        (5.0, 6.0),
        (np.nan, np.nan),
        (1.0, -1.0),
    ):
        found = order_statistics(series[None], RANKS, np.array([low]), np.array([high]))
        np.testing.assert_array_equal(found[0], np.sort(series)[RANKS])


def test_several_parts_are_those_of_one() -> None:
    values = np.random.default_rng(3).normal(size=(557, 3, 300))
    whole = statistics(values)
    parts = statistics(values[:300], values[300:301], values[301:])
    for name in whole:
        np.testing.assert_array_equal(parts[name], whole[name])


@pytest.mark.parametrize("count", [1, 2, 24, 512, 513, 1_000])
def test_quantiles_are_those_of_numpy(count: int) -> None:
    values = np.random.default_rng(2).normal(size=(count, 7, 5)).cumsum(axis=1)
    found = statistics(values)
    for name, share in QUANTILES.items():
        np.testing.assert_allclose(found[name], np.quantile(values, share, axis=0), rtol=1e-12)
