"""Traces and a small log for the tests of `entice.estimate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

import entice
from entice.engine.kernel import TRACE_COLUMNS
from entice.estimate import Estimate
from entice.study.running.cell import Cell

PAPER = entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
POLICIES = [entice.UCB(), entice.ThompsonSampling()]
SLOPES = [0.0, 0.4, 1.1]
PROBE = entice.Probe(share=0.05, amount=0.3)


def shaped(payment, t, arm, params):  # type: ignore[no-untyped-def]
    """Return a step, a slope and a cap: one function for all drifts is compiled once."""
    return min(params[0] + params[1] * payment, params[2]) if payment > 0.0 else 0.0


def drift_of(step: float = 0.0, slope: float = 0.0, cap: float = 1e9) -> entice.CustomDrift:
    return entice.CustomDrift(shaped, params=[step, slope, cap])


def traces(runs: int, policy: Any, drift: Any, **settings: Any) -> Iterator[pl.DataFrame]:
    """Yield traces of replications; `entice.trace` would look up the loop each time."""
    settings = {"arms": PAPER, "seed": 7} | settings
    study = entice.Study(policies=[policy], drifts=[drift], **settings)
    cell = Cell(study, policy, drift, stop=np.zeros(1, dtype=np.int64), traced=True)
    for replication in range(runs):
        rounds = np.empty((study.horizon, TRACE_COLUMNS))
        cell.run(replication, cell.allocate(1), rounds)
        yield pl.DataFrame(
            {
                "arm": rounds[:, 0].astype(np.int64),
                "payment": rounds[:, 2],
                "feedback": rounds[:, 4],
                "probe": pl.Series(rounds[:, 6]).replace(-1.0, None),
                "probe_amount": rounds[:, 7],
            }
        )


def covers(estimate: Estimate, slope: float) -> bool:
    return estimate.low <= slope <= estimate.high


def log(*rows: tuple[Any, ...]) -> pl.DataFrame:
    """Return a log of (arm, payment, feedback, probe)."""
    return pl.DataFrame(rows, schema=["arm", "payment", "feedback", "probe"], orient="row")


TEA = log(
    ("tea", 0.0, 0.5, None), ("tea", 0.3, 0.9, 1), ("tea", 0.0, 0.5, 0),
    ("tea", 0.3, 0.8, 1), ("tea", 0.0, 0.6, 0),
)  # fmt: skip
