"""Star counts of products from a CSV file, for ordinary and for paid reviews."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from entice.errors import InputError

STARS = tuple(f"stars_{i}" for i in range(1, 6))
STAR_VALUES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""1 to 5 stars on a scale from 0 to 1."""


def read_star_counts(path: str | Path) -> pl.DataFrame:
    """Read the number of reviews with 1 to 5 stars of each product.

    The file has a row for each product, with columns `stars_1` … `stars_5`. Two columns are
    optional: `incentivized` is 0 for ordinary reviews (the default) and 1 for paid ones; `product`
    links the rows of one product (by default, the row number).
    """
    try:
        counts = pl.read_csv(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        is_missing = isinstance(error, FileNotFoundError)
        reason = "there is no such file" if is_missing else "it is not a CSV file"
        raise InputError("the star counts", f"can't be read ({reason})", given=str(path)) from error
    missing = [name for name in STARS if name not in counts.columns]
    if missing:
        rule = f"must have the columns {', '.join(STARS)}; {', '.join(missing)} is missing"
        raise InputError("the star counts", rule, given=str(path))
    if "incentivized" not in counts.columns:
        counts = counts.with_columns(incentivized=pl.lit(0))
    if "product" not in counts.columns:
        counts = counts.with_row_index("product")
    stars = counts.select(STARS)
    if (
        not all(kind.is_integer() for kind in stars.dtypes)
        or stars.null_count().sum_horizontal()[0]
    ):
        raise InputError("the star counts", "must be whole numbers", given=str(path))
    if stars.min_horizontal().min() < 0:  # type: ignore[operator]
        raise InputError("the star counts", "must not be negative", given=str(path))
    return counts.filter(stars.sum_horizontal() > 0)
