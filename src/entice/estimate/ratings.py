"""Reading and validation of ratings, from a trace or from a log."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from entice.checks import as_number
from entice.errors import InputError

Rounds = pl.DataFrame | pl.LazyFrame | str | Path
"""A trace, a frame with the same columns, or the path of a CSV, Parquet or JSON Lines file."""

_READERS: dict[str, Any] = {
    ".csv": partial(pl.scan_csv, infer_schema_length=None),
    ".parquet": pl.scan_parquet,
    ".jsonl": partial(pl.scan_ndjson, infer_schema_length=None),
}
_OPTIONAL = ("t", "greedy_arm", "offered_arm", "probe_amount")
ROUNDING = 1e-9
"""Payments that differ by less, relative to the probe's amount, are considered equal."""


def read_ratings(rounds: Rounds, *more: str) -> pl.DataFrame:
    """Return all rows in order of time, validated: arm, payment, feedback and `more` columns.

    Feedback is null in rows whose rating never arrived (null or nan).
    """
    frame = _as_floats(_load(rounds, ("arm", "payment", "feedback", *more)), "payment", "feedback")
    frame = frame.with_columns(pl.col("feedback").fill_nan(None))
    _reject_rows(frame, "arm", pl.col("arm").is_null(), "must name an arm in every row")
    _reject_rows(frame, "payment", ~_finite("payment"), "must be a finite number in every row")
    _reject_rows(frame, "feedback", pl.col("feedback").is_infinite(), "must be finite, or null")
    if "t" in frame.columns:
        if not (frame["t"].dtype.is_numeric() or frame["t"].dtype.is_temporal()):
            rule = "must be numbers or times, because ratings are sorted by it"
            raise InputError("the column t", rule, given=frame["t"].head(2).to_list())
        frame = frame.sort("t", maintain_order=True)
    return frame


def read_probed_offers(rounds: Rounds, amount: float | None) -> pl.DataFrame:
    """Return all rows in order of time: arm, payment, feedback, coin, amount and base.

    `feedback` is null if the rating never arrived. `coin` is null if it was not tossed. `base` is
    the payment before the coin. If players may decline, a coin counts only if the player was
    offered their own choice: whether they take another arm depends on the payment, and therefore
    on the coin.
    """
    frame = _as_floats(read_ratings(rounds, "probe"), "probe")
    frame = frame.with_columns(pl.col("probe").fill_nan(None).alias("coin"))
    _reject_rows(
        frame, "probe", ~pl.col("coin").is_in([0.0, 1.0]), "must be 1, 0 or null in every row"
    )
    if "offered_arm" in frame.columns:
        if "greedy_arm" not in frame.columns:
            raise InputError(
                "rounds",
                "must have the column greedy_arm if it has offered_arm",
                given=frame.columns,
                todo="Players may decline any arm but their own choice, and do so more often if "
                "the coin adds nothing, so only probes of their own choice can be compared.",
            )
        own = pl.col("offered_arm") == pl.col("greedy_arm")
        frame = frame.with_columns(pl.when(own).then("coin"))
    frame = _with_amounts(frame, amount)
    frame = frame.with_columns(base=pl.col("payment") - pl.col("coin") * pl.col("amount"))
    _reject_rows(
        frame,
        "payment",
        pl.col("base") < -ROUNDING * pl.col("amount"),
        "must include the amount where the coin fell heads",
        todo="If offers were declined, add the columns offered_arm and greedy_arm.",
    )
    return frame.select("arm", "payment", "feedback", "coin", "amount", "base")


def read_probed_ratings(rounds: Rounds, amount: float | None) -> pl.DataFrame:
    """Return all ratings in order of time, with the columns of `read_probed_offers`."""
    return rated_offers(read_probed_offers(rounds, amount))


