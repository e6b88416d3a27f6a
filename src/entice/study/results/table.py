"""A result as a table for the terminal."""

from __future__ import annotations

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from entice.study.results.result import Result

_SHOWN = {"regret": "regret", "compensation": "compensation", "compensated_pulls": "paid pulls"}


def summary_table(result: Result) -> Table:
    """Show each cell's regret, compensation and paid pulls: mean ± error, and the usual range."""
    study = result.study
    table = Table(
        title=f"After {study.horizon:,} rounds, {study.replications:,} runs: mean ± its error, "
        "median \\[5–95 % of runs]",
        title_justify="left",
        title_style="",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("policy\n  drift", overflow="fold")
    for title in _SHOWN.values():
        table.add_column(title, justify="right", no_wrap=True)
    summary = result.summary()
    for p, d, _, _ in study.cells():
        cell = summary.filter(policy_index=p, drift_index=d)
        figures = [
            figures_of(cell.row(by_predicate=pl.col("metric") == m, named=True)) for m in _SHOWN
        ]
        table.add_row(escape(f"{study.policy_labels[p]}\n  {study.drift_labels[d]}"), *figures)
    return table


def figures_of(row: dict[str, float]) -> str:
    """Write a row of statistics as `mean ± error, median [low–high]`."""
    return (
        f"{number(row['mean'])} ± {row['stderr']:,.2g}\n"
        f"{number(row['q50'])} \\[{number(row['q05'])}–{number(row['q95'])}]"
    )


def number(value: float) -> str:
    """Write a number with as many digits as a reader can use.

    >>> from entice.study.results.table import number
    >>> number(1234.5), number(12.345), number(0.12345)
    ('1,234', '12.3', '0.123')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.3g}"
