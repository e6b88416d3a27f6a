"""A forecast as a self-contained HTML page."""

from __future__ import annotations

import base64
import html
import io
from importlib.resources import files
from string import Template

from matplotlib.figure import Figure

import entice
from entice.planner.assumptions import describe_assumptions
from entice.planner.forecast import Forecast
from entice.planner.forecast_table import table_columns
from entice.planner.formatting import (
    format_confidence,
    format_money,
    format_rounded_up,
    policy_names,
)
from entice.planner.summary_text import policy_sentence, summary_sentences
from entice.study.results.plots import figure_style


def report_page(forecast: Forecast, figure: Figure) -> str:
    """Return the page; all texts from the user are escaped."""
    template = Template((files("entice.planner") / "report.html").read_text(encoding="utf-8"))
    plan, first = forecast.plan, forecast.ranking[0]
    headline, *others = summary_sentences(forecast)
    facts = {
        "headline": headline,
        "setting": f"{plan.arms:,} items, {plan.visitors_a_day:,} visitors a day, "
        f"{plan.days:,} days",
        "recommended": policy_names(plan)[first],
        "within": format_confidence(plan.confidence),
        "enough": format_rounded_up(plan, forecast.required_budget),
        "cost": format_rounded_up(plan, forecast.at_confidence(first, "cost")),
        "stuck": f"{100 * forecast.run_values(first, 'stuck').mean():.1f} %",
        "star": format_money(plan, plan.price_of_a_star),
        "runs": f"{plan.replications:,}",
        "seed": str(plan.seed),
        "version": entice.__version__,
    }
    return template.substitute(
        {name: html.escape(text) for name, text in facts.items()},
        others=_items(others, "p"),
        policies=_items([policy_sentence(forecast, p) for p in forecast.ranking], "li"),
        assumptions=_items(describe_assumptions(plan), "li"),
        table=_table(forecast),
        budget_note=_budget_note(forecast),
        figure=_image(figure),
    )


def _items(texts: list[str], tag: str) -> str:
    return "\n".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def _budget_note(forecast: Forecast) -> str:
    plan = forecast.plan
    if plan.budget is None:
        return ""
    amount = html.escape(format_money(plan, plan.budget))
    return (
        f"<p>All numbers are within the budget of {amount}: no offer costs more than the remaining "
        "budget, and visitors without an offer take the item with the best average, unpaid. Only "
        "the budget for all payments and the middle chart assume that there is no limit.</p>"
    )


def _table(forecast: Forecast) -> str:
    shown = table_columns(forecast)
    head = "".join(f"<th scope='col'>{html.escape(column.title)}</th>" for column in shown)
    rows = []
    for p in forecast.ranking:
        cells = "".join(
            f"<td>{html.escape(median)}<small>{html.escape(at_confidence)}</small></td>"
            for median, at_confidence in (column.cells[p] for column in shown)
        )
        css_class = " class='first'" if p == forecast.ranking[0] else ""
        name = html.escape(policy_names(forecast.plan)[p])
        rows.append(f"<tr{css_class}><th scope='row'>{name}</th>{cells}</tr>")
    return f"<thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"


def _image(figure: Figure) -> str:
    file = io.BytesIO()
    with figure_style():
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
