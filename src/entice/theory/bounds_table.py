"""A table of all bounds on a study, with the measurements, and a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from entice.extras import require
from entice.study.results.result import Result
from entice.study.spec import Study
from entice.theory import equal_pay, lower, theorem1, theorem2, theorem3
from entice.theory.bound import Bound, Version
from entice.theory.setting import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from entice.study.results.plots import Style

BOUNDS: tuple[Bound, ...] = (
    theorem1.regret,
    theorem1.compensation,
    theorem2.regret,
    theorem2.compensation,
    theorem2.paid_pulls,
    theorem3.regret,
    theorem3.compensation,
    theorem3.paid_pulls,
    equal_pay.regret,
    equal_pay.compensation,
    lower.regret,
    lower.compensation,
)
"""The bounds on metrics of a study, which `bounds` evaluates: a `Bound` for each."""


class BoundsFrame(pl.DataFrame):
    """The frame of `bounds`, which notebooks show like `entice bounds` does."""

    def _repr_html_(self, **settings: Any) -> str:
        # Some operations keep the class, but not the columns.
        if self.columns != list(_SCHEMA):
            return str(super()._repr_html_(**settings))
        from entice.theory.bounds_html import bounds_html

        return bounds_html(self)


def bounds(study_or_result: Study | Result) -> pl.DataFrame:
    """Compare each bound on a study's policies with the measurements after the last round.

    Parameters
    ----------
    study_or_result
        A result, or a study for the bounds alone.

    Returns
    -------
    polars.DataFrame
        A row for each cell, bound and version: `policy`, `drift`, `bound`, `version`, `metric`,
        `kind` (upper or lower), `value`, `at_least` (the bound is at least `value`), `applies`,
        `vacuous` (null if unknown), `mean`, `stderr`, `q95`, `ratio` (value / mean), `doubts` (the
        reasons why it does not apply), `emptiness` (the reasons why it is vacuous), and the
        indices of the cell.

    >>> import entice
    >>> study = entice.Study(arms=entice.Bernoulli([0.9, 0.5]), policies=[entice.UCB()],
    ...                      drifts=[entice.LinearDrift(0.5)], horizon=10_000)
    >>> entice.theory.bounds(study).select("bound", "version", "metric", "value").head(2)
    shape: (2, 4)
    ┌───────────┬───────────┬────────┬────────────┐
    │ bound     ┆ version   ┆ metric ┆ value      │
    │ ---       ┆ ---       ┆ ---    ┆ ---        │
    │ str       ┆ str       ┆ str    ┆ f64        │
    ╞═══════════╪═══════════╪════════╪════════════╡
    │ Theorem 1 ┆ as stated ┆ regret ┆ 415.781264 │
    │ Theorem 1 ┆ as proved ┆ regret ┆ 415.781264 │
    └───────────┴───────────┴────────┴────────────┘
    """
    study = study_or_result if isinstance(study_or_result, Study) else study_or_result.study
    measured = {} if isinstance(study_or_result, Study) else _measured(study_or_result)
    rows = [
        _row(bound, version, setting, (p, d), measured.get((p, d, bound.metric)))
        for p, d, policy, drift in study.cells()
        for setting in [Setting(study, policy, drift)]
        for bound in BOUNDS
        if bound.covers(setting)
        for version in bound.versions
    ]
    return BoundsFrame(rows, schema=_SCHEMA)


def plot_bounds(
    result: Result,
    metric: str = "regret",
    *,
    style: Style = "screen",
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Plot a metric of a result, as `Result.plot` does, with the bounds that apply to it.

    Bounds that do not apply or are vacuous are listed below the panels, with the reasons. If any
    bound is drawn, both axes are logarithmic. `style` and `ax` are those of `Result.plot`.

    >>> import entice
    >>> result = entice.simulate(arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()],
    ...                          horizon=100, replications=5, seed=7, progress=False)
    >>> figure = entice.theory.plot_bounds(result, "regret")
    """
    require("plot")
    from entice.study.results.plots import plot_curves
    from entice.theory.figures import add_bounds

    return plot_curves(result, metric, add_bounds, style=style, ax=ax)


_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("policy", "drift", "bound", "version", "metric", "kind"), pl.String),
    "value": pl.Float64,
    **dict.fromkeys(("at_least", "applies", "vacuous"), pl.Boolean),
    **dict.fromkeys(("mean", "stderr", "q95", "ratio"), pl.Float64),
    **dict.fromkeys(("doubts", "emptiness"), pl.List(pl.String)),
    **dict.fromkeys(("policy_index", "drift_index"), pl.Int64),
}


def _row(
    bound: Bound,
    version: Version,
    setting: Setting,
    cell: tuple[int, int],
    measured: dict[str, float] | None,
) -> dict[str, Any]:
    value = float(bound.value(setting, setting.study.horizon, version))
    unmet_assumptions, empty = (
        bound.unmet_assumptions(setting),
        bound.vacuous_reasons(setting, version),
    )
    row = {
        "policy": setting.policy.label,
        "drift": setting.drift.label,
        "bound": bound.name,
        "version": "" if len(bound.versions) == 1 else version.replace("_", " "),
        "metric": bound.metric,
        "kind": bound.kind,
        "value": None if math.isnan(value) else value,
        "at_least": bound.value_is_at_least,
        "applies": not unmet_assumptions,
        "vacuous": True
        if empty
        else None
        if bound.value_is_at_least or math.isnan(value)
        else False,
        "doubts": list(unmet_assumptions),
        "emptiness": list(empty),
        "policy_index": cell[0],
        "drift_index": cell[1],
    }
    if measured is not None:
        row |= {name: measured[name] for name in ("mean", "stderr", "q95")}
        if measured["mean"] > 0 and not math.isnan(value):
            row["ratio"] = value / measured["mean"]
    return row


def _measured(result: Result) -> dict[tuple[int, int, str], dict[str, float]]:
    return {
        (row["policy_index"], row["drift_index"], row["metric"]): row
        for row in result.summary().iter_rows(named=True)
    }
