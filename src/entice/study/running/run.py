"""Runs a study in blocks of replications; no number depends on who runs them, or when."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from entice.checks import is_list
from entice.engine.kernel import METRICS
from entice.errors import StudyError
from entice.model.probe import Probe
from entice.policies import Policy
from entice.study.aggregation.aggregators import ExactAggregator, StreamingAggregator
from entice.study.aggregation.block_digest import (
    BlockResult,
    Digest,
    FinalRounds,
    digest,
    is_large,
    is_on_disk,
)
from entice.study.blocks import Block, split
from entice.study.results.files import FINAL, folders_for, write_final
from entice.study.results.frames import curves_frame, final_frame
from entice.study.results.result import Result
from entice.study.run_arrays import RunArrays
from entice.study.running.block_folder import BlockFolder
from entice.study.running.cell import work_of
from entice.study.running.executor import Executor, executor_for
from entice.study.running.progress import Report, reporting
from entice.study.spec import ColdStart, Engine, Study
from entice.study.spool import Spool
from entice.study.sweep import several, sweep
from entice.worlds.adversaries import Adversary, NoAdversary
from entice.worlds.arms import Arms
from entice.worlds.drifts import Drift, NoDrift
from entice.worlds.players import Players

if TYPE_CHECKING:
    from distributed import Client

_PAPERS_PLAYERS, _NO_ADVERSARY = Players(), NoAdversary()


def simulate(
    *,
    arms: Arms,
    policies: Sequence[Policy],
    horizon: int | Sequence[int],
    drifts: Sequence[Drift] = (NoDrift(),),
    replications: int = 1000,
    seed: int | Sequence[int] | None = None,
    checkpoints: int | Sequence[int] = 200,
    cold_start: ColdStart = "each_arm_once",
    prior: float = 0.0,
    feedback_range: tuple[float, float] | None = None,
    players: Players = _PAPERS_PLAYERS,
    adversary: Adversary = _NO_ADVERSARY,
    probe: Probe | None = None,
    engine: Engine = "auto",
    out: str | Path | None = None,
    threads: int | None = None,
    cluster: Client | str | None = None,
    progress: bool | Report | None = None,
) -> Result:
    """Run each policy against each drift, many times, and summarise.

    Parameters
    ----------
    arms, policies, drifts, replications, checkpoints
        See `Study`.
    horizon
        T, the number of rounds. Given several, such as ``horizon=[1_000, 10_000]``, each is run.
    cold_start, prior, feedback_range, players, adversary, probe, engine
        See `Study`.
    seed
        Random seed. Drawn, printed and recorded if omitted. Given several, each is run.
    out
        Folder for the result. An interrupted run that is started again there resumes, a finished
        one is read, and one with more `replications` goes on with those that are missing.
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
    studies = sweep(
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
        adversary=adversary,
        probe=probe,
        engine=engine,
    )
    is_one = not is_list(horizon) and not is_list(seed)
    return run(
        studies[0] if is_one else studies,
        out=out,
        threads=threads,
        cluster=cluster,
        progress=progress,
    )


def run(
    study: Study | Sequence[Study],
    *,
    out: str | Path | None = None,
    threads: int | None = None,
    cluster: Client | str | None = None,
    progress: bool | Report | None = None,
) -> Result:
    """Run a study, or several: then the results are put together, as by `Result.concat`.

    `out`, `threads`, `cluster` and `progress` are as in `simulate`. Several studies have a
    sub-folder of `out` each.
    """
    if not isinstance(study, Study):
        studies = several(study)
        folders: Sequence[Path | None] = [None] * len(studies)
        if out is not None:
            folders = folders_for(studies, Path(out))
        return Result.concat(
            run(one, out=folder, threads=threads, cluster=cluster, progress=progress)
            for one, folder in zip(studies, folders, strict=True)
        )
    if out is not None:
        from entice.study.running.folder import run_in_folder

        return run_in_folder(study, out, threads=threads, cluster=cluster, progress=progress)
    if study.seed is None:
        study = study.with_seed()
        print(
            f"entice: seed {study.seed} (drawn; give seed={study.seed} to repeat)", file=sys.stderr
        )
    with executor_for(threads, cluster) as crew, reporting(progress, "Simulating") as report:
        return StudyRun(study, crew).go(report)


