"""A result as a table for the terminal."""

from __future__ import annotations

import polars as pl
from rich.markup import escape
from rich.table import Table

from entice.study.result import Result

_SHOWN = {"regret": "regret", "compensation": "compensation", "compensated_pulls": "paid pulls"}


def summary_table(result: Result) -> Table:
    """Show each cell's regret, compensation and paid pulls: mean ± error, and the usual range."""
    study = result.study
    table = Table(
        title=f"After {study.horizon:,} rounds, {study.replications:,} runs: mean ± its error, "
        "median \\[5 % to 95 % of runs]",
        title_justify="left",
        title_style="",
    )
    table.add_column("policy", overflow="fold")
    table.add_column("drift", overflow="fold")
    for title in _SHOWN.values():
        table.add_column(title, justify="right", no_wrap=True)
    summary = result.summary()
    for p, d, policy, drift in study.cells():
        cell = summary.filter(policy_index=p, drift_index=d)
        figures = [
            figures_of(cell.row(by_predicate=pl.col("metric") == m, named=True)) for m in _SHOWN
        ]
        table.add_row(escape(policy.label), escape(drift.label), *figures)
    return table


def figures_of(row: dict[str, float]) -> str:
    """Write a row of statistics as `mean ± error, median [low to high]`."""
    return (
        f"{row['mean']:,.0f} ± {row['stderr']:,.1f}\n"
        f"{row['q50']:,.0f} \\[{row['q05']:,.0f} to {row['q95']:,.0f}]"
    )
