"""Figures of a study, for paper and screen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from entice.engine.kernel import METRICS
from entice.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from entice.study.result import Result

# Okabe and Ito's colours, told apart by everyone.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MUTED = "#6b7280"

TITLES = {
    "regret": "Regret",
    "compensation": "Compensation paid",
    "compensated_pulls": "Paid pulls",
    "total_drift": "Total drift",
    "best_arm_error": "Relative error of the best arm's average",
}

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.8,
    "axes.edgecolor": "#9ca3af",
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "xtick.color": "#374151",
    "ytick.color": "#374151",
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.dpi": 150,
    "svg.fonttype": "path",
    "svg.hashsalt": "entice",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the look of all of Entice's figures."""
    with mpl.rc_context(_STYLE):
        yield


def plot_curves(result: Result, metric: str) -> Figure:
    """Draw a metric against the rounds: a panel for each drift, a line for each policy."""
    if metric not in METRICS:
        raise InputError("metric", "is unknown", given=metric, todo=did_you_mean(metric, METRICS))
    drifts = result.study.drifts
    columns = min(3, len(drifts))
    rows = math.ceil(len(drifts) / columns)
    with house_style():
        figure = Figure(figsize=(1.2 + 4.2 * columns, 0.9 + 3.1 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for d, drift in enumerate(drifts):
            ax = axes[d // columns][d % columns]
            for p, policy in enumerate(result.study.policies):
                curve = result.curves.filter(policy_index=p, drift_index=d, metric=metric)
                draw_curve(ax, curve, policy.label, COLOURS[p % len(COLOURS)])
            ax.set_title(drift.label)
            label_rounds(ax)
            ax.tick_params(labelbottom=True)
        for ax in axes.flat[len(drifts) :]:
            ax.set_visible(False)
        for row in axes:
            row[0].set_ylabel(TITLES[metric])
        legend_above(figure, axes.flat[0], columns)
    return figure


def draw_curve(ax: Axes, curve: pl.DataFrame, label: str, colour: str) -> None:
    """Draw the median of a metric with the ranges that hold half and nine tenths of all runs."""
    ax.fill_between(curve["t"], curve["q05"], curve["q95"], color=colour, alpha=0.13, linewidth=0)
    ax.fill_between(curve["t"], curve["q25"], curve["q75"], color=colour, alpha=0.22, linewidth=0)
    ax.plot(curve["t"], curve["q50"], color=colour, linewidth=1.8, label=label)


def label_rounds(ax: Axes) -> None:
    """Label the axis of rounds, thousands set apart, zero at the corner."""
    ax.set_xlabel("Round t")
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.4g}"))
    ax.margins(x=0)
    ax.set_ylim(bottom=0)


def legend_above(figure: Figure, ax: Axes, panels: int) -> None:
    """Put one legend for all panels above them, with the meaning of the bands."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=max(2, 2 * panels),
        title="Line: median run.  Bands: half and nine tenths of all runs.",
        alignment="left",
        title_fontproperties={"size": 9},
    )
