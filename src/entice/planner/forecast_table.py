"""A forecast as a table."""

from __future__ import annotations

import html
import math
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from entice.planner.forecast import Forecast
from entice.planner.formatting import format_confidence, format_money, policy_names
from entice.planner.spec import Plan
from entice.planner.summary_text import summary_sentences
from entice.study.results.display_table import DisplayTable


class TableColumn(NamedTuple):
    """A column of the table: one quantity of each policy."""

    title: str
    cells: list[tuple[str, str]]
    """For each policy: the median, and the value at the plan's confidence."""


def table_columns(forecast: Forecast) -> list[TableColumn]:
    """Return the columns of the table, with policies in the plan's order."""
    plan = forecast.plan
    every = range(len(plan.policies))

    def pair(policy: int, column: str) -> tuple[float, float]:
        return forecast.median(policy, column), forecast.at_confidence(policy, column)

    def amounts(column: str) -> list[tuple[str, str]]:
        found = [pair(p, column) for p in every]
        return [(format_money(plan, low), format_money(plan, high)) for low, high in found]

    stars = [pair(p, "stars_lost") for p in every]
    shares = [pair(p, "share_lost") for p in every]
    leads = [pair(p, "lead_day") for p in every]
    stuck = [forecast.run_values(p, "stuck").mean() for p in every]
    columns = [
        TableColumn("payments", amounts("spend")),
        TableColumn("stars lost", [(f"{low:,.0f}", f"{high:,.0f}") for low, high in stars]),
        TableColumn(
            "of all stars", [(f"{100 * low:.1f} %", f"{100 * high:.1f} %") for low, high in shares]
        ),
        TableColumn("total cost", amounts("cost")),
        TableColumn("best leads from", [(_day(a, "never"), _day(b, "never")) for a, b in leads]),
        TableColumn("ends wrong", [(f"{100 * share:.0f} %", "") for share in stuck]),
    ]
    if plan.response is not None:
        rated = [pair(p, "share_rated") for p in every]
        cells = [(f"{100 * low:.1f} %", f"{100 * high:.1f} %") for low, high in rated]
        columns.append(TableColumn("visitors who rate", cells))
    if plan.budget is not None:
        days = [(_day(forecast.median(p, "budget_day"), "the end"), "") for p in every]
        columns.append(TableColumn(f"{format_money(plan, plan.budget)} lasts until", days))
    return columns


def _day(day: float, otherwise: str) -> str:
    return f"day {day:.0f}" if math.isfinite(day) else otherwise


def print_forecast(forecast: Forecast, console: Console) -> None:
    """Print the table and the summary."""
    console.print(forecast_table(forecast))
    first, *others = summary_sentences(forecast)
    console.print(f"[bold]{escape(first)}[/]")
    for sentence in others:
        console.print(escape(sentence))


def forecast_table(forecast: Forecast) -> Table:
    """Return a table of the policies: the median run, and below it the value at the confidence."""
    plan = forecast.plan
    table = Table(
        title=escape(_caption(plan)),
        title_justify="left",
        title_style="",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("", overflow="fold")
    shown = table_columns(forecast)
    for column in shown:
        table.add_column(escape(column.title), justify="right")
    for p in forecast.ranking:
        lines = ("\n".join(filter(None, column.cells[p])) for column in shown)
        style = "bold" if p == forecast.ranking[0] else ""
        table.add_row(escape(policy_names(plan)[p]), *map(escape, lines), style=style)
    return table


def forecast_html(forecast: Forecast) -> str:
    """Return the table and the summary for a notebook."""
    names, shown = policy_names(forecast.plan), table_columns(forecast)
    rows = [
        [names[p], *("\n".join(filter(None, column.cells[p])) for column in shown)]
        for p in forecast.ranking
    ]
    header = ["", *(column.title for column in shown)]
    sentences = "".join(f"<p>{html.escape(text)}</p>" for text in summary_sentences(forecast))
    return DisplayTable(_caption(forecast.plan), header, rows).to_html() + sentences


def _caption(plan: Plan) -> str:
    share, star = format_confidence(plan.confidence), format_money(plan, plan.price_of_a_star)
    return (
        f"{plan.visitors:,} visitors in {plan.days:,} days, {plan.replications:,} runs. "
        f"In each cell: the median run, and below it the value that {share} stay under. "
        f"Total cost: payments plus lost stars at {star} each."
    )
