"""The frames of a result: one row for each run, one row for each point of a curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from entice.labels import parameter_columns
from entice.study.aggregation.aggregators import ExactAggregator, StreamingAggregator
from entice.study.spec import Study

CELL = ("policy_index", "drift_index")
"""The columns that identify the cell of a row."""


def settings_frame(study: Study) -> pl.DataFrame:
    """Return the settings of each cell: horizon, seed, parameters of policy and drift.

    >>> import entice
    >>> from entice.study.results.frames import settings_frame
    >>> study = entice.Study(arms=entice.Gaussian([0.9, 0.5]), policies=[entice.EpsilonGreedy(5)],
    ...                      drifts=[entice.LinearDrift(1.1)], horizon=100, seed=7)
    >>> settings_frame(study).columns[2:]
    ['horizon', 'seed', 'policy.kind', 'policy.c', 'drift.kind', 'drift.l']
    """
    cells = list(study.cells())
    policy_index, drift_index, policies, drifts = zip(*cells, strict=True)
    columns: dict[str, pl.Series] = {
        name: pl.Series(values, dtype=pl.Int64)
        for name, values in (
            *zip(CELL, (policy_index, drift_index), strict=True),
            ("horizon", [study.horizon] * len(cells)),
            ("seed", [study.seed] * len(cells)),
        )
    }
    columns |= parameter_columns("policy", policies) | parameter_columns("drift", drifts)
    return pl.DataFrame(columns)


def with_settings(frame: pl.DataFrame, study: Study) -> pl.DataFrame:
    """Add the settings to each row. Results of old versions lack these columns."""
    if "horizon" in frame.columns:
        return frame
    return frame.join(settings_frame(study), on=CELL, how="left", maintain_order="left")


def _cell_columns(study: Study, cell: int, rows: int) -> dict[str, pl.Series]:
    """Return the labels and settings of a cell, repeated for each of its rows."""
    p, d, _, _ = list(study.cells())[cell]
    labels = {"policy": study.policy_labels[p], "drift": study.drift_labels[d]}
    columns = {name: pl.Series([label]).new_from_index(0, rows) for name, label in labels.items()}
    for column in settings_frame(study):
        columns[column.name] = column.new_from_index(cell, rows)
    return columns


def final_frame(
    study: Study, cell: int, first: int, metrics: Any, pulls: Any, stopped: Any
) -> pl.DataFrame:
    """Return the last round of the replications `first`, `first + 1`, … of a cell."""
    about = _cell_columns(study, cell, len(metrics))
    columns: dict[str, Any] = {name: about.pop(name) for name in ("policy", "drift", *CELL)}
    columns["replication"] = np.arange(first, first + len(metrics), dtype=np.int64)
    columns |= {name: metrics[:, i].copy() for i, name in enumerate(study.metrics)}
    # A stopped run has no count of pulls, and the others have no round in which they stopped.
    counts = pl.Series(columns["compensated_pulls"], nan_to_null=True)
    columns["compensated_pulls"] = counts.cast(pl.Int64)
    columns["pulls"] = pl.Series(pulls, dtype=pl.Array(pl.Int64, pulls.shape[1]))
    columns["stopped"] = pl.Series(stopped).set(pl.Series(stopped == 0), None)
    return pl.DataFrame(columns | about)


def curves_frame(
    study: Study, cell: int, aggregator: ExactAggregator | StreamingAggregator
) -> pl.DataFrame:
    """Return the statistics of a cell at each checkpoint."""
    rounds = study.checkpoint_rounds()
    about = _cell_columns(study, cell, len(study.metrics) * len(rounds))
    columns: dict[str, Any] = {name: about.pop(name) for name in ("policy", "drift")}
    columns["metric"] = [metric for metric in study.metrics for _ in rounds]
    columns["t"] = np.tile(rounds, len(study.metrics))
    # Each statistic is an array of checkpoints × metrics.
    columns |= {name: values.T.ravel() for name, values in aggregator.statistics().items()}
    return pl.DataFrame(columns | about)
