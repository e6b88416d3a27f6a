"""The tables of a result: a row for each run, and a row for each point of a curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from entice.engine.kernel import METRICS
from entice.specs import Study


def _names(study: Study, cell: int) -> list[pl.Expr]:
    p, d, policy, drift = list(study.cells())[cell]
    return [
        pl.lit(policy.label).alias("policy"),
        pl.lit(drift.label).alias("drift"),
        pl.lit(p, dtype=pl.Int64).alias("policy_index"),
        pl.lit(d, dtype=pl.Int64).alias("drift_index"),
    ]


def final_frame(
    study: Study, cell: int, first: int, metrics: Any, pulls: Any, stopped: Any
) -> pl.DataFrame:
    """The last round of the replications `first`, `first + 1`, … of a cell."""
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
    return frame.select(*_names(study, cell), *columns)


def curves_frame(study: Study, cell: int, statistics: dict[str, Any]) -> pl.DataFrame:
    """Each statistic (checkpoints × metrics) of a cell."""
    rounds = study.checkpoint_rounds()
    frame = pl.concat(
        pl.DataFrame(
            {"metric": [metric] * len(rounds), "t": rounds}
            | {name: values[:, i].copy() for name, values in statistics.items()}
        )
        for i, metric in enumerate(METRICS)
    )
    policy, drift, *indices = _names(study, cell)
    return frame.select(policy, drift, *frame.columns, *indices)
