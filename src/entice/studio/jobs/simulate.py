"""Run a study, with snapshots of its results after growing numbers of replications."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from entice.engine.kernel import METRICS
from entice.errors import InputError
from entice.jit.compile_all import compile_all
from entice.parallel import run_in_threads, thread_count
from entice.studio.jobs.job import JobContext
from entice.study.aggregation.statistics import statistics
from entice.study.run_arrays import RunArrays
from entice.study.running.cell import Cell
from entice.study.spec import Study
from entice.theory import BOUNDS
from entice.theory.bound import Bound, Version
from entice.theory.setting import Setting

SHOWN = ("regret", "compensation", "compensated_pulls")
FIRST_WORK = 16_000_000
"""Rounds × arms of all cells before the first snapshot: 0.05 s on two cores."""
FIRST_REPLICATIONS = 16
"""Maximum replications of the first snapshot."""
GROWTH = 4
"""Factor by which the replications grow from one snapshot to the next."""
_BLOCK_WORK = 12_000_000
"""Rounds × arms of one block, which one thread runs."""
_LANES = 32
"""Replications that fast paths run side by side."""


def simulate(study: Study, context: JobContext) -> None:
    """Run a study and send snapshots. The last one equals the result of `entice.run`."""
    cells = compile_all(
        [partial(Cell, study, policy, drift, context.stop) for _, _, policy, drift in study.cells()]
    )
    arrays = [cell.allocate(study.replications) for cell in cells]
    threads = thread_count(None)
    sizes = snapshot_sizes(study.replications, sum(cell.work for cell in cells))
    blocks = [
        (number, cell, of_cell.rows(row, min(step, until - row)), row)
        for number, (first, until) in enumerate(itertools.pairwise([0, *sizes]))
        for cell, of_cell in zip(cells, arrays, strict=True)
        for step in [_block_size(cell.work, until - first, threads)]
        for row in range(first, until, step)
    ]
    missing = Counter(number for number, *_ in blocks)

    def run(block: tuple[int, Cell, RunArrays, int]) -> None:
        _, cell, rows, first = block
        cell.run(first, rows)

    sent = 0
    with closing(run_in_threads(run, blocks, threads, context.stop)) as finished:
        for (number, *_), _ in finished:
            missing[number] -= 1
            while sent < len(sizes) and not missing[sent]:
                # The next blocks run while this snapshot is summarised.
                context.send("picture", **snapshot(study, arrays, sizes[sent]))
                if sent == 0:
                    context.send("bounds", rows=evaluate_bounds(study))
                sent += 1


def snapshot_sizes(replications: int, work: int) -> list[int]:
    """Return the number of replications in each snapshot.

    >>> from entice.studio.jobs.simulate import snapshot_sizes
    >>> snapshot_sizes(1000, 540_000), snapshot_sizes(1000, 90_000_000)
    ([16, 64, 256, 1000], [1, 4, 16, 64, 256, 1000])
    """
    sizes = [max(1, min(FIRST_REPLICATIONS, FIRST_WORK // max(1, work)))]
    while sizes[-1] * GROWTH < replications:
        sizes.append(sizes[-1] * GROWTH)
    if len(sizes) > 1 and replications < 1.5 * sizes[-1]:
        sizes.pop()  # the last snapshot would look almost the same
    return [size for size in sizes if size < replications] + [replications]


def _block_size(work: int, replications: int, threads: int) -> int:
    """Return how many replications one thread runs at a time."""
    share = -(-replications // threads)
    most = max(1, min(share, _BLOCK_WORK // max(1, work)))
    return most if most < _LANES else -(-most // _LANES) * _LANES


def snapshot(study: Study, arrays: list[RunArrays], size: int) -> dict[str, Any]:
    """Summarise the first `size` replications of all cells."""
    rounds, engines = study.checkpoint_rounds().tolist(), study.engines()
    cells = []
    for (p, d, _, _), of_cell in zip(study.cells(), arrays, strict=True):
        found = of_cell.rows(0, size)
        summary, ran = statistics(found.metrics), found.stopped == 0
        cells.append(
            {
                "policy": study.policy_labels[p],
                "drift": study.drift_labels[d],
                "policy_index": p,
                "drift_index": d,
                "engine": engines[p],
                "t": rounds,
                "metrics": {
                    metric: {
                        name: values[:, METRICS.index(metric)].tolist()
                        for name, values in summary.items()
                    }
                    for metric in SHOWN
                },
                "final": {
                    metric: found.metrics[:, -1, METRICS.index(metric)].tolist()
                    for metric in SHOWN[:2]
                },
                "pulls": found.pulls[ran].mean(axis=0).tolist() if ran.any() else None,
                "stopped": int((~ran).sum()),
            }
        )
    return {"replications": size, "of": study.replications, "cells": cells}


def evaluate_bounds(study: Study) -> list[dict[str, Any]]:
    """Return the bounds that the theorems give for each cell over time, and if they are vacuous."""
    rounds = study.checkpoint_rounds()
    rounds = rounds[rounds >= 2]
    if not len(rounds):
        return []
    return [
        _bound(bound, version, setting, (p, d), rounds)
        for p, d, policy, drift in study.cells()
        for setting in [Setting(study, policy, drift)]
        for bound in BOUNDS
        if bound.covers(setting) and bound.metric in SHOWN
        for version in bound.versions
    ]


def _bound(
    bound: Bound, version: Version, setting: Setting, cell: tuple[int, int], rounds: Any
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "policy_index": cell[0],
        "drift_index": cell[1],
        "metric": bound.metric,
        "bound": bound.name,
        "version": "" if len(bound.versions) == 1 else version.replace("_", " "),
        "kind": bound.kind,
        "at_least": bound.value_is_at_least,
    }
    try:
        values = bound.value(setting, rounds, version)
        empty = bound.vacuous_reasons(setting, version)
    except InputError as error:  # for example, if two arms are equally good
        return row | {"t": [], "values": [], "applies": False, "vacuous": None, "why": [str(error)]}
    unmet_assumptions = bound.unmet_assumptions(setting)
    unknown = bound.value_is_at_least or bool(np.isnan(values[-1]))
    return row | {
        "t": rounds.tolist(),
        "values": values.tolist(),
        "applies": not unmet_assumptions,
        "vacuous": True if empty else None if unknown else False,
        "why": [*unmet_assumptions, *empty],
    }