class StudyRun:
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
        crew: Executor,
        blocks: Path | None = None,
        block_size: int | None = None,
    ) -> None:
        self.study = study
        self.cells = list(study.cells())
        work = [work_of(study, policy) for _, _, policy, _ in self.cells]
        self._is_large, self._is_on_disk = is_large(study), is_on_disk(study)
        checkpoints = 1 if self._is_large else len(study.checkpoint_rounds())
        numbers = checkpoints * len(METRICS) + len(study.arms.true_means()) + 1
        self._work = crew.prepare(study)
        self._spool = Spool() if self._is_on_disk and blocks is None else None
        if self._spool is not None:
            blocks = self._spool.folder / "blocks"
        self._folder = BlockFolder(blocks) if blocks is not None else None
        kept = self._folder.found() if self._folder is not None else ()
        self.blocks = split(work, study.replications, numbers, block_size, list(kept))
        self._missing = [study.replications] * len(self.cells)
        self._under_way: dict[int, ExactAggregator | StreamingAggregator] = {}
        self._finals: dict[int, pl.DataFrame] = {}
        self._curves: dict[int, pl.DataFrame] = {}
        self._runaways: dict[int, tuple[int, int]] = {}  # how many runs, and the first round
        self._done = 0

    def go(self, report: Report) -> Result:
        """Run all blocks and put the result together."""
        total = len(self.cells) * self.study.replications

        def take(block: Block, piece: BlockResult) -> bool:
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

    def _to_run(self, take: Callable[[Block, BlockResult], bool]) -> Iterator[Block]:
        """Go through the blocks that are not finished yet, and take those that are."""
        for block in self.blocks:
            kept = self._kept(block)
            if kept is None or not take(block, kept):
                yield block

    def _kept(self, block: Block) -> BlockResult | None:
        if self._folder is None:
            return None
        if not self._is_large:
            return self._folder.load(block, RunArrays)
        kept = self._folder.load(block, Digest)
        if kept is None and (room := self._folder.load(block, RunArrays)) is not None:
            return digest([(block.first, room)])  # kept before so many replications were asked for
        return kept

    def _take(self, block: Block, piece: BlockResult) -> bool:
        """Take a finished block over; False if it is none of this study."""
        cell = block.cell
        if cell not in self._under_way:
            self._under_way[cell] = (StreamingAggregator if self._is_large else ExactAggregator)(
                self.study
            )
        if not self._under_way[cell].take(block, piece):
            return False
        self._note_runaways(block, piece)
        self._done += block.replications
        self._missing[cell] -= block.replications
        if self._missing[cell] == 0:
            gathered = self._under_way.pop(cell)
            self._curves[cell] = curves_frame(self.study, cell, gathered.statistics())
            if isinstance(gathered, ExactAggregator) and not self._is_on_disk:
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
            kept = self._folder.load(block, FinalRounds)
            if not isinstance(kept, FinalRounds):
                raise StudyError(f"A finished block is gone from {self._folder.folder}.")
            metrics = kept.metrics if kept.metrics.ndim == 2 else kept.metrics[:, -1, :]
            yield final_frame(
                self.study, block.cell, block.first, metrics, kept.pulls, kept.stopped
            )

    def _note_runaways(self, block: Block, piece: BlockResult) -> None:
        """Count the runs whose payments grew without bound; say so at once, for each cell once."""
        rounds = piece.stopped[piece.stopped > 0]
        if not len(rounds):
            return
        if block.cell not in self._runaways:
            print(
                f"entice: payments grow without bound in runs of {self._label(block.cell)}; such "
                "runs are stopped and marked",
                file=sys.stderr,
            )
        count, first = self._runaways.get(block.cell, (0, self.study.horizon))
        self._runaways[block.cell] = count + len(rounds), min(first, int(rounds.min()))

    def _label(self, cell: int) -> str:
        p, d, _, _ = self.cells[cell]
        return f"{self.study.policy_labels[p]} with {self.study.drift_labels[d]}"

    def _tell_of_runaways(self) -> None:
        """Say in which cells payments fed on the drift that they caused."""
        for cell, (count, first) in sorted(self._runaways.items()):
            print(
                f"entice: payments grew without bound in {count:,} of "
                f"{self.study.replications:,} runs of {self._label(cell)}, first in round "
                f"{first:,}. These "
                "runs were stopped there: `stopped` in result.final. A feedback_range or a cap on "
                "the drift keeps payments in bounds.",
                file=sys.stderr,
            )
