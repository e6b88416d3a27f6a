"""Figures of a study, for print and screen."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from entice.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from entice.study.results.result import Result

# Okabe and Ito's palette, which colour-blind readers can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MUTED = "#6b7280"

TITLES = {
    "regret": "Regret",
    "compensation": "Compensation paid",
    "compensated_pulls": "Paid pulls",
    "total_drift": "Total drift",
    "best_arm_error": "Relative error of the best arm's average",
    "share_rated": "Share of pulls that are rated",
    "selection_bias": "Mean reward of rated pulls minus that of all",
}

BANDS = "Line: median of the runs at each round.  Bands: half and nine tenths of the runs."
"""The caption of figures drawn by `draw_curve`. A single run need not follow the median line."""
STOPPED = "Not drawn after payments grew without bound and runs were stopped:"

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
def figure_style() -> Iterator[None]:
    """Apply the style of all Entice figures."""
    with mpl.rc_context(_STYLE):
        yield


Overlay = Callable[[Sequence["Axes"], "Result", str], list[str]]
"""A function that draws on the panels of `plot_curves` and returns notes to print below them."""


def plot_curves(result: Result, metric: str, overlay: Overlay | None = None) -> Figure:
    """Draw a metric against the rounds: a panel for each drift, a line for each policy."""
    if metric not in (metrics := result.study.metrics):
        raise InputError("metric", "is unknown", given=metric, todo=did_you_mean(metric, metrics))
    drifts = result.study.drifts
    columns = min(3, len(drifts))
    rows = math.ceil(len(drifts) / columns)
    with figure_style():
        figure = Figure(figsize=(1.2 + 4.2 * columns, 0.9 + 3.1 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for d in range(len(drifts)):
            ax = axes[d // columns][d % columns]
            for p, label in enumerate(result.study.policy_labels):
                curve = result.curves.filter(policy_index=p, drift_index=d, metric=metric)
                draw_curve(ax, curve, label, COLOURS[p % len(COLOURS)])
            ax.set_title(result.study.drift_labels[d])
            label_rounds(ax)
            ax.tick_params(labelbottom=True)
        for ax in axes.flat[len(drifts) :]:
            ax.set_visible(False)
        for row in axes:
            row[0].set_ylabel(TITLES[metric])
        notes = _stopped(result, metric)
        if overlay is not None:
            notes += overlay(list(axes.flat), result, metric)
        _add_notes(figure, notes)
        legend_above(figure, list(axes.flat), columns)
    return figure


def _stopped(result: Result, metric: str) -> list[str]:
    """Return a note that names the cells whose runs were stopped and have no quantiles."""
    found = [
        f"{policy.label} with {drift.label}"
        for p, d, policy, drift in result.study.cells()
        if result.curves.filter(policy_index=p, drift_index=d, metric=metric)["q95"].is_nan().any()
    ]
    return [f"{STOPPED} {', '.join(found)}."] if found else []


def _add_notes(figure: Figure, notes: list[str]) -> None:
    """Write notes below the panels."""
    width = int(15 * figure.get_figwidth())
    lines = [textwrap.fill(note, width, subsequent_indent="   ") for note in notes]
    if lines:
        count = sum(1 + line.count("\n") for line in lines)
        figure.set_figheight(figure.get_figheight() + 0.17 * count)
        figure.supxlabel(
            "\n".join(lines), fontsize=8, color=MUTED, x=0.01, ha="left", linespacing=1.4
        )


def draw_curve(ax: Axes, curve: pl.DataFrame, label: str, colour: str) -> None:
    """Draw the median of a metric at each round, with the ranges of half and 9/10 of the runs."""
    t, alone = curve["t"], len(curve) == 1
    for low, high, alpha in (("q05", "q95", 0.13), ("q25", "q75", 0.22)):
        if alone:  # an area over one round has no width
            ax.vlines(t, curve[low], curve[high], color=colour, alpha=3 * alpha, linewidth=4)
        else:
            ax.fill_between(t, curve[low], curve[high], color=colour, alpha=alpha, linewidth=0)
    marker = "o" if alone else None
    ax.plot(t, curve["q50"], color=colour, linewidth=1.8, label=label, marker=marker)


def label_rounds(ax: Axes) -> None:
    """Label the axis of rounds, and include zero in the other axis."""
    ax.set_xlabel("Round t")
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.4g}"))
    ax.margins(x=0)
    # Not `set_ylim(bottom=0)`, which would also fix the upper end for all panels that share the
    # axis, at the data drawn so far.
    ax.update_datalim([(0, 0)], updatex=False)
    ax.lines[0].sticky_edges.y.append(0)


def legend_above(figure: Figure, axes: Sequence[Axes], panels: int) -> None:
    """Place one legend above all panels, with the meaning of the bands."""
    entries: dict[str, Any] = {}
    for ax in axes:
        entries = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True)) | entries
    longest = max(map(len, entries))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper left",
        ncols=max(1, min(2 * panels, int(12 * figure.get_figwidth() / (longest + 6)))),
        title=BANDS,
        alignment="left",
        title_fontproperties={"size": 9},
    )
