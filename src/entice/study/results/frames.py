"""The frames of a result: one row for each run, one row for each point of a curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from entice.engine.kernel import METRICS
from entice.labels import parameter_columns
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
    cells = pl.DataFrame([(p, d) for p, d, _, _ in study.cells()], schema=CELL, orient="row")
    run = cells.with_columns(
        horizon=pl.lit(study.horizon, dtype=pl.Int64), seed=pl.lit(study.seed, dtype=pl.Int64)
    )
    for key, role, specs in zip(
        CELL, ("policy", "drift"), (study.policies, study.drifts), strict=True
    ):
        columns = pl.DataFrame(parameter_columns(role, specs)).with_row_index(key)
        columns = columns.with_columns(pl.col(key).cast(pl.Int64))
        run = run.join(columns, on=key, how="left", maintain_order="left")
    return run


def with_settings(frame: pl.DataFrame, study: Study) -> pl.DataFrame:
    """Add the settings to each row. Results of old versions lack these columns."""
    if "horizon" in frame.columns:
        return frame
    return frame.join(settings_frame(study), on=CELL, how="left", maintain_order="left")


def _labels(study: Study, cell: int) -> list[pl.Expr]:
    p, d, _, _ = list(study.cells())[cell]
    return [
        pl.lit(study.policy_labels[p]).alias("policy"),
        pl.lit(study.drift_labels[d]).alias("drift"),
        pl.lit(p, dtype=pl.Int64).alias("policy_index"),
        pl.lit(d, dtype=pl.Int64).alias("drift_index"),
    ]


def final_frame(
    study: Study, cell: int, first: int, metrics: Any, pulls: Any, stopped: Any
) -> pl.DataFrame:
    """Return the last round of the replications `first`, `first + 1`, … of a cell."""
    replications = np.arange(first, first + len(metrics), dtype=np.int64)
    columns: dict[str, Any] = {"replication": replications}
    columns |= {name: metrics[:, i].copy() for i, name in enumerate(METRICS)}
    columns["pulls"] = pl.Series(pulls, dtype=pl.Array(pl.Int64, pulls.shape[1]))
    columns["stopped"] = stopped.copy()
    ran_away = pl.col("stopped") > 0
    frame = pl.DataFrame(columns).with_columns(
        pl.when(~ran_away).then("compensated_pulls").cast(pl.Int64),
        pl.when(ran_away).then("stopped"),
    )
    return with_settings(frame.select(*_labels(study, cell), *columns), study)


def curves_frame(study: Study, cell: int, statistics: dict[str, Any]) -> pl.DataFrame:
    """Return each statistic (checkpoints × metrics) of a cell."""
    rounds = study.checkpoint_rounds()
    frame = pl.concat(
        pl.DataFrame(
            {"metric": [metric] * len(rounds), "t": rounds}
            | {name: values[:, i].copy() for name, values in statistics.items()}
        )
        for i, metric in enumerate(METRICS)
    )
    policy, drift, *indices = _labels(study, cell)
    return with_settings(frame.select(policy, drift, *frame.columns, *indices), study)
