"""Studies, run in blocks of replications. The numbers do not depend on the executor."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from entice.checks import is_list
from entice.errors import StudyError
from entice.model.probe import Probe
from entice.policies import Policy
from entice.progress import Report, reporting, split_report
from entice.study.aggregation.aggregators import ExactAggregator, StreamingAggregator
from entice.study.aggregation.block_digest import (
    BlockDigest,
    BlockResult,
    FinalRounds,
    digest,
    is_large,
    is_on_disk,
)
from entice.study.blocks import Block, split
from entice.study.results.deferred import DeferredFrame, concat_deferred
from entice.study.results.files import FINAL, folders_for, write_final
from entice.study.results.frames import curves_frame, final_frame
from entice.study.results.result import Result
from entice.study.run_arrays import RunArrays
from entice.study.running.block_folder import BlockFolder
from entice.study.running.block_runner import compile_studies
from entice.study.running.cell import work_of
from entice.study.running.executor import Executor, executor_for
from entice.study.running.runaways import Runaways, warning_of_runaways
from entice.study.running.threads import ThreadExecutor
from entice.study.spec import ColdStart, Engine, Study
from entice.study.sweep import check_studies, sweep
from entice.worlds.adversaries import Adversary, NoAdversary
from entice.worlds.changing_arms import Arms
from entice.worlds.drifts import Drift, NoDrift
from entice.worlds.players import Players

if TYPE_CHECKING:
    import distributed

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
    cluster: distributed.Client | str | None = None,
    progress: bool | Report | None = None,
) -> Result:
    """Run each policy with each drift, many times, and summarise.

    Parameters
    ----------
    arms, policies, drifts, replications, checkpoints
        See `Study`.
    horizon
        T, the number of rounds. A list, such as ``[1_000, 10_000]``, runs a study for each value.
    cold_start, prior, feedback_range, players, adversary, probe, engine
        See `Study`.
    seed
        Random seed. Drawn, printed and recorded if omitted. A list runs a study for each value.
    out
        Folder for the result. An interrupted run resumes from there, a finished one is read, and
        one with more `replications` runs those that are missing.
    threads
        Number of threads, by default one for each core. The numbers do not depend on it.
    cluster
        Dask cluster to use instead of threads: the address of its scheduler, such as
        ``"tcp://scheduler:8786"``, or a `distributed.Client`. Requires ``entice[cluster]``. The
        numbers are the same.
    progress
        True for a progress bar, False for none, a function `(done, total)` to call, or None for a
        bar if standard error is a terminal or this is a notebook.

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
    cluster: distributed.Client | str | None = None,
    progress: bool | Report | None = None,
) -> Result:
    """Run a study, or several, whose results are combined as by `Result.concat`.

    `out`, `threads`, `cluster` and `progress` are as in `simulate`. Each of several studies has its
    own sub-folder of `out`.
    """
    if not isinstance(study, Study):
        studies = check_studies(study)
        folders: Sequence[Path | None] = [None] * len(studies)
        if out is not None:
            folders = folders_for(studies, Path(out))
        else:
            studies = _with_seeds(studies)
        with warning_of_runaways(), reporting(progress, "Simulating") as report:
            parts = split_report(report, [_run_count(one) for one in studies])
            return Result.concat(
                run(one, out=folder, threads=threads, cluster=cluster, progress=part)
                for one, folder, part in zip(studies, folders, parts, strict=True)
            )
    if out is not None:
        from entice.study.running.output_folder import run_in_folder

        return run_in_folder(study, out, threads=threads, cluster=cluster, progress=progress)
    [study] = _with_seeds([study])
    with executor_for(threads, cluster) as executor, reporting(progress, "Simulating") as report:
        return StudyRun(study, executor).run(report)


def run_each(
    studies: Sequence[Study],
    *,
    title: str,
    threads: int | None = None,
    progress: bool | Report | None = None,
    unit: str = "runs",
    sizes: Sequence[int] | None = None,
) -> list[Result]:
    """Run several studies that have seeds, one after the other, under one progress bar.

    `sizes` is each study's share of the progress: its number of runs by default.
    """
    executor = ThreadExecutor(threads)
    if sizes is None:
        sizes = [_run_count(study) for study in studies]
    with warning_of_runaways(), reporting(progress, title, unit) as report:
        compile_studies(studies)
        reports = split_report(report, sizes)
        return [
            StudyRun(study, executor).run(part)
            for study, part in zip(studies, reports, strict=True)
        ]


def _with_seeds(studies: Sequence[Study]) -> list[Study]:
    """Draw a seed for each study that has none, and print them."""
    found = [study.with_seed() for study in studies]
    drawn = [one.seed for one, study in zip(found, studies, strict=True) if study.seed is None]
    if len(drawn) == 1:
        print(f"entice: seed {drawn[0]} (drawn; pass seed={drawn[0]} to repeat)", file=sys.stderr)
    elif drawn:
        seeds = ", ".join(map(str, drawn))
        print(f"entice: seeds {seeds} (drawn; `seed` in result.final)", file=sys.stderr)
    return found


def _run_count(study: Study) -> int:
    return len(study.policies) * len(study.drifts) * study.replications


MAX_DEFERRED = 2**26
"""Maximum size of the numbers that a result keeps until its curves are read: 64 MiB. The curves of
larger studies are computed at once."""


