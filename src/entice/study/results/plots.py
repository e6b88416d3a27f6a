"""Figures of a study, for print and screen."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes as AxesBase
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


_PAPER: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "lines.linewidth": 1.2,
}
PAPER_WIDTH = 3.25
"""The width of a column in inches, in most two-column formats."""

Style = Literal["screen", "paper"]


@contextmanager
def figure_style(style: Style = "screen") -> Iterator[None]:
    """Apply the style of all Entice figures, or its variant for a paper's column."""
    if style not in get_args(Style):
        rule = f"must be one of {', '.join(map(repr, get_args(Style)))}"
        raise InputError("style", rule, given=style)
    with mpl.rc_context(_STYLE | (_PAPER if style == "paper" else {})):
        yield


class NotebookFigure(Figure):
    """A figure that notebooks display, also if pyplot has not been imported."""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()


Overlay = Callable[[Sequence["Axes"], "Result", str], list[str]]
"""A function that draws on the panels of `plot_curves` and returns notes to print below them."""


def plot_curves(
    result: Result,
    metric: str,
    overlay: Overlay | None = None,
    *,
    style: Style = "screen",
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw a metric against the rounds: a panel for each drift, a line for each policy."""
    check_metric(result, metric)
    with figure_style(style):
        if ax is not None:
            panels = _own_panels(ax, len(result.study.drifts))
            notes = _draw_panels(panels, result, metric, overlay)
            _finish_own(panels, notes)
            own = panels[0].get_figure(root=True)
            assert own is not None
            return own
        columns = 1 if style == "paper" else min(3, len(result.study.drifts))
        rows = math.ceil(len(result.study.drifts) / columns)
        size = (1.2 + 4.2 * columns, 0.9 + 3.1 * rows)
        if style == "paper":
            size = (PAPER_WIDTH, 0.6 + 1.6 * rows)
        dpi = 300 if style == "paper" else None
        figure = NotebookFigure(figsize=size, dpi=dpi, layout="constrained")
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        panels = list(axes.flat)
        notes = _draw_panels(panels[: len(result.study.drifts)], result, metric, overlay)
        for panel in panels[len(result.study.drifts) :]:
            panel.set_visible(False)
        for panel in axes[:, 1:].flat:
            panel.set_ylabel("")
        _add_notes(figure, notes)
        legend_above(figure, panels, columns)
    return figure


def check_metric(result: Result, metric: str) -> None:
    """Raise an error if a study has no such metric."""
    if metric not in (metrics := result.study.metrics):
        raise InputError("metric", "is unknown", given=metric, todo=did_you_mean(metric, metrics))


def _draw_panels(
    panels: Sequence[Axes], result: Result, metric: str, overlay: Overlay | None
) -> list[str]:
    """Draw a drift in each panel, and return the notes to print below them."""
    for d, panel in enumerate(panels):
        for p, label in enumerate(result.study.policy_labels):
            curve = result.curves.filter(policy_index=p, drift_index=d, metric=metric)
            draw_curve(panel, curve, label, COLOURS[p % len(COLOURS)])
        panel.set_title(result.study.drift_labels[d])
        label_rounds(panel)
        panel.tick_params(labelbottom=True)
        panel.set_ylabel(TITLES[metric])
    stopped = stopped_cells(result, metric)
    notes = [f"{STOPPED} {', '.join(stopped)}."] if stopped else []
    return notes if overlay is None else notes + overlay(panels, result, metric)


def _own_panels(ax: Axes | Sequence[Axes], drifts: int) -> list[Axes]:
    """Return the user's axes as a list, one for each drift."""
    panels = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(panels) != drifts or not all(isinstance(panel, AxesBase) for panel in panels):
        rule = f"must be one of matplotlib's Axes for each of the {drifts} drifts of the study"
        raise InputError("plot: ax", rule, given=ax)
    return panels


def _finish_own(panels: Sequence[Axes], notes: Sequence[str]) -> None:
    """Add a legend to the first panel and notes below the last; the figure is the user's."""
    panels[0].legend(loc="best")
    if notes:
        width = int(15 * panels[-1].get_position().width * panels[-1].figure.get_figwidth())  # type: ignore[union-attr]
        text = "\n".join(textwrap.fill(note, max(30, width)) for note in notes)
        panels[-1].set_xlabel(f"{panels[-1].get_xlabel()}\n{text}")


def stopped_cells(result: Result, metric: str) -> list[str]:
    """Return the cells whose runs were stopped and have no quantiles."""
    return [
        f"{policy.label} with {drift.label}"
        for p, d, policy, drift in result.study.cells()
        if result.curves.filter(policy_index=p, drift_index=d, metric=metric)["q95"].is_nan().any()
    ]


def _add_notes(figure: Figure, notes: list[str]) -> None:
    """Write notes below the panels."""
    size = mpl.rcParams["font.size"]
    width = int(150 * figure.get_figwidth() / size)
    lines = [textwrap.fill(note, width, subsequent_indent="   ") for note in notes]
    if lines:
        count = sum(1 + line.count("\n") for line in lines)
        figure.set_figheight(figure.get_figheight() + 0.17 * count)
        figure.supxlabel(
            "\n".join(lines), fontsize=size - 2, color=MUTED, x=0.01, ha="left", linespacing=1.4
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
    width, size = figure.get_figwidth(), mpl.rcParams["font.size"]
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper left",
        ncols=max(1, min(2 * panels, int(120 * width / (size * (longest + 6))))),
        title=BANDS if panels > 1 or size == 10 else textwrap.fill(BANDS, int(130 * width / size)),
        alignment="left",
        title_fontproperties={"size": size - 1},
    )
