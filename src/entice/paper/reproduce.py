"""Tables 1 and 2, Figures 2 and 3 and the greedy baseline, with ranges of single runs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from entice.errors import InputError
from entice.extras import require
from entice.paper.report import write_report
from entice.paper.setups import (
    COEFFICIENTS,
    MEANS,
    Setup,
    equal_pay_study,
    greedy_study,
    published,
    studies,
)
from entice.progress import Report
from entice.study.aggregation.statistics import statistics
from entice.study.results.result import Result
from entice.study.running.output_folder import output_folder
from entice.study.running.run import run_each

TABLES = {
    "table1": ("regret", "compensation"),
    "table2": ("compensated_pulls", "best_arm_error_percent"),
}
COUNTED = ("regret", "compensation", "compensated_pulls")
"""The metrics of the coverage: 7 values of l × 3 = 21 published values for each policy.

The error of the best arm's average is omitted: it is so small and so variable under every set-up
that it does not distinguish them.
"""
_COLUMNS = (
    "policy", "l", "metric", "setup", "horizon", "mean", "stderr", "q05", "q50", "q95",
    "published", "inside",
)  # fmt: skip


class Reproduction(NamedTuple):
    """The results of `entice reproduce`."""

    table1: pl.DataFrame
    table2: pl.DataFrame
    coverage: pl.DataFrame
    greedy: pl.DataFrame
    """Regret of the baseline: statistics, and the share of runs stuck on each arm."""
    equal_pay: pl.DataFrame
    """A policy that is not from the paper, on its instance: a row for each metric and l = 0, 1.1.

    `unchanged` is the share of runs that have the same value for both l."""
    results: list[tuple[list[Setup], Result]]
    baseline: Result
    seed: int
    replications: int
    horizon: int | None
    """Overrides the paper's horizons if set."""


def reproduce(
    *,
    replications: int = 1000,
    seed: int | None = None,
    horizon: int | None = None,
    out: Path,
    threads: int | None = None,
    progress: bool | None = None,
) -> Reproduction:
    """Run all set-ups and write tables, figures and the report into a folder."""
    require("plot")
    with output_folder(out):
        reproduction = measure(replications, seed, horizon, threads, progress)
    _write(reproduction, out)
    return reproduction


def measure(
    replications: int,
    seed: int | None = None,
    horizon: int | None = None,
    threads: int | None = None,
    progress: bool | Report | None = None,
) -> Reproduction:
    """Run all set-ups and compare the results with the published values."""
    if horizon is not None and horizon < len(MEANS):
        raise InputError(
            "horizon", f"must be at least {len(MEANS)}, the number of arms", given=horizon
        )
    seed = secrets.randbits(32) if seed is None else seed
    planned = studies(replications, seed, horizon)
    baseline = greedy_study(replications, seed, horizon)
    *ran, greedy, equal_pay = run_each(
        [
            *(study for _, study in planned),
            baseline,
            equal_pay_study(replications, seed, horizon),
        ],
        title="Reproducing the paper",
        threads=threads,
        progress=progress,
    )
    results = [(setups, result) for (setups, _), result in zip(planned, ran, strict=True)]
    tables = {name: _table(results, metrics) for name, metrics in TABLES.items()}
    return Reproduction(
        **tables,
        coverage=_coverage(pl.concat(tables.values())),
        greedy=_greedy(greedy),
        equal_pay=_equal_pay(equal_pay),
        results=results,
        baseline=greedy,
        seed=seed,
        replications=replications,
        horizon=horizon,
    )


def _table(results: list[tuple[list[Setup], Result]], metrics: tuple[str, ...]) -> pl.DataFrame:
    printed = {(p, m, l): v for p, m, l, v in published().iter_rows()}
    rows = []
    for setups, result in results:
        for p, setup in enumerate(setups):
            for d, l in enumerate(COEFFICIENTS):
                cell = result.final.filter(policy_index=p, drift_index=d)
                for metric in metrics:
                    found = {k: float(v) for k, v in statistics(_values(cell, metric)).items()}
                    value = printed[setup.policy, metric, l]
                    rows.append(
                        {
                            "policy": setup.policy,
                            "l": l,
                            "metric": metric,
                            "setup": setup.name,
                            "horizon": result.study.horizon,
                            **found,
                            "published": value,
                            "inside": found["q05"] <= value <= found["q95"],
                        }
                    )
    return pl.DataFrame(rows).select(_COLUMNS)


def _values(cell: pl.DataFrame, metric: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    if metric == "best_arm_error_percent":
        return 100.0 * cell["best_arm_error"].to_numpy()
    return cell[metric].cast(pl.Float64).to_numpy()


def _coverage(rows: pl.DataFrame) -> pl.DataFrame:
    return (
        rows.filter(pl.col("metric").is_in(COUNTED))
        .group_by("policy", "setup", "horizon", maintain_order=True)
        .agg(inside=pl.col("inside").sum().cast(pl.Int64), published=pl.len().cast(pl.Int64))
    )


def _greedy(result: Result) -> pl.DataFrame:
    found = {k: float(v) for k, v in statistics(result.final["regret"].to_numpy()).items()}
    favourite = result.final["pulls"].to_numpy().argmax(axis=1)
    shares = np.bincount(favourite, minlength=len(MEANS)) / len(favourite)
    row = {"horizon": result.study.horizon, **found}
    row |= {f"stuck_on_{mean:g}": float(share) for mean, share in zip(MEANS, shares, strict=True)}
    return pl.DataFrame([row])


def _equal_pay(result: Result) -> pl.DataFrame:
    rows: list[dict[str, object]] = []
    for metric in ("regret", "compensation"):
        without, drifted = (result.final.filter(drift_index=d)[metric].to_numpy() for d in (0, 1))
        unchanged = float(np.isclose(without, drifted, rtol=1e-9).mean())
        for drift, values in zip(result.study.drifts, (without, drifted), strict=True):
            found = {k: float(v) for k, v in statistics(values).items()}
            row = {"l": drift.lipschitz, "metric": metric, "horizon": result.study.horizon}
            rows.append({**row, "runs": len(values), **found, "unchanged": unchanged})
    return pl.DataFrame(rows)


def _write(reproduction: Reproduction, out: Path) -> None:
    from entice.paper import figures

    for name in ("table1", "table2", "coverage", "greedy", "equal_pay"):
        getattr(reproduction, name).write_csv(out / f"{name}.csv")
    written = next(result for setups, result in reproduction.results if setups[0].name == "written")
    drawn: dict[str, Callable[[], figures.Figure]] = {
        "fig2": lambda: figures.over_time(written, COEFFICIENTS.index(0.0)),
        "fig3": lambda: figures.over_time(written, COEFFICIENTS.index(1.1)),
        "explained": lambda: figures.explained(
            pl.concat([reproduction.table1, reproduction.table2]), COUNTED
        ),
        "lock_in": lambda: figures.lock_in(reproduction.results),
    }
    with figures.figure_style():
        for name, draw in drawn.items():
            figure = draw()
            figure.savefig(out / f"{name}.png")
            figure.set_layout_engine("none")  # the SVG has the layout of the PNG
            figure.savefig(out / f"{name}.svg", metadata={"Date": None})
    write_report(reproduction, out)