def rated_offers(offers: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `read_probed_offers` that are rated; at least one must be probed."""
    frame = offers.filter(pl.col("feedback").is_not_null())
    if frame["coin"].count() == 0:
        raise InputError(
            "rounds",
            "must have at least one rated offer with a coin toss",
            given=f"{frame.height} ratings, none of a probed offer",
            todo="Set `probe` in the campaign, or trace with probe=entice.Probe(share=0.05, "
            "amount=0.3).",
        )
    return frame


def _with_amounts(frame: pl.DataFrame, given: float | None) -> pl.DataFrame:
    """Add the column `amount`: the amount that heads add."""
    amount = None if given is None else check_amount(given)
    if "probe_amount" not in frame.columns:
        if amount is None:
            raise InputError(
                "amount",
                "must be given: the amount that heads add to the payment",
                todo="Or add a column probe_amount to the rounds.",
            )
        return frame.with_columns(amount=pl.lit(amount))
    frame = _as_floats(frame, "probe_amount").rename({"probe_amount": "amount"})
    tossed = pl.col("coin").is_not_null()
    positive = _finite("amount") & (pl.col("amount") > 0)
    _reject_rows(
        frame, "amount", tossed & ~positive, "must be greater than 0 where a coin was tossed"
    )
    if amount is not None:
        rule = f"must be {amount:g} in every row, as the argument amount says"
        _reject_rows(frame, "amount", tossed & (pl.col("amount") != amount), rule)
    return frame


def check_amount(given: Any) -> float:
    """Return `given` as an amount that heads add to a payment."""
    amount = as_number("amount", given)
    if amount <= 0:
        raise InputError("amount", "must be greater than 0", given=given)
    return amount


def _load(rounds: Rounds, needed: tuple[str, ...]) -> pl.DataFrame:
    lazy = scan_rounds("rounds", rounds)
    try:
        columns = lazy.collect_schema().names()
        missing = [name for name in needed if name not in columns]
        if missing:
            todo = "entice.trace returns such a frame."
            if missing == ["probe"]:
                todo = "entice.trace adds it if called with probe=entice.Probe()."
            rule = f"must have the columns {', '.join(needed)}; {', '.join(missing)} is missing"
            raise InputError("rounds", rule, given=columns, todo=todo)
        selected = [name for name in columns if name in needed or name in _OPTIONAL]
        return lazy.select(selected).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError("rounds", f"cannot be read ({error})", given=rounds) from error


def scan_rounds(where: str, rounds: Rounds) -> pl.LazyFrame:
    """Return a frame, or the contents of a CSV, Parquet or JSON Lines file."""
    if isinstance(rounds, pl.DataFrame | pl.LazyFrame):
        return rounds.lazy()
    if not isinstance(rounds, str | Path):
        rule = "must be a polars frame, or the path of a CSV, Parquet or JSON Lines file"
        raise InputError(where, rule, given=rounds)
    path = Path(rounds)
    if path.suffix.lower() not in _READERS:
        raise InputError(where, "must be a .csv, .parquet or .jsonl file", given=str(path))
    if not path.is_file():
        raise InputError(where, "must be a file that exists", given=str(path))
    scanned: pl.LazyFrame = _READERS[path.suffix.lower()](path)
    return scanned


def _as_floats(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Convert columns to floats, or raise an error that names the first row without a number."""
    for name in names:
        if frame.schema[name] == pl.Float64:
            continue
        as_floats = frame[name].cast(pl.Float64, strict=False)
        not_numbers = as_floats.is_null() & frame[name].is_not_null()
        _reject_rows(frame, name, pl.lit(not_numbers), "must be a number in every row")
        frame = frame.with_columns(as_floats)
    return frame


def _finite(name: str) -> pl.Expr:
    return pl.col(name).is_finite().fill_null(False)


def _reject_rows(
    frame: pl.DataFrame, name: str, bad: pl.Expr, rule: str, todo: str | None = None
) -> None:
    """Raise an error that names the first bad row, if any."""
    rows = frame.select(bad.fill_null(False).arg_true()).to_series()
    if len(rows):
        given = f"{frame[name][rows[0]]!r} in row {rows[0] + 1} of {frame.height}"
        raise InputError(f"rounds: {name}", rule, given=given, todo=todo)
