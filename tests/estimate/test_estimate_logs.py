"""Estimates from files and frames, and the validation of their columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from estimate_fixtures import TEA

import entice
from entice.estimate import probe_curve, probe_slope, regression


@pytest.mark.parametrize("ending", ["csv", "CSV", "parquet", "jsonl"])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_log_may_be_a_file(tmp_path: Path, ending: str, as_text: bool) -> None:
    path = tmp_path / f"log.{ending}"
    frame = TEA.with_columns(probe_amount=0.3, comment=pl.lit("hm"))
    if ending == "parquet":
        frame.write_parquet(path)
    elif ending == "jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_csv(path)
    rounds = str(path) if as_text else path
    assert probe_slope(rounds) == probe_slope(TEA, amount=0.3)
    assert probe_curve(rounds).points.equals(probe_curve(TEA, amount=0.3).points)
    assert regression(rounds) == regression(TEA)


def test_a_log_may_be_lazy_and_coins_may_be_booleans() -> None:
    frame = TEA.with_columns(pl.col("probe").cast(pl.Boolean)).lazy()
    assert probe_slope(frame, amount=0.3) == probe_slope(TEA, amount=0.3)


def with_column(**columns: Any) -> pl.DataFrame:
    return TEA.with_columns(probe_amount=0.3).with_columns(
        **{name: pl.Series(values, strict=False) for name, values in columns.items()}
    )


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        (TEA.drop("feedback"), "rounds must have the columns arm, payment, feedback, probe; "),
        (TEA.drop("feedback"), "feedback is missing; got ['arm', 'payment', 'probe']."),
        (TEA.drop("probe"), "entice.trace adds it if called with probe=entice.Probe()."),
        (TEA, "amount must be given: the amount that heads add to the payment."),
        (7, "must be a polars frame, or the path of a CSV, Parquet or JSON Lines file; got 7."),
        ("log.xlsx", "must be a .csv, .parquet or .jsonl file; got 'log.xlsx'."),
        ("nowhere.csv", "must be a file that exists; got 'nowhere.csv'."),
        (with_column(payment=["0", "0.3", "a lot", "0.3", "0"]), "payment must be a number"),
        (with_column(payment=["0", "0.3", "a lot", "0.3", "0"]), "got \"'a lot' in row 3 of 5\"."),
        (with_column(payment=[0.0, None, 0.0, 0.3, 0.0]), "payment must be a finite number"),
        (with_column(feedback=[0.0, math.inf, 0.0, 0.3, 0.0]), "feedback must be finite, or null"),
        (with_column(arm=["tea", None, "tea", "tea", "tea"]), "arm must name an arm in every row"),
        (with_column(probe=[0, 1, 2, 1, 0]), "probe must be 1, 0 or null in every row"),
        (with_column(probe=[None] * 5), "must have at least one rated offer with a coin toss"),
        (with_column(probe=[1, 1, 0, 1, 0]), "payment must include the amount where the coin fell"),
        (with_column(probe=[1, 1, 0, 1, 0]), "got '0.0 in row 1 of 5'"),
        (with_column(probe_amount=[0.3, 0.0, 0.3, 0.3, 0.3]), "amount must be greater than 0"),
        (with_column(offered_arm=["tea"] * 5), "must have the column greedy_arm if it has offered"),
        (with_column(probe=[None, 1, None, None, None]), "must have at least 2 rated probes of"),
    ],
)
def test_invalid_logs_are_rejected(rounds: Any, message: str) -> None:
    with pytest.raises(entice.InputError) as caught:
        probe_slope(rounds)
    assert message in str(caught.value)


def test_an_invalid_parquet_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_text("arm,payment,feedback\n")
    with pytest.raises(entice.InputError, match="rounds cannot be read"):
        regression(path)


@pytest.mark.parametrize("rounds", [TEA.with_columns(payment=0.0), TEA[:2], TEA[:0]])
def test_a_regression_requires_different_payments(rounds: pl.DataFrame) -> None:
    with pytest.raises(entice.InputError, match="ratings at different payments"):
        regression(rounds)


def test_an_amount_that_contradicts_the_log_is_rejected() -> None:
    with pytest.raises(entice.InputError, match=r"amount must be 0\.2 in every row"):
        probe_slope(TEA.with_columns(probe_amount=0.3), amount=0.2)


@pytest.mark.parametrize("level", [0, 1, 95, "much"])
@pytest.mark.parametrize("estimate", [regression, probe_slope, probe_curve])
def test_a_level_is_a_probability(estimate: Callable[..., Any], level: Any) -> None:
    with pytest.raises(entice.InputError, match="level must be"):
        estimate(TEA.with_columns(probe_amount=0.3), level=level)
