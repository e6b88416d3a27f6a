"""The tables of a reproduction in the terminal, with the published values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

from entice.paper.setups import COEFFICIENTS, NAMES, SETUPS
from entice.study.results.table import format_number

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from entice.paper.reproduce import Reproduction

SETUP_NAMES = {"written": "ours, as written", "published": "ours, best fit"}
METRIC_NAMES = {
    "regret": "regret",
    "compensation": "compensation",
    "compensated_pulls": "paid pulls",
    "best_arm_error_percent": "error, %",
}


def print_reproduction(reproduction: Reproduction, console: Console) -> None:
    """Print both tables, the coverage and the baseline."""
    console.print(
        f"[bold]The paper's tables, {reproduction.replications:,} runs of each cell[/] "
        f"(seed {reproduction.seed})\n"
        "Bold: published values. Below: our medians, as written in the paper and in the set-up "
        "that fits its numbers best. [red]Red*[/]: the published value is not between the 5 % and "
        "the 95 % quantile of our runs (the report shows the ranges)."
    )
    if reproduction.horizon is not None:
        console.print(
            f"[yellow]All runs have {reproduction.horizon:,} rounds, as set by --horizon; the "
            "published numbers come from longer runs.[/]"
        )
    for number, rows in enumerate((reproduction.table1, reproduction.table2), start=1):
        console.print(_table(number, rows))
    console.print(_coverage(reproduction.coverage))
    row = reproduction.greedy.row(0, named=True)
    console.print(
        f"Greedy baseline, {row['horizon']:,} rounds: regret {row['mean']:,.0f} on average, median "
        f"{row['q50']:,.0f}, 5 % to 95 %: {row['q05']:,.0f} to {row['q95']:,.0f}. "
        'The paper\'s "nearly 6000" fits one run stuck on the arm with gap 0.3: 0.3 × 20,000.'
    )
    console.print(_equal_pay(reproduction))


def _equal_pay(reproduction: Reproduction) -> str:
    """Return a sentence about equal pay, and about UCB for comparison."""
    ucb = reproduction.table1.filter(policy="ucb", setup="written")
    equal = reproduction.equal_pay

    def means(rows: pl.DataFrame, l: float) -> str:
        pair = (rows.filter(l=l, metric=m)["mean"].item() for m in ("regret", "compensation"))
        return " / ".join(format_number(mean) for mean in pair)

    return (
        f"Not from the paper: equal pay has a mean regret / compensation of {means(equal, 0.0)} "
        f"at l = 0 and {means(equal, 1.1)} at l = 1.1 ({equal['runs'][0]:,} runs); UCB as written "
        f"{means(ucb, 0.0)} and {means(ucb, 1.1)}."
    )


def _table(number: int, rows: pl.DataFrame) -> Table:
    table = Table(
        title=f"Table {number}",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=0,
    )
    table.add_column("", no_wrap=True)
    for l in COEFFICIENTS:
        table.add_column(f"l={l:g}", justify="right", no_wrap=True)
    for policy, name in NAMES.items():
        for metric in rows["metric"].unique(maintain_order=True):
            cells = rows.filter(policy=policy, metric=metric).sort("l")
            published = cells.filter(setup="written")["published"]
            table.add_row(
                f"[bold]{name.split()[0]}: {METRIC_NAMES[metric]}[/]",
                *(f"[bold]{value:,g}[/]" for value in published),
            )
            for setup in ("written", "published"):
                ours = cells.filter(setup=setup).iter_rows(named=True)
                table.add_row(f"  {SETUP_NAMES[setup]}", *map(_cell, ours))
        table.add_section()
    return table


def _cell(cell: dict[str, float]) -> str:
    value = format_number(cell["q50"])
    return f"[green]{value}[/]" if cell["inside"] else f"[red]{value}*[/]"


def _coverage(coverage: pl.DataFrame) -> Table:
    table = Table(
        title="Published values that each set-up explains",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("policy")
    table.add_column("set-up")
    table.add_column("explained", justify="right")
    descriptions = {(s.policy, s.name): s.description for s in SETUPS}
    for row in coverage.iter_rows(named=True):
        share = row["inside"] / row["published"]
        colour = "green" if share == 1 else "yellow" if share >= 0.5 else "red"
        table.add_row(
            NAMES[row["policy"]],
            f"{descriptions[row['policy'], row['setup']]}, {row['horizon']:,} rounds",
            f"[{colour}]{row['inside']} of {row['published']}[/]",
        )
    return table
