"""The figure of a forecast."""

from __future__ import annotations

import textwrap

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from entice.money import NO_CURRENCY, Currency
from entice.planner.forecast import Forecast
from entice.planner.formatting import (
    format_confidence,
    format_money,
    format_rounded_up,
    policy_names,
)
from entice.planner.spec import Plan
from entice.study.results.plots import COLOURS, MUTED, NotebookFigure, figure_style

_INK = "#1f2937"


def plot_forecast(forecast: Forecast) -> Figure:
    """Plot the cost of each policy, its payments by day, and when the best item leads."""
    count = len(forecast.plan.policies)
    # Names and amounts are plain text: a dollar sign must not start a formula.
    with figure_style(), mpl.rc_context({"text.parse_math": False}):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.1, wspace=0.03)
        figure = NotebookFigure(figsize=(12.4, max(4.3, 2.2 + 0.5 * count)), layout=layout)
        cost, needs, leads = figure.subplots(1, 3, width_ratios=(1.15, 1, 1))
        _draw_costs(cost, forecast)
        _draw_needs(needs, forecast)
        _draw_leads(leads, forecast)
        figure.canvas.draw()  # tick labels are created by the first drawing
    return figure


def _colour(policy: int) -> str:
    return COLOURS[policy % len(COLOURS)]


def _draw_costs(ax: Axes, forecast: Forecast) -> None:
    """Draw bars for mean payments and lost stars, and a mark for the cost at the confidence."""
    plan, ranking = forecast.plan, forecast.ranking
    promises = [forecast.at_confidence(p, "cost") for p in ranking]
    edge = _edge([float(forecast.run_values(p, "cost").mean()) for p in ranking], promises)
    for row, (p, at_confidence) in enumerate(zip(ranking, promises, strict=True)):
        paid = float(forecast.run_values(p, "spend").mean())
        lost = float(forecast.run_values(p, "stars_lost").mean()) * plan.price_of_a_star
        ax.barh(row, paid, height=0.5, color=_colour(p))
        ax.barh(row, lost, left=paid, height=0.5, color=_colour(p), alpha=0.3)
        seen = at_confidence <= edge
        if seen:
            ax.plot(
                [at_confidence, at_confidence], [row - 0.34, row + 0.34], color=_INK, linewidth=1.8
            )
        amount = format_rounded_up(plan, at_confidence)
        ax.annotate(
            amount if seen else f"→ {amount}",
            (min(at_confidence, edge), row), xytext=(5, 0), textcoords="offset points", va="center",
            fontsize=9, color=_INK, fontweight="bold" if row == 0 else "normal",
        )  # fmt: skip
    ax.set_xlim(0, 1.24 * edge)
    ax.set_ylim(len(ranking) - 0.45, -0.55)
    ax.set_yticks(range(len(ranking)), [_wrapped(policy_names(plan)[p]) for p in ranking])
    ax.tick_params(axis="y", length=0)
    for label, p in zip(ax.get_yticklabels(), ranking, strict=True):
        label.set(color=_colour(p), fontweight="bold")
    ax.spines["left"].set_visible(False)
    ax.grid(False, axis="y")
    ax.grid(True, axis="x")
    _amounts(ax.xaxis, forecast)
    note = f"Mean payments (solid) and lost stars (pale).\nMark: {_share(plan)} stay under it."
    _head(ax, "Total cost", note)


def _edge(means: list[float], promises: list[float]) -> float:
    """Return the right end of the axis. Marks beyond twice the largest mean become arrows."""
    near = [at_confidence for at_confidence in promises if at_confidence <= 2 * max(means)]
    return max([*means, *near]) or 1.0


def _draw_needs(ax: Axes, forecast: Forecast) -> None:
    """Draw the median payments by the end of each day, and the range up to the confidence."""
    plan, top = forecast.plan, forecast.plan.budget or 0.0
    for p in forecast.ranking:
        days = forecast.days.filter(policy_index=p)
        median, at_confidence = (
            np.concatenate([[0.0], days[name]]) for name in ("needed_q50", "needed_at_confidence")
        )
        if not at_confidence.any():
            continue
        day = np.arange(plan.days + 1)
        ax.fill_between(day, median, at_confidence, color=_colour(p), alpha=0.15, linewidth=0)
        ax.plot(day, median, color=_colour(p), linewidth=2)
        top = max(top, float(at_confidence.max()), float(median.max()))
    if plan.budget is not None:
        ax.axhline(plan.budget, color=_INK, linewidth=1.2, linestyle=(0, (4, 3)))
        ax.annotate(
            f"budget {format_money(plan, plan.budget)}", (plan.days, plan.budget), xytext=(-3, -5),
            textcoords="offset points", ha="right", va="top", fontsize=9, color=_INK,
            bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
    ax.set_ylim(0, 1.06 * top if top > 0 else 1)
    _days(ax, forecast)
    _amounts(ax.yaxis, forecast)
    limit = "without a budget" if plan.budget is not None else "by day"
    note = f"Line: median of the runs on each day.\nShaded: up to what {_share(plan)} need."
    _head(ax, f"Payments {limit}", note)


def _draw_leads(ax: Axes, forecast: Forecast) -> None:
    for p in forecast.ranking:
        days = forecast.days.filter(policy_index=p)
        ax.plot(days["day"], days["leads"], color=_colour(p), linewidth=2)
    ax.set_ylim(0, 1.02)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))
    _days(ax, forecast)
    note = "Share of runs,\nat the end of each day."
    if forecast.plan.budget is not None:
        note = "Share of runs, at the end of each day,\nwithin the budget."
    _head(ax, "The best item leads", note)


def _head(ax: Axes, title: str, note: str) -> None:
    ax.set_title(title, pad=34)
    ax.text(
        0, 1.03, note, transform=ax.transAxes, fontsize=8.5, color=MUTED, va="bottom",
        linespacing=1.35,
    )  # fmt: skip


def _share(plan: Plan) -> str:
    return format_confidence(plan.confidence)


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(name, 18))


def _days(ax: Axes, forecast: Forecast) -> None:
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.set_xlim(0, forecast.plan.days)
    ax.set_xlabel("Day")


def _amounts(axis: Axis, forecast: Forecast) -> None:
    """Label round amounts. A currency code without a sign is too long for ticks: label the axis."""
    plan = forecast.plan
    # A currency without minor units has no fractions to label.
    axis.set_major_locator(MaxNLocator(4, integer=plan.currency_digits == 0))
    currency = plan.money
    if not currency.sign:
        axis.set_label_text(plan.currency)
        currency = Currency(NO_CURRENCY, currency.digits)
    axis.set_major_formatter(FuncFormatter(lambda value, _: currency.format_major(value)))
