"""The table of a result in the terminal."""

from __future__ import annotations

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from entice.study.results.result import Result

_SHOWN = {"regret": "regret", "compensation": "compensation", "compensated_pulls": "paid pulls"}


def summary_table(result: Result) -> Table:
    """Return a table of regret, compensation and paid pulls: mean ± standard error, and range."""
    study = result.study
    table = Table(
        title=f"After {study.horizon:,} rounds, {study.replications:,} runs: mean ± standard "
        "error, median \\[5–95 % of runs]",
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
        cells = [
            format_statistics(cell.row(by_predicate=pl.col("metric") == m, named=True))
            for m in _SHOWN
        ]
        table.add_row(escape(f"{study.policy_labels[p]}\n  {study.drift_labels[d]}"), *cells)
    return table


def format_statistics(row: dict[str, float]) -> str:
    """Format a row of statistics as `mean ± error, median [low–high]`."""
    return (
        f"{format_number(row['mean'])} ± {row['stderr']:,.2g}\n"
        f"{format_number(row['q50'])} \\[{format_number(row['q05'])}–{format_number(row['q95'])}]"
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
