"""Terminal tables of bounds and growth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from entice.study.results.table import format_number
from entice.theory.growth import METRICS, Growth

METRIC_NAMES = {
    "regret": "regret",
    "compensation": "compensation",
    "compensated_pulls": "paid pulls",
}
# Fixed widths, so that the tables of all cells line up; 80 characters in total.
WIDTHS = {"": 24, "bound": 8, "applies": 8, "vacuous": 7, "mean": 6, "95 % <": 6, "ratio": 7}


def show_bounds(rows: pl.DataFrame, horizon: int, console: Console) -> None:
    """Print a table for each cell, then the reasons, numbered."""
    notes: dict[str, int] = {}
    console.print(
        f"Bounds after {horizon:,} rounds. Measured: the mean of all runs, and the value that 95 % "
        "of them stay below. Ratio: bound / mean. Lower bounds (≥) are asymptotic: at a finite T, "
        "means may be below them."
    )
    for cell in rows.partition_by("policy_index", "drift_index", maintain_order=True):
        console.print()
        console.print(_cell_table(cell, notes))
    console.print()
    for note, n in notes.items():
        console.print(f"{n:>2}: {escape(note)}.", soft_wrap=True)


def _cell_table(cell: pl.DataFrame, notes: dict[str, int]) -> Table:
    table = _table(f"{cell['policy'][0]}, {cell['drift'][0]}")
    for title, width in WIDTHS.items():
        table.add_column(title, justify="right" if title else "left", min_width=width, no_wrap=True)
    for metric, name in METRIC_NAMES.items():
        for i, row in enumerate(cell.filter(metric=metric).iter_rows(named=True)):
            if i == 0:
                table.add_row(f"[dim]{name}[/]")
            table.add_row(*bound_row(row, notes))
    return table


def bound_row(row: dict[str, Any], notes: dict[str, int]) -> Iterable[str]:
    """Return the cells of a bound, with rich's markup; add its reasons to `notes`, numbered."""
    version = f", {row['version']}" if row["version"] else ""
    vacuous = {True: "yes", False: "no", None: "?"}[row["vacuous"]]
    broken = row["applies"] and row["kind"] == "upper" and (row["ratio"] or 1.0) < 1
    yield f" {'≥' if row['kind'] == 'lower' else '≤'} {escape(row['bound'])}{version}"
    yield ("≥" if row["at_least"] else "") + _value(row["value"])
    yield _marked("yes" if row["applies"] else "no", row["doubts"], notes)
    yield _marked(vacuous, row["emptiness"], notes)
    yield _value(row["mean"])
    yield _value(row["q95"])
    yield f"[bold red]{_value(row['ratio'])}[/]" if broken else _value(row["ratio"])


def _marked(word: str, reasons: list[str], notes: dict[str, int]) -> str:
    marks = [str(notes.setdefault(reason, len(notes) + 1)) for reason in reasons]
    return f"{word} [dim]{','.join(marks)}[/]" if marks else word


def _value(value: float | None) -> str:
    if value is None:
        return "–"
    if value == float("inf"):
        return "∞"
    return power_of_ten(value) if value >= 1e6 else format_number(value)


def power_of_ten(value: float) -> str:
    """Format a large number as a multiple of a power of ten.

    >>> from entice.theory.terminal import power_of_ten
    >>> power_of_ten(4.0e9), power_of_ten(9.96e6)
    ('4·10⁹', '1·10⁷')
    """
    digits, exponent = f"{value:.1e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{float(digits):g}·10{raised}"


def show_growth(found: Growth, console: Console) -> None:
    """Print the exponents of each policy and drift over the first and last decade."""
    T = found.points["T"].to_numpy()
    console.print(
        f"Growth from T = {T.min():,} to {T.max():,}. Exponents: d log / d log T over the first "
        "and the last decade, with a 95 % interval. Fit: the clearly better of a + b log T and "
        "a T^p, with its root mean square relative error. If the exponent contradicts the better "
        "fit, T is too short for a conclusion."
    )
    for policy in found.table.partition_by("policy_index", maintain_order=True):
        table = _table(policy["policy"][0])
        for title in ("drift", "metric"):
            table.add_column(title, no_wrap=True)
        for title in ("first decade", "last decade", "fit"):
            table.add_column(title, justify="right", no_wrap=True)
        for row in policy.iter_rows(named=True):
            table.add_row(*_growth_row(row))
        console.print()
        console.print(table)


def _growth_row(row: dict[str, Any]) -> list[str]:
    names = [escape(row["drift"]) if row["metric"] == METRICS[0] else "", row["metric"]]
    if row["fits"] is None:
        return [*names, "–", "always 0", "–"]
    half = (row["exponent_high"] - row["exponent_low"]) / 2
    fit = {
        "log": f"a + b log T, {row['log_error']:.0%}",
        "power": f"a T^{row['power_p']:.2f}, {row['power_error']:.0%}",
        "undecided": f"undecided, {row['log_error']:.0%} and {row['power_error']:.0%}",
        "too short": "T too short: " + _too_short_reason(row),
    }[row["fits"]]
    return [*names, f"{row['exponent_at_first']:.2f}", f"{row['exponent']:.3f} ± {half:.3f}", fit]


def _too_short_reason(row: dict[str, Any]) -> str:
    if row["exponent_before"] is None:
        return "less than two decades"
    return f"exponent {row['exponent_before']:.2f} → {row['exponent']:.2f}"


def _table(title: str) -> Table:
    return Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
