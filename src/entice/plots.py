"""Figures of a study, for paper and screen."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

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


def plot_curves(result: Result, metric: str, *, bounds: bool = False) -> Figure:
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
        if bounds:
            _add_bounds(list(axes.flat), result, metric)
            _list_silent_bounds(figure, result, metric)
        legend_above(figure, list(axes.flat), columns)
    return figure


def _add_bounds(axes: Sequence[Axes], result: Result, metric: str) -> None:
    from entice.theory.figures import draw_bounds
    from entice.theory.setting import Setting

    drawn = False
    for p, d, policy, drift in result.study.cells():
        setting = Setting(result.study, policy, drift)
        drawn |= draw_bounds(axes[d], setting, metric, COLOURS[p % len(COLOURS)])
    if not drawn:
        return
    first = int(result.study.checkpoint_rounds()[0])
    drawn_at = np.concatenate([np.asarray(line.get_xydata()) for ax in axes for line in ax.lines])
    values = drawn_at[drawn_at[:, 0] >= first, 1]
    values = values[values > 0]
    for ax in axes:  # bounds lie far from the runs, and grow like log t: logarithmic axes
        ax.set_yscale("log")
        ax.set_ylim(values.min() / 2, values.max() * 2)
        ax.set_xscale("log")
        ax.set_xlim(first, result.study.horizon)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(
                FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
            )
            axis.set_minor_formatter(NullFormatter())


def _list_silent_bounds(figure: Figure, result: Result, metric: str) -> None:
    from entice.theory.figures import silent

    found = silent(result.study, metric)
    if found:
        width = int(15 * figure.get_figwidth())
        lines = [textwrap.fill(line, width, subsequent_indent="   ") for line in found]
        figure.set_figheight(figure.get_figheight() + 0.17 * sum(1 + t.count("\n") for t in lines))
        figure.supxlabel(
            "Not drawn, since they say nothing here:\n" + "\n".join(lines),
            fontsize=8, color=MUTED, x=0.01, ha="left", linespacing=1.4,
        )  # fmt: skip


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


def legend_above(figure: Figure, axes: Sequence[Axes], panels: int) -> None:
    """Put one legend for all panels above them, with the meaning of the bands."""
    entries: dict[str, Any] = {}
    for ax in axes:
        entries = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True)) | entries
    longest = max(map(len, entries))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper left",
        ncols=max(1, min(2 * panels, int(12 * figure.get_figwidth() / (longest + 6)))),
        title="Line: median run.  Bands: half and nine tenths of all runs.",
        alignment="left",
        title_fontproperties={"size": 9},
    )
