"""Conversion of a long table of ratings to the values and weights of arms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import polars as pl

from entice.checks import as_number, as_whole_number, is_list
from entice.errors import InputError

_WHERE = "Empirical.from_ratings"


def ratings_by_item(
    items: Iterable[Any],
    ratings: Iterable[float],
    counts: Iterable[float] | None,
    scale: tuple[float, float] | None,
    arms: int | None,
    least_ratings: float,
) -> dict[str, Any]:
    """Count the ratings of each item, and return the settings of `Empirical`."""
    table = _table(items, ratings, counts)
    least = as_number(f"{_WHERE}: least_ratings", least_ratings)
    per_item = table.group_by("item", maintain_order=True).agg(total=pl.col("count").sum())
    per_item = per_item.filter((pl.col("total") >= least) & (pl.col("total") > 0))
    if arms is not None:
        if as_whole_number(f"{_WHERE}: arms", arms) < 2:
            raise InputError(f"{_WHERE}: arms", "must be at least 2", given=arms)
        rank = pl.col("total").rank("ordinal", descending=True)
        per_item = per_item.filter(rank <= arms)
    if per_item.height < 2:
        rule = f"must hold at least 2 items with at least {least:g} ratings"
        raise InputError(f"{_WHERE}: items", rule, given=f"{per_item.height} such items")
    table = table.filter(pl.col("item").is_in(per_item["item"].implode()))
    weights = (
        table.sort("rating")
        .pivot("rating", index="item", values="count", aggregate_function="sum")
        .fill_null(0.0)
    )
    weights = per_item.select("item").join(weights, on="item", how="left", maintain_order="left")
    values = table["rating"].unique().sort().to_list()
    return {
        "values": values if scale is None else _scaled(values, scale),
        "weights": weights.drop("item").rows(),
        "names": per_item["item"].to_list(),
    }


def _table(
    items: Iterable[Any], ratings: Iterable[float], counts: Iterable[float] | None
) -> pl.DataFrame:
    columns = {"item": _column("items", items).cast(pl.String)}
    columns["rating"] = _numbers("ratings", ratings)
    if counts is not None:
        columns["count"] = _numbers("counts", counts)
    lengths = {f"{name}s": len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(_WHERE, "must have columns of equal length", given=lengths)
    table = pl.DataFrame(columns)
    if counts is None:
        return table.with_columns(count=pl.lit(1.0))
    if table.height and (lowest := min(table["count"])) < 0:
        raise InputError(f"{_WHERE}: counts", "must not be negative", given=lowest)
    return table


def _column(name: str, given: Any, kind: Callable[[Any], Any] = str) -> pl.Series:
    """Return a column of strings or numbers, and reject missing values."""
    where = f"{_WHERE}: {name}"
    if isinstance(given, pl.Series):
        column = given
    else:
        try:
            values = given.tolist() if hasattr(given, "tolist") else list(given)
        except TypeError:
            raise InputError(where, "must be a column or a list", given=given) from None
        # pandas represents a missing string as nan.
        column = pl.Series([None if v is None or v != v else kind(v) for v in values])
    if column.null_count():
        row = column.is_null().arg_max()
        raise InputError(where, "must have no missing values", given=f"none in row {row}")
    return column


def _numbers(name: str, given: Any) -> pl.Series:
    where = f"{_WHERE}: {name}"
    column = _column(name, given, kind=partial(as_number, where))
    if len(column) and not column.dtype.is_numeric():
        raise InputError(where, "must be numbers", given=column[0])
    numbers = column.cast(pl.Float64)
    for bad in numbers.filter(~numbers.is_finite()).head(1):
        raise InputError(where, "must be finite numbers", given=bad)
    return numbers


def _scaled(values: list[float], scale: Any) -> list[float]:
    if not is_list(scale) or len(scale) != 2:
        rule = "must be the lowest and the highest rating, or none"
        raise InputError(f"{_WHERE}: scale", rule, given=scale)
    low, high = (as_number(f"{_WHERE}: scale[{i}]", v) for i, v in enumerate(scale))
    if not low < high or math.isinf(high - low):
        rule = "must have its lowest rating below its highest"
        raise InputError(f"{_WHERE}: scale", rule, given=scale)
    outside = [value for value in values if not low <= value <= high]
    if outside:
        rule = f"must lie on the scale from {low:g} to {high:g}"
        raise InputError(f"{_WHERE}: ratings", rule, given=outside[0])
    return [(value - low) / (high - low) for value in values]
