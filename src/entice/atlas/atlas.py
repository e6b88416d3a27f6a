"""Policies in many worlds, each compared with the best policy in the same world."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from entice.errors import InputError
from entice.extras import require
from entice.policies import Policy
from entice.progress import Report
from entice.study.results.result import Result
from entice.study.running.run import run_each
from entice.study.spec import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from entice.atlas.worlds import AtlasWorld

_METRICS = ("regret", "compensation")


class Atlas(NamedTuple):
    """The result of `atlas`."""

    table: pl.DataFrame
    """A row for each world and policy: `regret`, `regret_stderr`, `compensation`,
    `compensation_stderr`, `median_regret`, the means relative to the best policy of the world
    (`regret_ratio`, `compensation_ratio`), and `stopped`: the share of runs that were stopped
    because their payments grew without bound. If it is not 0, the means are null."""
    seed: int

    def plot(self) -> Figure:
        """Draw heat maps of regret and compensation, relative to the best policy of each world."""
        require("plot")
        from entice.atlas.figure import plot_atlas

        return plot_atlas(self)


def atlas(
    worlds: Sequence[AtlasWorld] | None = None,
    policies: Sequence[Policy] | None = None,
    *,
    horizon: int = 20_000,
    replications: int = 200,
    seed: int | None = None,
    threads: int | None = None,
    progress: bool | Report | None = None,
) -> Atlas:
    """Run each policy in each world.

    Parameters
    ----------
    worlds, policies
        By default `entice.atlas.WORLDS` and `entice.atlas.POLICIES`.
    horizon, replications, seed, threads, progress
        As for `simulate`.

    The first run compiles each combination, which takes a few seconds each.

    >>> import entice
    >>> from entice.atlas import WORLDS, atlas
    >>> found = atlas(WORLDS[:2], [entice.UCB(), entice.ThompsonSampling()], horizon=1000,
    ...               replications=10, seed=7)
    >>> found.table.height
    4
    """
    from entice.atlas import worlds as defaults

    chosen = defaults.WORLDS if worlds is None else tuple(worlds)
    policies = defaults.POLICIES if policies is None else tuple(policies)
    if not chosen:
        raise InputError("worlds", "must have at least one entry", given=worlds)
    seed = secrets.randbits(32) if seed is None else seed
    studies = [
        Study(
            policies=policies,
            horizon=horizon,
            replications=replications,
            seed=seed,
            checkpoints=1,
            **world.settings,
        )
        for world in chosen
    ]
    results = run_each(studies, title="Exploring", threads=threads, progress=progress)
    frames = [_rows(world.name, found) for world, found in zip(chosen, results, strict=True)]
    return Atlas(pl.concat(frames), seed)


def _rows(name: str, result: Result) -> pl.DataFrame:
    final = result.final.group_by("policy_index", "policy", maintain_order=True).agg(
        pl.col("regret").mean(),
        regret_stderr=pl.col("regret").std() / pl.len().sqrt(),
        compensation=pl.col("compensation").mean(),
        compensation_stderr=pl.col("compensation").std() / pl.len().sqrt(),
        median_regret=pl.col("regret").median(),
        stopped=pl.col("stopped").is_not_null().mean(),
    )
    numbers = pl.col(pl.Float64).fill_nan(None)
    return (
        final.with_columns(numbers)
        .with_columns(
            *(
                (pl.col(m) / pl.col(m).filter(pl.col(m) > 0).min()).alias(f"{m}_ratio")
                for m in _METRICS
            )
        )
        .select(pl.lit(name).alias("world"), pl.all())
    )
