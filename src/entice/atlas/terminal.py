"""The table of the atlas in the terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from entice.atlas.atlas import Atlas
from entice.study.results.table import format_number


def print_atlas(found: Atlas, console: Console) -> None:
    """Print regret / compensation of each policy in each world, with the least regret in bold."""
    policies = found.table["policy"].unique(maintain_order=True).to_list()
    table = Table(
        title="Mean regret / compensation; bold: least regret of the world",
        title_justify="left",
        title_style="",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("world", overflow="fold")
    for policy in policies:
        table.add_column(escape(policy), justify="right", overflow="fold")
    for world in found.table.partition_by("world", maintain_order=True):
        cells = []
        for row in world.iter_rows(named=True):
            if row["stopped"] is None:
                cells.append("–")
                continue
            if row["regret"] is None:
                cells.append(f"unbounded\n({row['stopped']:.0%} of runs)")
                continue
            means = f"{format_number(row['regret'])}\n/ {format_number(row['compensation'])}"
            cells.append(f"[bold]{means}[/]" if row["regret_ratio"] == 1 else means)
        table.add_row(escape(world["world"][0]), *cells)
    console.print(table)
