"""The table of bounds in notebooks."""

from __future__ import annotations

import html

import polars as pl
from rich.text import Text

from entice.study.results.display_table import DisplayTable
from entice.theory.terminal import METRIC_NAMES, WIDTHS, bound_row

_CAPTION = (
    "Bounds after the last round. Measured: the mean of all runs, and the value that 95 % of them "
    "stay below. Ratio: bound / mean. Lower bounds (≥) are asymptotic."
)


def bounds_html(rows: pl.DataFrame) -> str:
    """Return the bounds of all cells as one table, then the reasons, numbered."""
    notes: dict[str, int] = {}
    lines: list[list[str]] = []
    for cell in rows.partition_by("policy_index", "drift_index", maintain_order=True):
        for metric, name in METRIC_NAMES.items():
            found = cell.filter(metric=metric)
            if len(found):
                lines.append([f"{cell['policy'][0]}, {cell['drift'][0]}: {name}"])
            for row in found.iter_rows(named=True):
                lines.append([Text.from_markup(text).plain for text in bound_row(row, notes)])
    listed = "".join(f"<li>{html.escape(note)}.</li>" for note in notes)
    return DisplayTable(_CAPTION, list(WIDTHS), lines).to_html() + f"<ol>{listed}</ol>"
