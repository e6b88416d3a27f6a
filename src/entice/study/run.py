"""Runs a study: blocks of replications over threads, each number independent of both."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from entice.checks import a_whole_number
from entice.engine.kernel import METRICS
from entice.errors import InputError
from entice.policies import Policy
from entice.principal.probe import Probe
from entice.specs import ColdStart, Engine, Study
from entice.study.blocks import Block, BlockFolder, split
from entice.study.cell import Cell, Room
from entice.study.progress import Report, reporting
from entice.study.result import Result
from entice.study.summary import statistics
from entice.world.arms import Arms
from entice.world.drift import Drift, NoDrift
from entice.world.meddler import Meddler, Nobody
from entice.world.players import Players

_PAPERS_PLAYERS, _NOBODY = Players(), Nobody()


def simulate(
    *,
    arms: Arms,
    policies: Sequence[Policy],
    horizon: int,
    drifts: Sequence[Drift] = (NoDrift(),),
    replications: int = 1000,
    seed: int | None = None,
    checkpoints: int | Sequence[int] = 200,
    cold_start: ColdStart = "each_arm_once",
    prior: float = 0.0,
    feedback_range: tuple[float, float] | None = None,
    players: Players = _PAPERS_PLAYERS,
    meddler: Meddler = _NOBODY,
    probe: Probe | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
    progress: bool | Report | None = None,
) -> Result:
    """Run each policy against each drift, many times, and summarise.

    Parameters
    ----------
    arms, policies, drifts, horizon, replications, checkpoints
        See `Study`.
    cold_start, prior, feedback_range, players, meddler, probe, engine
        See `Study`.
    seed
        Of all random numbers. When none is given, one is drawn, printed and recorded.
    threads
        How many to use, by default one for each core. The numbers do not depend on it.
    progress
        True for a bar, False for silence, a function `(done, total)` for one's own, None for a
        bar if standard error is a terminal.

    >>> import entice
    >>> result = entice.simulate(
    ...     arms=entice.Gaussian([0.9, 0.5, 0.1]), policies=[entice.UCB(), entice.Greedy()],
    ...     drifts=[entice.LinearDrift(0.0), entice.LinearDrift(1.1)],
    ...     horizon=1000, replications=20, seed=7)
    >>> result.final.height
    80
    """
    study = Study(
        arms=arms,
        policies=policies,
        drifts=drifts,
        horizon=horizon,
        replications=replications,
        seed=seed,
        checkpoints=checkpoints,
        cold_start=cold_start,
        prior=prior,
        feedback_range=feedback_range,
        players=players,
        meddler=meddler,
        probe=probe,
        engine=engine,
    )
    return run(study, threads=threads, progress=progress)


def run(
    study: Study, *, threads: int | None = None, progress: bool | Report | None = None
) -> Result:
    """Run a study; `threads` and `progress` are as in `simulate`."""
    threads = thread_count(threads)
    if study.seed is None:
        study = study.with_seed()
        print(
            f"entice: seed {study.seed} (drawn; give seed={study.seed} to repeat)", file=sys.stderr
        )
    with reporting(progress, "Simulating") as report:
        return Run(study).go(threads, report)


def thread_count(threads: int | None) -> int:
    """Check a number of threads; none stands for one on each core that this process may use."""
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if a_whole_number("threads", threads) < 1:
        raise InputError("threads", "must be at least 1", given=threads)
    return int(threads)


class Run:
    """A study with a seed, compiled and ready to go.

    Parameters
    ----------
    study
        What to run.
    blocks
        A folder for finished blocks of this study, and of no other; those in it are taken over.
    block_size
        Replications in a block. No number depends on it.
    """

    def __init__(
        self, study: Study, blocks: Path | None = None, block_size: int | None = None
    ) -> None:
        self.study = study
        self.folder = BlockFolder(blocks) if blocks is not None else None
        self.stop = np.zeros(1, dtype=np.int64)
        self.cells = list(study.cells())
        self.compiled = [
            Cell(study, policy, drift, self.stop) for _, _, policy, drift in self.cells
        ]
        work = [cell.work for cell in self.compiled]
        self.blocks = split(work, study.replications, block_size)
        self.missing = [0] * len(self.cells)  # blocks to go
        for block in self.blocks:
            self.missing[block.cell] += 1
        self.room: dict[int, Any] = {}  # metrics and pulls of the cells under way
        self.finals: dict[int, pl.DataFrame] = {}
        self.curves: dict[int, pl.DataFrame] = {}
        self.warned: set[int] = set()  # cells of which it was said that payments run away
        self.done = 0

    def go(self, threads: int, report: Report) -> Result:
        """Run all blocks and put the result together."""
        self._run_blocks(threads, report)
        order = range(len(self.cells))
        result = Result(
            self.study,
            final=pl.concat([self.finals[c] for c in order]),
            curves=pl.concat([self.curves[c] for c in order]),
            engines=self.study.engines(),
        )
        _warn_of_runaways(result)
        return result

    def _run_blocks(self, threads: int, report: Report) -> None:
        total = len(self.cells) * self.study.replications
        report(0, total)
        waiting = iter(self.blocks)
        running: set[Future[Block]] = set()
        pool = ThreadPoolExecutor(threads)
        try:
            while True:
                # A few blocks ahead keep the threads busy; all at once would hold all cells'
                # curves in memory.
                while len(running) <= 2 * threads and (block := next(waiting, None)) is not None:
                    running.add(pool.submit(self._run, block, self._room(block.cell)))
                if not running:
                    break
                # Not for ever: some libraries keep a signal from interrupting a wait.
                finished, running = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in finished:
                    self._finish(future.result())
                    report(self.done, total)
        finally:
            self.stop[0] = 1  # on errors and Ctrl-C: threads look at it now and then
            pool.shutdown(wait=True, cancel_futures=True)

    def _room(self, cell: int) -> Any:
        if cell not in self.room:
            self.room[cell] = self.compiled[cell].room_for(self.study.replications)
        return self.room[cell]

    def _run(self, block: Block, room: Any) -> Block:
        rows = room.rows(block.first, block.replications)
        if self.folder is None:
            self.compiled[block.cell].run(block.first, rows)
        elif not self.folder.load(block, rows):
            self.compiled[block.cell].run(block.first, rows)
            self.folder.save(block, rows)
        return block

    def _finish(self, block: Block) -> None:
        self.done += block.replications
        self._warn_early(block)
        self.missing[block.cell] -= 1
        if self.missing[block.cell] == 0:
            room = self.room.pop(block.cell)
            self.finals[block.cell] = self._final(block.cell, room)
            self.curves[block.cell] = self._curves(block.cell, room.metrics)

    def _warn_early(self, block: Block) -> None:
        """Say at once, for each cell once, that payments grow without bound."""
        stopped = self.room[block.cell].rows(block.first, block.replications).stopped
        if block.cell not in self.warned and stopped.any():
            self.warned.add(block.cell)
            _, _, policy, drift = self.cells[block.cell]
            print(
                f"entice: payments grow without bound in runs of {policy.label} with "
                f"{drift.label}; such runs are stopped and marked",
                file=sys.stderr,
            )

    def _names(self, cell: int) -> list[pl.Expr]:
        p, d, policy, drift = self.cells[cell]
        return [
            pl.lit(policy.label).alias("policy"),
            pl.lit(drift.label).alias("drift"),
            pl.lit(p, dtype=pl.Int64).alias("policy_index"),
            pl.lit(d, dtype=pl.Int64).alias("drift_index"),
        ]

    def _final(self, cell: int, room: Room) -> pl.DataFrame:
        metrics, pulls, stopped = room.metrics[:, -1, :], room.pulls, room.stopped
        columns: dict[str, Any] = {"replication": np.arange(len(metrics), dtype=np.int64)}
        columns |= {name: metrics[:, i].copy() for i, name in enumerate(METRICS)}
        columns["pulls"] = pl.Series(pulls, dtype=pl.Array(pl.Int64, pulls.shape[1]))
        columns["stopped"] = stopped.copy()
        ran_away = pl.col("stopped") > 0
        frame = pl.DataFrame(columns).with_columns(
            pl.when(~ran_away).then("compensated_pulls").cast(pl.Int64),
            pl.when(ran_away).then("stopped"),
        )
        return frame.select(*self._names(cell), *columns)

    def _curves(self, cell: int, metrics: Any) -> pl.DataFrame:
        rounds = self.study.checkpoint_rounds()
        summary = statistics(metrics)
        frame = pl.concat(
            pl.DataFrame(
                {"metric": [metric] * len(rounds), "t": rounds}
                | {name: values[:, i].copy() for name, values in summary.items()}
            )
            for i, metric in enumerate(METRICS)
        )
        policy, drift, *indices = self._names(cell)
        return frame.select(policy, drift, *frame.columns, *indices)


def _warn_of_runaways(result: Result) -> None:
    """Say in which cells payments fed on the drift that they caused."""
    for p, d, policy, drift in result.study.cells():
        rounds = result.final.filter(policy_index=p, drift_index=d)["stopped"].drop_nulls()
        if rounds.len() > 0:
            print(
                f"entice: payments grew without bound in {rounds.len():,} of "
                f"{result.study.replications:,} runs of {policy.label} with {drift.label}, first "
                f"in round {min(rounds):,}. These "
                "runs were stopped there: `stopped` in result.final. A feedback_range or a cap on "
                "the drift keeps payments in bounds.",
                file=sys.stderr,
            )
