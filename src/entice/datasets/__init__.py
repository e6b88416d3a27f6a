"""Data that ships with the package."""

from __future__ import annotations

from pathlib import Path


def star_counts() -> Path:
    """Return the path of a CSV file of star counts, made up after the shape of real ones.

    100 products of three categories; for each, how many reviews gave 1, 2, 3, 4 and 5 stars
    (`stars_1` … `stars_5`), with a second row for the paid reviews of 40 of them
    (`incentivized` = 1). No row is a real product's: `make_star_counts.py`, beside the file,
    draws all of them from a fixed seed and says after which published shares.

    >>> import entice
    >>> arms = entice.Empirical.from_star_counts(entice.datasets.star_counts(), arms=10)
    >>> arms.true_means().round(2).tolist()
    [0.84, 0.88, 0.81, 0.83, 0.76, 0.76, 0.89, 0.92, 0.81, 0.75]
    """
    return Path(__file__).with_name("star_counts.csv")
