"""Detection of data and texts that a matplotlib figure draws outside its axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection, LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

ROUNDING = 1e-6
"""Tolerance for rounding, as a share of the length of an axis."""
SPILL = 2.0
"""Pixels by which text may extend over the edge of the figure."""


def drawn_outside(figure: Figure) -> list[str]:
    """List data outside their axes, and texts outside the figure.

    Covers lines, bands, points, error bars, bars, images and texts at data coordinates. Values that
    are not finite are not drawn, so they are not listed. Values of zero or less on a logarithmic
    axis are listed as "not above zero".
    """
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # lets the layout engine determine the limits
    found = []
    for number, ax in enumerate(figure.axes):
        if ax.get_visible():
            found += [f"panel {number}, {line}" for line in _outside(ax)]
    return found + [f"text outside the figure: {text!r}" for text in _cut_off_texts(figure, canvas)]


def _outside(ax: Axes) -> Iterator[str]:
    for artist in ax.get_children():
        if not artist.get_visible() or artist in _frame_and_titles(ax):
            continue
        points = _points(artist)
        if points is None or not len(points):
            continue
        with_x, with_y = _of_data(artist, ax)
        for name, values, counts in (("x", points[:, 0], with_x), ("y", points[:, 1], with_y)):
            if counts:
                excess = _beyond(ax, name, np.asarray(values, dtype=float))
                if excess:
                    yield f"{_name(artist)}: {excess}"


def _frame_and_titles(ax: Axes) -> tuple[Any, ...]:
    """Return frame, axes and titles, which are not data."""
    titles = (ax.title, ax._left_title, ax._right_title)  # type: ignore[attr-defined]
    return (ax.patch, ax.xaxis, ax.yaxis, *ax.spines.values(), *titles)


def _points(artist: Artist) -> Any:
    """Return the corners of an artist, in its own coordinates."""
    if isinstance(artist, Line2D):
        return np.asarray(artist.get_xydata())
    if isinstance(artist, PathCollection):  # scatter
        return np.asarray(artist.get_offsets())
    if isinstance(artist, Collection):
        # Strokes count as well as fills.
        return np.concatenate([path.vertices for path in artist.get_paths()] or [np.empty((0, 2))])
    if isinstance(artist, Patch):
        return artist.get_patch_transform().transform(artist.get_path().vertices)
    if isinstance(artist, AxesImage):
        left, right, bottom, top = artist.get_extent()
        return np.array([[left, bottom], [right, top]])
    if isinstance(artist, Text):
        x, y = artist.xy if hasattr(artist, "xy") else artist.get_position()
        return np.array([[x, y]], dtype=float) if artist.get_text() else None
    return None


def _of_data(artist: Artist, ax: Axes) -> tuple[bool, bool]:
    """Return whether x and y are data coordinates, not shares of the axes as in `axhline`."""
    if isinstance(artist, Text) and hasattr(artist, "xycoords"):
        return (artist.xycoords == "data",) * 2
    if isinstance(artist, PathCollection):
        transform: Any = artist.get_offset_transform()
    else:
        transform = artist.get_transform()
    return transform.contains_branch_seperately(ax.transData)  # type: ignore[no-any-return]


def _beyond(ax: Axes, name: str, values: Any) -> str:
    axis = getattr(ax, f"{name}axis")
    values = values[np.isfinite(values)]
    if axis.get_scale() == "log" and (values <= 0).any():
        return f"{name} = {values.min():g} is not above zero, on a logarithmic axis"
    if not values.size:
        return ""
    scale = axis.get_transform().transform
    low, high = np.sort(scale(np.asarray(axis.get_view_interval())))
    slack = ROUNDING * (high - low)
    at = scale(values)
    worst = [v for v, wrong in ((at.min(), at.min() < low - slack),
                                (at.max(), at.max() > high + slack)) if wrong]  # fmt: skip
    if not worst:
        return ""
    invert = axis.get_transform().inverted().transform
    ends = " to ".join(f"{v:g}" for v in invert(np.array([low, high])))
    values_outside = " and ".join(f"{v:g}" for v in invert(np.array(worst)))
    return f"{name} = {values_outside}, but the axis shows {ends}"


def _cut_off_texts(figure: Figure, canvas: FigureCanvasAgg) -> Iterator[str]:
    """Yield texts that the edge of the figure cuts off."""
    width, height = canvas.get_width_height()
    renderer = canvas.get_renderer()
    hidden = _labels_of_hidden_ticks(figure)
    for text in figure.findobj(Text):
        if not isinstance(text, Text) or not text.get_text().strip() or id(text) in hidden:
            continue
        if not text.get_visible() or (text.axes is not None and not text.axes.get_visible()):
            continue
        box = text.get_window_extent(renderer)
        low, right, top = min(box.x0, box.y0), box.x1 - width, box.y1 - height
        if low < -SPILL or max(right, top) > SPILL:
            yield text.get_text()


def _labels_of_hidden_ticks(figure: Figure) -> set[int]:
    """Return the labels of ticks beyond the ends of their axis, which matplotlib does not draw."""
    hidden: set[int] = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            made = {*axis.get_major_ticks(), *axis.get_minor_ticks()}
            for tick in made - set(axis._update_ticks()):  # type: ignore[union-attr]
                hidden |= {id(tick.label1), id(tick.label2)}
    return hidden


def _name(artist: Artist) -> str:
    kind = "error bars" if isinstance(artist, LineCollection) else type(artist).__name__
    label = artist.get_text() if isinstance(artist, Text) else artist.get_label()
    return f"{kind} {label!r}" if label and not str(label).startswith("_") else kind
