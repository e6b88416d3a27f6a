"""The reproduction of the paper as data: tables, curves, and what the published numbers ran."""

from __future__ import annotations

from typing import Any

import polars as pl

from entice.paper.reproduce import Reproduction, measure
from entice.paper.setups import COEFFICIENTS, MEANS, NAMES, SETUPS, Setup
from entice.studio.jobs.job import Task
from entice.study.results.result import Result

REPLICATIONS, SEED = 1000, 7
"""As `entice reproduce` has by default, and the table of the README."""
_FIGURES = {"figure_2": 0.0, "figure_3": 1.1}
"""Regret and compensation over time, at which l."""


def paper(task: Task) -> dict[str, Any]:
    """Run the paper's experiments, telling how far they are, and return what they gave."""
    return told(measure(REPLICATIONS, SEED, progress=task.progress))


def told(found: Reproduction) -> dict[str, Any]:
    """Write a reproduction as plain tables."""
    return {
        "kind": "paper",
        "seed": found.seed,
        "replications": found.replications,
        "coefficients": COEFFICIENTS,
        "means": MEANS,
        "policies": [{"id": policy, "name": name} for policy, name in NAMES.items()],
        "ran": [
            {"policy": s.policy, "setup": s.name, "words": s.words, "horizon": s.horizon}
            for s in SETUPS
        ],
        "table1": _rows(found.table1),
        "table2": _rows(found.table2),
        "coverage": found.coverage.to_dicts(),
        "greedy": found.greedy.row(0, named=True),
        "figures": {name: _curves(found, l) for name, l in _FIGURES.items()},
        "lock_in": [
            _spread(setup, p, result)
            for setups, result in found.results
            for p, setup in enumerate(setups)
            if setup.policy == "thompson_sampling"
        ],
    }


def _rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table; `inside`: the published value is within the range of one run."""
    return table.to_dicts()


def _curves(found: Reproduction, l: float) -> list[dict[str, Any]]:
    """Regret and compensation of each policy as written, over time."""
    result = next(result for setups, result in found.results if setups[0].name == "written")
    drift = COEFFICIENTS.index(l)
    return [
        {
            "policy": policy,
            "l": l,
            "metric": metric,
            **result.curves.filter(policy_index=p, drift_index=drift, metric=metric)
            .select("t", "mean", "q05", "q25", "q50", "q75", "q95")
            .to_dict(as_series=False),
        }
        for p, policy in enumerate(NAMES)
        for metric in ("regret", "compensation")
    ]


def _spread(setup: Setup, policy: int, result: Result) -> dict[str, Any]:
    """All final regrets without drift: means mislead here."""
    regret = result.final.filter(policy_index=policy, drift_index=0)["regret"].sort()
    horizon = result.study.horizon
    return {"setup": setup.name, "horizon": horizon, "regret": regret.to_list()}
