"""The heat maps of the atlas."""

from __future__ import annotations

import math
import re
import textwrap
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure

from entice.study.results.plots import MUTED, NotebookFigure, figure_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from entice.atlas.atlas import Atlas

_MAX_RATIO = 10.0
"""Ratios above this value share one colour."""
_COLOURS = LinearSegmentedColormap.from_list("cost", ["#f7fbf9", "#fdd49e", "#d7301f", "#4a0d0d"])


def plot_atlas(found: Atlas) -> Figure:
    """Draw heat maps of regret and compensation, relative to the best policy of each world."""
    worlds = found.table["world"].unique(maintain_order=True).to_list()
    policies = found.table["policy"].unique(maintain_order=True).to_list()
    with figure_style():
        figure = NotebookFigure(
            figsize=(3.0 + 0.95 * len(policies), 3.0 + 0.5 * len(worlds)), layout="constrained"
        )
        axes = figure.subplots(2, 1)
        for ax, metric in zip(axes, ("regret", "compensation"), strict=True):
            _draw_heat_map(ax, found, metric, worlds, policies)
            ax.set_yticks(range(len(worlds)), worlds)
        figure.suptitle(
            "Mean over all runs; in brackets, the ratio to the best policy of the row.",
            x=0.01, ha="left", fontsize=9,
        )  # fmt: skip
    return figure


def _draw_heat_map(
    ax: Axes, found: Atlas, metric: str, worlds: list[str], policies: list[str]
) -> None:
    shape = len(worlds), len(policies)
    mean = found.table[metric].to_numpy().astype(float).reshape(shape)
    ratio = found.table[f"{metric}_ratio"].to_numpy().astype(float).reshape(shape)
    used = found.table["stopped"].is_not_null().to_numpy().reshape(shape)
    shade = np.where(np.isnan(ratio), _MAX_RATIO, np.clip(ratio, 1.0, _MAX_RATIO))
    shade = np.where(used, shade, 1.0)
    ax.imshow(shade, cmap=_COLOURS, norm=LogNorm(1.0, _MAX_RATIO), aspect="auto")
    for i in range(shape[0]):
        for j in range(shape[1]):
            dark = shade[i, j] > 4
            text = "unbounded" if math.isnan(mean[i, j]) else _format(mean[i, j], ratio[i, j])
            text = text if used[i, j] else "–"
            ax.text(j, i, text, ha="center", va="center", fontsize=6.5,
                    color="white" if dark else "#111827")  # fmt: skip
    ax.set_title({"regret": "Regret", "compensation": "Compensation"}[metric])
    ax.set_xticks(range(len(policies)), map(_wrap, policies), fontsize=7)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, colors=MUTED)
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _wrap(label: str) -> str:
    """Break a policy's label into lines that fit its column."""
    name, bracket, settings = label.partition("(")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name), bracket + settings
    lines = [line for part in words for line in textwrap.wrap(part, 14, break_long_words=False)]
    return "\n".join(lines)


def _format(mean: float, ratio: float) -> str:
    times = "" if math.isnan(ratio) else f" ({ratio:.1f})" if ratio < 99.5 else f" ({ratio:,.0f})"
    return f"{mean:,.0f}{times}" if mean < 1e6 else f"{mean:.0e}{times}"
