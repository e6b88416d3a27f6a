"""Figures of bounds and growth."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from entice.study.results.plots import COLOURS, MUTED, TITLES, NotebookFigure, figure_style
from entice.study.results.result import Result
from entice.study.spec import Study
from entice.theory.bound import Bound, Version, merge_reasons
from entice.theory.bounds_table import BOUNDS
from entice.theory.growth import METRICS, Growth
from entice.theory.setting import Setting, study_settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Dots remain visible on top of dashes where both versions coincide.
_STYLES: dict[str, dict[str, Any]] = {
    "as_stated": {"linestyle": (0, (6, 3)), "linewidth": 2.4, "alpha": 0.45},
    "as_proved": {"linestyle": (0, (1.5, 1.5)), "linewidth": 1.4},
}
_KEY = (
    "Points: means with 95 % intervals. Solid: a + b log T fits better; dashed: a power of T does; "
    "no line: undecided, or T too short."
)
ZERO = "Curves that reach the lower edge go down to zero, which a logarithmic axis cannot show."
_LOWER: dict[str, Any] = {"linestyle": ":", "linewidth": 1.4}


def add_bounds(axes: Sequence[Axes], result: Result, metric: str) -> list[str]:
    """Draw the bounds, if any, on logarithmic axes, and return the notes for below the panels."""
    drawn = False
    first = int(result.study.checkpoint_rounds()[0])
    for p, d, policy, drift in result.study.cells():
        setting = Setting(result.study, policy, drift)
        drawn |= draw_bounds(axes[d], setting, metric, COLOURS[p % len(COLOURS)], first)
    found = uninformative_bounds(result.study, metric)
    notes = ["Bounds that do not apply or are vacuous here:", *found] if found else []
    if not drawn:
        return notes
    for ax in axes:  # logarithmic: bounds are far above the runs and grow like log t
        ax.set_yscale("log")
        ax.set_xscale("log")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(
                FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
            )
            axis.set_minor_formatter(NullFormatter())
    reaches_zero = (result.curves.filter(metric=metric)["q05"] <= 0).any()
    return [ZERO, *notes] if reaches_zero else notes


def draw_bounds(ax: Axes, setting: Setting, metric: str, colour: str, first: int) -> bool:
    """Draw the informative bounds on a metric of a cell, from round `first` on.

    Return whether any was drawn.
    """
    horizon = setting.study.horizon
    rounds = np.unique(np.geomspace(max(2, first), max(2, horizon), 200).round())
    before = len(ax.lines)
    for bound in BOUNDS:
        if bound.metric != metric:
            continue
        for version in informative_versions(bound, setting):
            values = bound.value(setting, rounds, version)
            is_lower = bound.kind == "lower"
            ax.plot(
                rounds, values, label=_label(bound, version, setting),
                color=MUTED if is_lower else colour, **(_LOWER if is_lower else _STYLES[version]),
            )  # fmt: skip
    return len(ax.lines) > before


def informative_versions(bound: Bound, setting: Setting) -> list[Version]:
    """Return the versions of a bound that apply in a cell and are not vacuous."""
    if not bound.covers(setting) or bound.unmet_assumptions(setting):
        return []
    return [version for version in bound.versions if not bound.vacuous_reasons(setting, version)]


def _label(bound: Bound, version: str, setting: Setting) -> str:
    if bound.kind == "lower":
        return f"{bound.name}, lower bound"
    return f"{setting.policy.label}: {_title(bound, version)}"


def _title(bound: Bound, version: str) -> str:
    suffix = f" {version.replace('_', ' ')}" if len(bound.versions) == 2 else ""
    return f"{bound.name}{suffix}"


def uninformative_bounds(study: Study, metric: str) -> list[str]:
    """List the bounds on a metric that do not apply or are vacuous in some cell, with reasons."""
    lines = []
    for bound in BOUNDS:
        cells = [setting for setting in study_settings(study) if bound.covers(setting)]
        if bound.metric != metric or not cells:
            continue
        for version in bound.versions:
            found = [
                (*bound.unmet_assumptions(s), *bound.vacuous_reasons(s, version)) for s in cells
            ]
            if any(found):
                lines.append(f"{_title(bound, version)}: {'; '.join(merge_reasons(cells, found))}.")
    # Two versions with the same reasons share one line.
    return list({line.split(": ", 1)[1]: line for line in reversed(lines)}.values())[::-1]


def plot_growth(found: Growth) -> Figure:
    """Plot means against T on logarithmic axes, with the better fit."""
    drifts = found.points.select("drift_index", "drift").unique().sort("drift_index")["drift"]
    policies = found.points.select("policy_index", "policy").unique().sort("policy_index")["policy"]
    with figure_style():
        figure = NotebookFigure(figsize=(1.4 + 3.0 * len(drifts), 6.2), layout="constrained")
        axes = figure.subplots(len(METRICS), len(drifts), sharex=True, sharey="row", squeeze=False)
        for row, metric in zip(axes, METRICS, strict=True):
            for d, ax in enumerate(row):
                cells = [
                    _draw_growth(ax, found, (p, d, metric), policy, COLOURS[p % len(COLOURS)])
                    for p, policy in enumerate(policies)
                ]
                _list_zeros(ax, [name for name, above in zip(policies, cells, strict=True)
                                 if not above])  # fmt: skip
                ax.set_xscale("log")
                ax.set_yscale("log")
                ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
                ax.yaxis.set_minor_formatter(NullFormatter())
                ax.xaxis.set_major_locator(LogLocator(numticks=12))
                ax.xaxis.set_minor_formatter(NullFormatter())
                if metric == METRICS[0]:
                    ax.set_title(drifts[d])
                else:
                    ax.set_xlabel("Rounds T")
            row[0].set_ylabel(TITLES[metric])
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper left", ncols=max(2, len(drifts)), alignment="left",
            title=textwrap.fill(_KEY, int(13 * figure.get_figwidth())),
            title_fontproperties={"size": 9},
        )  # fmt: skip
    return figure


def _draw_growth(
    ax: Axes, found: Growth, cell: tuple[int, int, str], policy: str, colour: str
) -> bool:
    """Draw one policy in one panel, and return whether all means and bars are above zero."""
    p, d, metric = cell
    points = found.points.filter(policy_index=p, drift_index=d, metric=metric).sort("T")
    fit = found.table.filter(policy_index=p, drift_index=d, metric=metric).row(0, named=True)
    T, mean = points["T"].to_numpy(), points["mean"].to_numpy()
    half_width = 1.96 * points["stderr"].to_numpy()
    seen = mean > 0
    ax.errorbar(
        T[seen], mean[seen], yerr=half_width[seen],
        fmt="o", markersize=3.5, color=colour, elinewidth=1, label=policy,
    )  # fmt: skip
    grid = np.geomspace(T[0], T[-1], 100)
    if fit["fits"] in ("log", "power"):
        if fit["fits"] == "log":
            curve, style = fit["log_a"] + fit["log_b"] * np.log(grid), "-"
        else:
            curve, style = fit["power_a"] * grid ** fit["power_p"], "--"
        ax.plot(grid[curve > 0], curve[curve > 0], style, color=colour, linewidth=1.2)
    return bool((mean > half_width).all())


def _list_zeros(ax: Axes, policies: list[str]) -> None:
    """List the policies whose values go down to zero, which a logarithmic axis cannot show."""
    if policies:
        note = textwrap.fill(f"down to zero, not shown: {', '.join(policies)}", 28)
        ax.text(0.97, 0.03, note, transform=ax.transAxes, ha="right", va="bottom", fontsize=8,
                color=MUTED)  # fmt: skip
