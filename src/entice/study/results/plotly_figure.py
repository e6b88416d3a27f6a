"""The interactive figure of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from entice.study.results.plots import BANDS, COLOURS, STOPPED, TITLES, check_metric, stopped_cells

if TYPE_CHECKING:
    from entice.study.results.result import Result


def plotly_curves(result: Result, metric: str) -> go.Figure:
    """Draw what `plot_curves` draws: a panel for each drift, a line and bands for each policy."""
    check_metric(result, metric)
    drifts = result.study.drift_labels
    figure = make_subplots(cols=len(drifts), shared_yaxes=True, subplot_titles=drifts)
    for p, policy in enumerate(result.study.policy_labels):
        for d in range(len(drifts)):
            curve = result.curves.filter(policy_index=p, drift_index=d, metric=metric)
            for trace in _traces(curve.to_dict(as_series=False), policy, COLOURS[p % len(COLOURS)]):
                figure.add_trace(trace.update(showlegend=d == 0 and trace.fill is None), 1, d + 1)
    stopped = stopped_cells(result, metric)
    notes = [BANDS, f"{STOPPED} {', '.join(stopped)}."] if stopped else [BANDS]
    figure.update_xaxes(title_text="Round t").update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text=TITLES[metric], col=1)
    text = {"text": "<br>".join(notes), "font": {"size": 12}}
    return figure.update_layout(title=text, template="plotly_white", hovermode="x unified")


def _traces(curve: dict[str, list[Any]], policy: str, colour: str) -> list[go.Scatter]:
    """Return the two bands and the median of a cell; a click in the legend hides all three."""
    t, traces = curve["t"], []
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    for low, high, alpha in (("q05", "q95", 0.13), ("q25", "q75", 0.22)):
        band = go.Scatter(
            x=[*t, *reversed(t)], y=[*curve[high], *reversed(curve[low])], fill="toself",
            fillcolor=f"rgba({red},{green},{blue},{alpha})", line={"width": 0}, mode="lines",
            hoverinfo="skip", legendgroup=policy, name=f"{policy}, {low} to {high}",
        )  # fmt: skip
        traces.append(band)
    mode = "lines" if len(t) > 1 else "markers"
    line = {"color": colour, "width": 2}
    median = go.Scatter(
        x=t, y=curve["q50"], name=policy, mode=mode, line=line, marker={"color": colour},
        legendgroup=policy,
    )  # fmt: skip
    return [*traces, median]
