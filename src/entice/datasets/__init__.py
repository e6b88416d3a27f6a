"""Data that ships with the package."""

from __future__ import annotations

from pathlib import Path


def star_counts() -> Path:
    """Return the path of a CSV file of synthetic star counts, modelled on real ones.

    The file has 100 products in three categories. Each has the number of reviews with 1, 2, 3, 4
    and 5 stars (`stars_1` … `stars_5`), and 40 of them have a second row for their paid reviews
    (`incentivized` = 1). No row describes a real product: `make_star_counts.py`, in the same
    folder, draws all of them from a fixed seed and names the published shares behind them.

    >>> import entice
    >>> arms = entice.Empirical.from_star_counts(entice.datasets.star_counts(), arms=10)
    >>> arms.true_means().round(2).tolist()
    [0.84, 0.88, 0.81, 0.83, 0.76, 0.76, 0.89, 0.92, 0.81, 0.75]
    """
    return Path(__file__).with_name("star_counts.csv")
