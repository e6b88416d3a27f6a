"""`entice evaluate`: the table, the JSON, and errors in one sentence."""

from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl
import pytest
from command_line import RunEntice, assert_error, plain
from off_policy_logs import simulate_logs

import entice
from entice.cli.evaluate import as_json
from entice.estimate import Always, Estimate, Uniform, evaluate
from entice.estimate.response import ResponseBounds


@pytest.fixture(autouse=True)
def log(tmp_path: Path) -> pl.DataFrame:
    """Write the log of a simulated campaign to log.parquet."""
    (made,) = simulate_logs([4.2, 3.6], 1, 500, 0.1, 1, share_rated=0.6)
    made.frame.write_parquet(tmp_path / "log.parquet")
    return made.frame


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        ("greedy", entice.Greedy()),
        ("uniform", Uniform()),
        ("always:arm-1", Always("arm-1")),
        ('{ kind = "epsilon_greedy", c = 5 }', entice.EpsilonGreedy(c=5)),
    ],
)
def test_the_command_prints_what_the_function_returns(
    written: str, policy: object, log: pl.DataFrame, run_entice: RunEntice
) -> None:
    expected = evaluate(log, policy, level=0.9)  # type: ignore[arg-type]
    result = run_entice("evaluate", "log.parquet", "--policy", written, "--level", "0.9", "--json")
    assert result.code == 0
    found = json.loads(result.out)
    assert (found["policy"], found["level"], found["decisions"]) == (written, 0.9, 500)
    for quantity in ("rating", "payment"):
        for method, one in getattr(expected, quantity).items():
            assert found[quantity][method] == one._asdict()
    table = plain(run_entice("evaluate", "log.parquet", "--policy", written, "--level", "0.9").out)
    for one in expected.rating.values():
        assert f"{one.value:.3f}" in table
        assert f"{one.low:.3f} to {one.high:.3f}" in table
    assert "90% interval" in table
    assert "EUR per visitor" in table
    assert f"{expected.rated} of 500 visitors rated" in table


def test_a_log_may_be_json_lines(log: pl.DataFrame, run_entice: RunEntice) -> None:
    log.write_ndjson("log.jsonl")
    result = run_entice("evaluate", "log.jsonl", "--policy", "uniform", "--json")
    expected = as_json(evaluate(log, Uniform()), "uniform", 0.95)
    assert json.loads(result.out) == json.loads(json.dumps(expected))
    # A column of JSON Lines that is always null has no type.
    log.with_columns(pl.lit(None).alias(name) for name in ("arms", "propensities")).write_ndjson(
        "log.jsonl"
    )
    assert_error(run_entice("evaluate", "log.jsonl", "--policy", "uniform"), "Set overlap = 0.02")


def test_json_names_all_numbers_and_has_null_for_those_that_are_not_finite(
    log: pl.DataFrame,
) -> None:
    bounds = ResponseBounds(-math.inf, 2.0, 0.5, 1.5, 10, 5, 12, 0, math.nan)
    drift = Estimate(1.0, 0.5, 1.5, 0.2, 5, "a method", "a warning", bounds)
    found = evaluate(log, Uniform())._replace(drift=drift)
    plain_tables = as_json(found, "uniform", 0.95)
    assert plain_tables["drift"]["bounds"]["high"] == 2.0
    assert plain_tables["drift"]["bounds"]["low"] is None
    assert plain_tables["drift"]["bounds"]["p_value"] is None
    assert json.loads(json.dumps(plain_tables, allow_nan=False)) == plain_tables


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("log.parquet", "--policy", "always:tea"), "one of the campaign's arms: arm-0, arm-1"),
        (("log.parquet", "--policy", "ucbb"), "Did you mean 'ucb'?"),
        (("log.parquet", "--policy", "always"), "always:ARM"),
        (("log.parquet", "--policy", "epsilon_greedy"), '{ kind = "epsilon_greedy", c = 5 }'),
        (("log.parquet", "--policy", "{ kind = "), "must be a TOML table"),
        (("log.parquet", "--policy", "greedy", "--level", "2"), "must be between 0 and 1"),
        (("other.parquet", "--policy", "greedy"), "must be a file that exists"),
        (("log.parquet", "--policy", "greedy", "--without-drift"), "probe"),
    ],
)
def test_errors_are_sentences(
    arguments: tuple[str, ...], words: str, run_entice: RunEntice
) -> None:
    assert_error(run_entice("evaluate", *arguments), words)


def test_a_log_without_overlap_is_refused(
    log: pl.DataFrame, tmp_path: Path, run_entice: RunEntice
) -> None:
    nothing = pl.lit(None, pl.List(pl.Float64))
    log.with_columns(propensities=nothing).write_parquet(tmp_path / "log.parquet")
    result = run_entice("evaluate", "log.parquet", "--policy", "greedy")
    assert_error(result, "Set overlap = 0.02 in the campaign")
    some = pl.when(pl.col("decision") > 100).then("propensities")
    log.with_columns(propensities=some).write_parquet(tmp_path / "log.parquet")
    result = run_entice("evaluate", "log.parquet", "--policy", "greedy")
    assert "Left out: 100 decisions without overlap" in plain(result.out)


def test_the_help_teaches(run_entice: RunEntice) -> None:
    text = plain(run_entice("evaluate", "--help").out)
    for words in ("overlap", "decision by decision", "always:oolong", "--without-drift"):
        assert words in text
