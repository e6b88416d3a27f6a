"""Bounds and growth, drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from entice.plots import COLOURS, MUTED, TITLES, house_style
from entice.specs import Study
from entice.theory.bound import Bound, Version
from entice.theory.growth import METRICS, Growth
from entice.theory.setting import Setting
from entice.theory.table import BOUNDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = {"as_stated": (0, (5, 2)), "as_proved": (0, (1.5, 1.5))}


def draw_bounds(ax: Axes, setting: Setting, metric: str, colour: str) -> bool:
    """Draw the bounds on a metric that say something of a cell; tell whether there are any."""
    horizon = setting.study.horizon
    rounds = np.unique(np.geomspace(2, max(2, horizon), 200).round())
    before = len(ax.lines)
    for bound in BOUNDS:
        if bound.metric != metric:
            continue
        for version in speaking(bound, setting):
            values = bound.value(setting, rounds, version)
            style = ":" if bound.kind == "lower" else _STYLES[version]
            ax.plot(
                rounds, values,
                color=MUTED if bound.kind == "lower" else colour, linestyle=style, linewidth=1.4,
                label=_label(bound, version, setting),
            )  # fmt: skip
    return len(ax.lines) > before


def speaking(bound: Bound, setting: Setting) -> list[Version]:
    """Return the versions of a bound that say something of a cell: apply, and are not vacuous."""
    if not bound.concerns(setting) or bound.doubts(setting):
        return []
    return [version for version in bound.versions if not bound.emptiness(setting, version)]


def _label(bound: Bound, version: str, setting: Setting) -> str:
    if bound.kind == "lower":
        return f"{bound.name}, lower bound"
    told = f" {version.replace('_', ' ')}" if len(bound.versions) == 2 else ""
    return f"{setting.policy.label}: {bound.name}{told}"


def silent(study: Study, metric: str) -> list[str]:
    """List the bounds on a metric that say nothing somewhere in a study, with the reasons."""
    lines = []
    for bound in BOUNDS:
        cells = [Setting(study, p, d) for _, _, p, d in study.cells()]
        mute = [s for s in cells if bound.concerns(s) and not speaking(bound, s)]
        if bound.metric != metric or not mute:
            continue
        reasons = dict.fromkeys(
            reason for s in mute for reason in (*bound.doubts(s), *bound.emptiness(s))
        )
        whom = ", ".join(dict.fromkeys(s.policy.label for s in mute))
        lines.append(f"{bound.name} for {whom}: {'; '.join(reasons)}.")
    return lines


def plot_growth(found: Growth) -> Figure:
    """Draw means against T on two logarithmic axes, with the fit that is closer."""
    drifts = found.points.select("drift_index", "drift").unique().sort("drift_index")["drift"]
    policies = found.points.select("policy_index", "policy").unique().sort("policy_index")["policy"]
    with house_style():
        figure = Figure(figsize=(1.4 + 3.0 * len(drifts), 6.2), layout="constrained")
        axes = figure.subplots(len(METRICS), len(drifts), sharex=True, sharey="row", squeeze=False)
        for row, metric in zip(axes, METRICS, strict=True):
            for d, ax in enumerate(row):
                for p, policy in enumerate(policies):
                    _draw_growth(ax, found, (p, d, metric), policy, COLOURS[p % len(COLOURS)])
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
            title="Points: means with 95 % intervals. Solid: a + b log T fits better; "
            "dashed: a power of T does.", title_fontproperties={"size": 9},
        )  # fmt: skip
    return figure


def _draw_growth(
    ax: Axes, found: Growth, cell: tuple[int, int, str], policy: str, colour: str
) -> None:
    p, d, metric = cell
    points = found.points.filter(policy_index=p, drift_index=d, metric=metric).sort("T")
    fit = found.table.filter(policy_index=p, drift_index=d, metric=metric).row(0, named=True)
    T, mean = points["T"].to_numpy(), points["mean"].to_numpy()
    if fit["fits"] is None:
        return
    ax.errorbar(
        T, mean, yerr=1.96 * points["stderr"].to_numpy(),
        fmt="o", markersize=3.5, color=colour, elinewidth=1, label=policy,
    )  # fmt: skip
    grid = np.geomspace(T[0], T[-1], 100)
    if fit["fits"] == "log":
        curve, style = fit["log_a"] + fit["log_b"] * np.log(grid), "-"
    else:
        curve, style = fit["power_a"] * grid ** fit["power_p"], "--"
    ax.plot(grid[curve > 0], curve[curve > 0], style, color=colour, linewidth=1.2)


def power_of_ten(value: float) -> str:
    """Write a large number as 10 to a power.

    >>> from entice.theory.figures import power_of_ten
    >>> power_of_ten(4.0e9)
    '4·10⁹'
    """
    exponent = math.floor(math.log10(value))
    raised = str(exponent).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"{value / 10**exponent:.2g}·10{raised}"
