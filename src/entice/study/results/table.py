"""The table of a result in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from entice.errors import InputError, did_you_mean
from entice.study.results.display_table import DisplayTable
from entice.study.results.result import Result
from entice.study.spec import Study

SHOWN = {"regret": "regret", "compensation": "compensation", "compensated_pulls": "paid pulls"}


def display_table(result: Result, metrics: Sequence[str]) -> DisplayTable:
    """Return the same table for notebooks and papers, with the given metrics."""
    study, titles = result.study, {"best_arm_error": "best arm's error", **SHOWN}
    for metric in metrics:
        if metric not in study.metrics:
            todo = did_you_mean(str(metric), study.metrics)
            raise InputError("metrics", "must be metrics of the study", given=metric, todo=todo)
    summary, rows = result.summary(), []
    for p, policy in enumerate(study.policy_labels):
        rows.append([policy])
        for d, drift in enumerate(study.drift_labels):
            cell = summary.filter(policy_index=p, drift_index=d)
            found = [cell.row(by_predicate=pl.col("metric") == m, named=True) for m in metrics]
            rows.append([drift, *map(format_statistics, found)])
    caption = f"{_caption(study)}, median [5–95 % of runs]"
    return DisplayTable(caption, ["drift", *(titles.get(m, m) for m in metrics)], rows)


def _caption(study: Study) -> str:
    return f"After {study.horizon:,} rounds, {study.replications:,} runs: mean ± standard error"


def summary_table(result: Result) -> Table:
    """Return a table of regret, compensation and paid pulls: mean ± standard error, and range."""
    study = result.study
    table = Table(
        title=f"{_caption(study)}, median \\[5–95 % of runs]",
        title_justify="left",
        title_style="",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("policy\n  drift", overflow="fold")
    for title in SHOWN.values():
        table.add_column(title, justify="right", no_wrap=True)
    summary = result.summary()
    for p, d, _, _ in study.cells():
        cell = summary.filter(policy_index=p, drift_index=d)
        cells = [
            escape(format_statistics(cell.row(by_predicate=pl.col("metric") == m, named=True)))
            for m in SHOWN
        ]
        table.add_row(escape(f"{study.policy_labels[p]}\n  {study.drift_labels[d]}"), *cells)
    return table


def format_statistics(row: dict[str, float]) -> str:
    """Format a row of statistics as `mean ± error, median [low–high]`."""
    error = row["stderr"]
    return (
        f"{format_number(row['mean'])} ± {f'{error:,.0f}' if error >= 100 else f'{error:.2g}'}\n"
        f"{format_number(row['q50'])} [{format_number(row['q05'])}–{format_number(row['q95'])}]"
    )


def format_number(value: float) -> str:
    """Format a number for a table: no decimals from 100, one from 1, else three significant digits.

    >>> from entice.study.results.table import format_number
    >>> format_number(1234.5), format_number(12.345), format_number(0.12345)
    ('1,234', '12.3', '0.123')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.3g}"
