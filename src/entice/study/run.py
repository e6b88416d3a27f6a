"""Runs a study in blocks of replications; no number depends on who runs them, or when."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from entice.engine.kernel import METRICS
from entice.errors import StudyError
from entice.policies import Policy
from entice.principal.probe import Probe
from entice.specs import ColdStart, Engine, Study
from entice.study.blocks import Block, BlockFolder, Piece, split
from entice.study.cell import Room, work_of
from entice.study.crew import Crew, crew_of
from entice.study.digest import Digest, Last, is_large, is_on_disk
from entice.study.frames import curves_frame, final_frame
from entice.study.gathering import Everything, Summed
from entice.study.progress import Report, reporting
from entice.study.result import FINAL, Result, write_final
from entice.study.spool import Spool
from entice.world.arms import Arms
from entice.world.drift import Drift, NoDrift
from entice.world.meddler import Meddler, Nobody
from entice.world.players import Players

if TYPE_CHECKING:
    from distributed import Client

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
    cluster: Client | str | None = None,
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
    cluster
        A Dask cluster to run on instead: the address of its scheduler, such as
        ``"tcp://scheduler:8786"``, or a `distributed.Client`. Needs ``entice[cluster]``. The
        numbers are the same.
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
    return run(study, threads=threads, cluster=cluster, progress=progress)


def run(
    study: Study,
    *,
    threads: int | None = None,
    cluster: Client | str | None = None,
    progress: bool | Report | None = None,
) -> Result:
    """Run a study; `threads`, `cluster` and `progress` are as in `simulate`."""
    if study.seed is None:
        study = study.with_seed()
        print(
            f"entice: seed {study.seed} (drawn; give seed={study.seed} to repeat)", file=sys.stderr
        )
    with crew_of(threads, cluster) as crew, reporting(progress, "Simulating") as report:
        return Run(study, crew).go(report)


class Run:
    """A study with a seed and a crew, ready to go.

    Parameters
    ----------
    study
        What to run.
    crew
        Who runs its blocks.
    blocks
        A folder for finished blocks of this study, and of no other; those in it are taken over.
    block_size
        Replications in a block. No number depends on it.
    """

    def __init__(
        self,
        study: Study,
        crew: Crew,
        blocks: Path | None = None,
        block_size: int | None = None,
    ) -> None:
        self.study = study
        self.cells = list(study.cells())
        work = [work_of(study, policy) for _, _, policy, _ in self.cells]
        self._is_large, self._is_on_disk = is_large(study), is_on_disk(study)
        checkpoints = 1 if self._is_large else len(study.checkpoint_rounds())
        numbers = checkpoints * len(METRICS) + len(study.arms.true_means()) + 1
        self.blocks = split(work, study.replications, numbers, block_size)
        self._work = crew.prepare(study)
        self._spool = Spool() if self._is_on_disk and blocks is None else None
        if self._spool is not None:
            blocks = self._spool.folder / "blocks"
        self._folder = BlockFolder(blocks) if blocks is not None else None
        self._missing = [study.replications] * len(self.cells)
        self._under_way: dict[int, Everything | Summed] = {}
        self._finals: dict[int, pl.DataFrame] = {}
        self._curves: dict[int, pl.DataFrame] = {}
        self._runaways: dict[int, tuple[int, int]] = {}  # how many runs, and the first round
        self._done = 0

    def go(self, report: Report) -> Result:
        """Run all blocks and put the result together."""
        total = len(self.cells) * self.study.replications

        def take(block: Block, piece: Piece) -> bool:
            taken = self._take(block, piece)
            report(self._done, total)
            return taken

        report(0, total)
        work = self._work(self._to_run(take))
        try:
            for block, piece in work:
                if self._folder is not None:
                    self._folder.save(block, piece)
                take(block, piece)
        finally:
            work.close()
        self._tell_of_runaways()
        return self._result()

    def _to_run(self, take: Callable[[Block, Piece], bool]) -> Iterator[Block]:
        """Go through the blocks that are not finished yet, and take those that are."""
        for block in self.blocks:
            kept = self._kept(block)
            if kept is None or not take(block, kept):
                yield block

    def _kept(self, block: Block) -> Piece | None:
        if self._folder is None:
            return None
        if self._is_large:
            return self._folder.load(block, Digest)
        return self._folder.load(block, Room)

    def _take(self, block: Block, piece: Piece) -> bool:
        """Take a finished block over; False if it is none of this study."""
        cell = block.cell
        if cell not in self._under_way:
            self._under_way[cell] = (Summed if self._is_large else Everything)(self.study)
        if not self._under_way[cell].take(block, piece):
            return False
        self._note_runaways(block, piece)
        self._done += block.replications
        self._missing[cell] -= block.replications
        if self._missing[cell] == 0:
            gathered = self._under_way.pop(cell)
            self._curves[cell] = curves_frame(self.study, cell, gathered.statistics())
            if isinstance(gathered, Everything) and not self._is_on_disk:
                metrics, pulls, stopped = gathered.room
                last = metrics[:, -1, :]
                self._finals[cell] = final_frame(self.study, cell, 0, last, pulls, stopped)
        return True

    def _result(self) -> Result:
        order, engines = range(len(self.cells)), self.study.engines()
        curves = pl.concat([self._curves[c] for c in order])
        if not self._is_on_disk:
            final = pl.concat([self._finals[c] for c in order])
            return Result(self.study, final, curves, engines)
        assert self._folder is not None
        path = (self._spool or self._folder).folder / FINAL
        write_final(path, self.study, self._last_rounds())
        if self._spool is not None:
            self._folder.remove()
        return Result(self.study, path, curves, engines, self._spool)

    def _last_rounds(self) -> Iterator[pl.DataFrame]:
        """Read the last rounds of all runs back, block by block."""
        assert self._folder is not None
        for block in self.blocks:
            kept = self._folder.load(block, Last)
            if not isinstance(kept, Last):
                raise StudyError(f"A finished block is gone from {self._folder.folder}.")
            metrics = kept.metrics if self._is_large else kept.metrics[:, -1, :]
            yield final_frame(
                self.study, block.cell, block.first, metrics, kept.pulls, kept.stopped
            )

    def _note_runaways(self, block: Block, piece: Piece) -> None:
        """Count the runs whose payments grew without bound; say so at once, for each cell once."""
        rounds = piece.stopped[piece.stopped > 0]
        if not len(rounds):
            return
        if block.cell not in self._runaways:
            _, _, policy, drift = self.cells[block.cell]
            print(
                f"entice: payments grow without bound in runs of {policy.label} with "
                f"{drift.label}; such runs are stopped and marked",
                file=sys.stderr,
            )
        count, first = self._runaways.get(block.cell, (0, self.study.horizon))
        self._runaways[block.cell] = count + len(rounds), min(first, int(rounds.min()))

    def _tell_of_runaways(self) -> None:
        """Say in which cells payments fed on the drift that they caused."""
        for cell, (count, first) in sorted(self._runaways.items()):
            _, _, policy, drift = self.cells[cell]
            print(
                f"entice: payments grew without bound in {count:,} of "
                f"{self.study.replications:,} runs of {policy.label} with {drift.label}, first "
                f"in round {first:,}. These "
                "runs were stopped there: `stopped` in result.final. A feedback_range or a cap on "
                "the drift keeps payments in bounds.",
                file=sys.stderr,
            )