class StudyRun:
    """A study with a seed, prepared to run.

    Parameters
    ----------
    study
        The study to run.
    executor
        Runs its blocks.
    blocks
        A folder for the finished blocks of this study alone. Blocks found there are not run again.
    block_size
        Replications in a block. The numbers do not depend on it.
    """

    def __init__(
        self,
        study: Study,
        executor: Executor,
        blocks: Path | None = None,
        block_size: int | None = None,
    ) -> None:
        self.study = study
        self.cells = list(study.cells())
        work = [work_of(study, policy) for _, _, policy, _ in self.cells]
        self._is_large, self._is_on_disk = is_large(study), is_on_disk(study)
        checkpoints = 1 if self._is_large else len(study.checkpoint_rounds())
        numbers = checkpoints * len(study.metrics) + len(study.arms.true_means()) + 1
        self._run_blocks = executor.prepare(study)
        self._folder = BlockFolder(blocks) if blocks is not None else None
        saved = self._folder.blocks() if self._folder is not None else ()
        self.blocks = split(work, study.replications, numbers, block_size, list(saved))
        self._missing = [study.replications] * len(self.cells)
        self._aggregators: dict[int, ExactAggregator | StreamingAggregator] = {}
        self._finals: dict[int, DeferredFrame] = {}
        self._curves: dict[int, DeferredFrame] = {}
        policies, drifts = study.policy_labels, study.drift_labels
        self._labels = [f"{policies[p]} with {drifts[d]}" for p, d, _, _ in self.cells]
        self._runaways = Runaways()
        self._done = 0

    def run(self, report: Report) -> Result:
        """Run all blocks that are not finished, and return the result."""
        with warning_of_runaways() as self._runaways:
            return self._run_all(report)

    def _run_all(self, report: Report) -> Result:
        if self._folder is not None or not self._is_on_disk:
            self._run(report)
            return self._result(self._folder.folder if self._folder is not None else None)
        temporary = tempfile.TemporaryDirectory(prefix="entice-", ignore_cleanup_errors=True)
        try:
            self._folder = BlockFolder(Path(temporary.name) / "blocks")
            self._run(report)
            result = self._result(Path(temporary.name))
            self._folder.remove()
        except BaseException:
            temporary.cleanup()
            raise
        # The result reads its last rounds from the temporary folder, so the folder is deleted with
        # the result. Without this, TemporaryDirectory would issue a ResourceWarning.
        weakref.finalize(result, temporary.cleanup)
        return result

    def _run(self, report: Report) -> None:
        total = len(self.cells) * self.study.replications

        def add(block: Block, result: BlockResult) -> bool:
            added = self._add(block, result)
            report(self._done, total)
            return added

        report(0, total)
        with contextlib.closing(self._run_blocks(self._unfinished(add))) as finished:
            for block, result in finished:
                if self._folder is not None:
                    self._folder.save(block, result)
                add(block, result)

    def _unfinished(self, add: Callable[[Block, BlockResult], bool]) -> Iterator[Block]:
        """Add the blocks that were saved, and yield the others."""
        for block in self.blocks:
            saved = self._load(block)
            if saved is None or not add(block, saved):
                yield block

    def _load(self, block: Block) -> BlockResult | None:
        if self._folder is None:
            return None
        if not self._is_large:
            return self._folder.load(block, RunArrays)
        saved = self._folder.load(block, BlockDigest)
        if saved is None and (arrays := self._folder.load(block, RunArrays)) is not None:
            return digest([(block.first, arrays)])  # saved when the study had fewer replications
        return saved

    def _add(self, block: Block, result: BlockResult) -> bool:
        """Aggregate a finished block. Return False if it does not belong to this study."""
        cell = block.cell
        if cell not in self._aggregators:
            self._aggregators[cell] = (StreamingAggregator if self._is_large else ExactAggregator)(
                self.study
            )
        if not self._aggregators[cell].add(block, result):
            return False
        self._runaways.add(self._labels[cell], result.stopped)
        self._done += block.replications
        self._missing[cell] -= block.replications
        if self._missing[cell] == 0:
            self._add_frames(cell, self._aggregators.pop(cell))
        return True

    def _add_frames(self, cell: int, aggregator: ExactAggregator | StreamingAggregator) -> None:
        """Prepare the frames of a cell whose blocks are all finished."""
        curves = DeferredFrame(partial(curves_frame, self.study, cell, aggregator))
        if self._is_on_disk or aggregator.nbytes > MAX_DEFERRED // len(self.cells):
            curves.read()
        self._curves[cell] = curves
        if isinstance(aggregator, ExactAggregator) and not self._is_on_disk:
            final = partial(final_frame, self.study, cell, 0, *aggregator.last_rounds())
            self._finals[cell] = DeferredFrame(final)

    def _result(self, folder: Path | None) -> Result:
        """Build the result; that of a study whose last rounds are on disk needs a folder."""
        engines, curves = self.study.engines(), concat_deferred(self._curves)
        if not self._is_on_disk:
            final = concat_deferred(self._finals)
            return Result(self.study, final, curves, engines)
        assert folder is not None
        write_final(folder / FINAL, self.study, self._last_rounds())
        return Result(self.study, folder / FINAL, curves, engines)

    def _last_rounds(self) -> Iterator[pl.DataFrame]:
        """Read the last rounds of all runs, block by block."""
        assert self._folder is not None
        for block in self.blocks:
            saved = self._folder.load(block, FinalRounds)
            if not isinstance(saved, FinalRounds):
                raise StudyError(f"A finished block is missing from {self._folder.folder}.")
            metrics = saved.metrics if saved.metrics.ndim == 2 else saved.metrics[:, -1, :]
            yield final_frame(
                self.study, block.cell, block.first, metrics, saved.pulls, saved.stopped
            )
