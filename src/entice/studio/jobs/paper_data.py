"""The reproduction of the paper as JSON data: tables, curves, and the settings of each run."""

from __future__ import annotations

from typing import Any

from entice.paper.reproduce import Reproduction, measure
from entice.paper.setups import COEFFICIENTS, MEANS, NAMES, SETUPS, Setup
from entice.studio.jobs.job import JobContext
from entice.study.results.result import Result

REPLICATIONS, SEED = 1000, 7
"""The defaults of `entice reproduce`, which the README's table uses."""
_FIGURES = {"figure_2": 0.0, "figure_3": 1.1}
"""The drift coefficient l of each figure."""


def paper(context: JobContext) -> dict[str, Any]:
    """Run the paper's experiments, report progress, and return the results."""
    return reproduction_payload(measure(REPLICATIONS, SEED, progress=context.progress))


def reproduction_payload(found: Reproduction) -> dict[str, Any]:
    """Return a reproduction as JSON data."""
    return {
        "kind": "paper",
        "seed": found.seed,
        "replications": found.replications,
        "coefficients": COEFFICIENTS,
        "means": MEANS,
        "policies": [{"id": policy, "name": name} for policy, name in NAMES.items()],
        "ran": [
            {"policy": s.policy, "setup": s.name, "words": s.description, "horizon": s.horizon}
            for s in SETUPS
        ],
        "table1": found.table1.to_dicts(),
        "table2": found.table2.to_dicts(),
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


def _curves(found: Reproduction, l: float) -> list[dict[str, Any]]:
    """Return regret and compensation over time, of each policy as written in the paper."""
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
    """Return all final regrets without drift, since their mean is misleading."""
    regret = result.final.filter(policy_index=policy, drift_index=0)["regret"].sort()
    horizon = result.study.horizon
    return {"setup": setup.name, "horizon": horizon, "regret": regret.to_list()}
