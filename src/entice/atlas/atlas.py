"""Policies in many worlds, each compared with the best policy in the same world."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from entice.errors import InputError
from entice.extras import require
from entice.labels import unique_labels
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
    because their payments grew without bound. If it is not 0, the means are null. A policy that
    can't be used in a world, such as equal pay with a probe, has a row of nulls."""
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
        By default `entice.atlas.WORLDS` and `entice.atlas.default_policies(horizon)`.
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
    policies = defaults.default_policies(horizon) if policies is None else tuple(policies)
    if not chosen:
        raise InputError("worlds", "must have at least one entry", given=worlds)
    seed = secrets.randbits(32) if seed is None else seed
    labels = unique_labels(policies)
    usable = [_usable(policies, world) for world in chosen]
    studies = [
        Study(
            policies=[policies[p] for p in of_world],
            horizon=horizon,
            replications=replications,
            seed=seed,
            checkpoints=1,
            **world.settings,
        )
        for world, of_world in zip(chosen, usable, strict=True)
    ]
    results = run_each(studies, title="Exploring", threads=threads, progress=progress)
    frames = [
        _rows(world.name, labels, of_world, found)
        for world, of_world, found in zip(chosen, usable, results, strict=True)
    ]
    return Atlas(pl.concat(frames), seed)


def _usable(policies: Sequence[Policy], world: AtlasWorld) -> list[int]:
    """Return the indices of the policies that a world permits: with a probe, not equal pay.

    If there is none, return all, so that the study raises an error.
    """
    every = list(range(len(policies)))
    if world.settings.get("probe") is None:
        return every
    return [p for p in every if not policies[p].equal_pay] or every


def _rows(name: str, labels: Sequence[str], usable: list[int], result: Result) -> pl.DataFrame:
    final = result.final.group_by("policy_index", maintain_order=True).agg(
        pl.col("regret").mean(),
        regret_stderr=pl.col("regret").std() / pl.len().sqrt(),
        compensation=pl.col("compensation").mean(),
        compensation_stderr=pl.col("compensation").std() / pl.len().sqrt(),
        median_regret=pl.col("regret").median(),
        stopped=pl.col("stopped").is_not_null().mean(),
    )
    numbers = pl.col(pl.Float64).fill_nan(None)
    found = final.with_columns(numbers).with_columns(
        pl.Series("policy_index", usable, final["policy_index"].dtype),
        *(
            (pl.col(m) / pl.col(m).filter(pl.col(m) > 0).min()).alias(f"{m}_ratio")
            for m in _METRICS
        ),
    )
    every = pl.DataFrame({"policy": labels}).with_row_index("policy_index")
    every = every.select(
        pl.lit(name).alias("world"),
        pl.col("policy_index").cast(found.schema["policy_index"]),
        "policy",
    )
    return every.join(found, on="policy_index", how="left", maintain_order="left")
