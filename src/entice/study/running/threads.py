"""Execution of blocks on the cores of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from entice.parallel import run_in_threads, thread_count
from entice.study.blocks import Block
from entice.study.running.block_runner import BlockRunner
from entice.study.running.executor import BlockResults, RunBlocks
from entice.study.spec import Study


class ThreadExecutor:
    """An executor that runs blocks in threads; by default, one for each core."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = thread_count(threads)

    def prepare(self, study: Study) -> RunBlocks:
        """Compile all cells of the study."""
        runner = BlockRunner(study)
        runner.compile()
        return partial(self._run, runner)

    def _run(self, runner: BlockRunner, blocks: Iterator[Block]) -> BlockResults:
        return run_in_threads(runner.run, blocks, self.threads, runner.stop)
