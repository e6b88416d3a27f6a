"""The figures of the reproduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from entice.paper.setups import COEFFICIENTS, NAMES, Setup
from entice.study.results.plots import (
    COLOURS,
    MUTED,
    TITLES,
    NotebookFigure,
    draw_curve,
    figure_style,
    label_rounds,
    legend_above,
)
from entice.study.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHORT = {"regret": "regret", "compensation": "compensation", "compensated_pulls": "paid pulls"}

__all__ = ["Figure", "explained", "figure_style", "lock_in", "over_time"]


def over_time(result: Result, drift_index: int) -> Figure:
    """Draw Figures 2 and 3: regret and compensation of the three policies against t."""
    figure = NotebookFigure(figsize=(9.6, 4.3), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, metric in zip(axes, ("regret", "compensation"), strict=True):
        for p, name in enumerate(NAMES.values()):
            curve = result.curves.filter(policy_index=p, drift_index=drift_index, metric=metric)
            draw_curve(ax, curve, name, COLOURS[p])
        ax.set_title(f"{TITLES[metric]}, $l$ = {COEFFICIENTS[drift_index]:g}")
        label_rounds(ax)
    legend_above(figure, list(axes), panels=2)
    return figure


def explained(rows: pl.DataFrame, metrics: tuple[str, ...]) -> Figure:
    """Draw each published value with the range of single runs, under both set-ups."""
    figure = NotebookFigure(figsize=(9.6, 8.2), layout="constrained")
    axes = figure.subplots(len(NAMES), len(metrics), sharex=True)
    colours = {"written": MUTED, "published": COLOURS[0]}
    labels = {
        "written": "range of one run, as written in the paper",
        "published": "range of one run, best-fitting set-up",
    }
    for policy, row in zip(NAMES, axes, strict=True):
        for metric, ax in zip(metrics, row, strict=True):
            for setup, colour in colours.items():
                cell = rows.filter(policy=policy, metric=metric, setup=setup).sort("l")
                ax.fill_between(
                    cell["l"], cell["q05"], cell["q95"],
                    color=colour, alpha=0.25, linewidth=0, label=labels[setup],
                )  # fmt: skip
                ax.plot(cell["l"], cell["q50"], color=colour, linewidth=1.2)
            ax.plot(
                cell["l"], cell["published"], "o",
                color=COLOURS[1], markersize=5, label="published value",
            )  # fmt: skip
            _fit_scale(ax, rows.filter(policy=policy, metric=metric))
            ax.set_title(f"{NAMES[policy].split()[0]}: {_SHORT[metric]}", fontsize=10)
            if policy == list(NAMES)[-1]:
                ax.set_xlabel("Drift coefficient $l$")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return figure


def _fit_scale(ax: Axes, rows: pl.DataFrame) -> None:
    """Use a logarithmic scale if the ranges span more than a factor of eight."""
    low, high = rows["q05"].to_numpy().min(), rows["q95"].to_numpy().max()
    if high > 8 * low:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_minor_locator(NullLocator())
    else:
        ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))


def lock_in(results: list[tuple[list[Setup], Result]]) -> Figure:
    """Draw the distribution of Thompson sampling's final regret at l = 0, under both set-ups."""
    figure = NotebookFigure(figsize=(9.6, 3.4), layout="constrained")
    ax = figure.subplots()
    readings = {
        "written": "variance 1/(n+1): Algorithm 4",
        "published": "standard deviation 1/(n+1): the published row",
    }
    for setups, result in results:
        for p, setup in enumerate(setups):
            if setup.policy != "thompson_sampling":
                continue
            regret = np.sort(
                result.final.filter(policy_index=p, drift_index=0)["regret"].to_numpy()
            )
            share = np.arange(1, len(regret) + 1) / len(regret)
            colour = {"written": MUTED, "published": COLOURS[0]}[setup.name]
            label = f"{readings[setup.name]}, {result.study.horizon:,} rounds"
            ax.step(np.maximum(regret, 1.0), share, where="post", color=colour, label=label)
            ax.axvline(regret.mean(), color=colour, linestyle=(0, (2, 2)), linewidth=1.2)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.0f} %"))
    ax.set_ylim(0, 1)
    ax.set_xlabel("Final regret without drift (dotted: the mean)")
    ax.set_ylabel("Share of runs at or below")
    figure.legend(loc="outside upper left", ncols=2)
    return figure
