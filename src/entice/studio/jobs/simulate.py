"""A study in growing numbers of replications: a first picture at once, then better ones."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from entice.engine.kernel import METRICS
from entice.errors import InputError
from entice.studio.jobs.job import Task
from entice.study.aggregation.statistics import statistics
from entice.study.run_arrays import RunArrays
from entice.study.running.cell import Cell
from entice.study.running.threads import thread_count
from entice.study.spec import Study
from entice.theory import BOUNDS
from entice.theory.bound import Bound, Version
from entice.theory.setting import Setting

SHOWN = ("regret", "compensation", "compensated_pulls")
AT_ONCE = 16_000_000
"""Rounds × arms of all cells for the first picture: a twentieth of a second on two cores."""
FEW = 16
"""The most replications of the first picture."""
GROWTH = 4
"""Each picture has so many times the replications of the one before."""
_BLOCK = 12_000_000
"""Rounds × arms that one thread works on before it looks for more."""
_LANES = 32
"""Fast paths run so many replications side by side."""


def simulate(study: Study, task: Task) -> None:
    """Run a study and show it again and again; the last picture is what `entice.run` finds."""
    with task.compiling():
        cells = [Cell(study, policy, drift, task.stop) for _, _, policy, drift in study.cells()]
    rooms = [cell.room_for(study.replications) for cell in cells]
    threads = thread_count(None)
    pool = ThreadPoolExecutor(threads)

    def begin(first: int, until: int) -> list[Future[None]]:
        return [
            pool.submit(cell.run, row, room.rows(row, min(step, until - row)))
            for cell, room in zip(cells, rooms, strict=True)
            for step in [_step(cell.work, until - first, threads)]
            for row in range(first, until, step)
        ]

    try:
        stages = stages_of(study.replications, sum(cell.work for cell in cells))
        running = begin(0, stages[0])
        for shown, following in zip(stages, [*stages[1:], None], strict=True):
            for block in running:
                block.result()
            # The next blocks are under way while this picture is drawn.
            running = begin(shown, following) if following is not None else []
            task.tell("picture", **picture(study, rooms, shown))
            if shown == stages[0]:
                task.tell("bounds", rows=bounds_of(study))
    finally:
        task.stop[0] = 1
        pool.shutdown(wait=True, cancel_futures=True)


def stages_of(replications: int, work: int) -> list[int]:
    """After how many replications to show a picture.

    >>> from entice.studio.jobs.simulate import stages_of
    >>> stages_of(1000, 540_000), stages_of(1000, 90_000_000)
    ([16, 64, 256, 1000], [1, 4, 16, 64, 256, 1000])
    """
    stages = [max(1, min(FEW, AT_ONCE // max(1, work)))]
    while stages[-1] * GROWTH < replications:
        stages.append(stages[-1] * GROWTH)
    if len(stages) > 1 and replications < 1.5 * stages[-1]:
        stages.pop()  # it would be followed by one that shows next to nothing new
    return [stage for stage in stages if stage < replications] + [replications]


def _step(work: int, replications: int, threads: int) -> int:
    """How many replications to run in one go: few enough for all threads, many enough for each."""
    share = -(-replications // threads)
    most = max(1, min(share, _BLOCK // max(1, work)))
    return most if most < _LANES else -(-most // _LANES) * _LANES


def picture(study: Study, rooms: list[RunArrays], shown: int) -> dict[str, Any]:
    """Summarise the first replications of all cells."""
    rounds, engines = study.checkpoint_rounds().tolist(), study.engines()
    cells = []
    for (p, d, _, _), room in zip(study.cells(), rooms, strict=True):
        found = room.rows(0, shown)
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
    return {"replications": shown, "of": study.replications, "cells": cells}


def bounds_of(study: Study) -> list[dict[str, Any]]:
    """Say what the theorems claim of each cell, over time, and whether they say anything."""
    rounds = study.checkpoint_rounds()
    rounds = rounds[rounds >= 2]
    if not len(rounds):
        return []
    return [
        _bound(bound, version, setting, (p, d), rounds)
        for p, d, policy, drift in study.cells()
        for setting in [Setting(study, policy, drift)]
        for bound in BOUNDS
        if bound.concerns(setting) and bound.metric in SHOWN
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
        "at_least": bound.only_at_least,
    }
    try:
        values = bound.value(setting, rounds, version)
        empty = bound.emptiness(setting, version)
    except InputError as error:  # such as two arms that are best
        return row | {"t": [], "values": [], "applies": False, "vacuous": None, "why": [str(error)]}
    doubts = bound.doubts(setting)
    unknown = bound.only_at_least or bool(np.isnan(values[-1]))
    return row | {
        "t": rounds.tolist(),
        "values": values.tolist(),
        "applies": not doubts,
        "vacuous": True if empty else None if unknown else False,
        "why": [*doubts, *empty],
    }
