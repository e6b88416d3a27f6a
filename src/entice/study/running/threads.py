"""Blocks on the cores of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial

from entice.checks import as_whole_number
from entice.errors import InputError
from entice.study.aggregation.block_digest import BlockResult
from entice.study.blocks import Block
from entice.study.running.block_runner import BlockRunner
from entice.study.running.executor import Finished, Work
from entice.study.spec import Study


def thread_count(threads: int | None) -> int:
    """Check a number of threads; none stands for one on each core that this process may use."""
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if as_whole_number("threads", threads) < 1:
        raise InputError("threads", "must be at least 1", given=threads)
    return int(threads)


class Threads:
    """Runs blocks in threads; none stands for one on each core."""

    def __init__(self, count: int | None = None) -> None:
        self.count = thread_count(count)

    def prepare(self, study: Study) -> Work:
        """Compile all that the study needs."""
        workbench = BlockRunner(study)
        workbench.compile()
        return partial(self._run, workbench)

    def _run(self, workbench: BlockRunner, blocks: Iterator[Block]) -> Finished:
        running: dict[Future[BlockResult], Block] = {}
        pool = ThreadPoolExecutor(self.count)
        try:
            while True:
                # A few blocks ahead keep the threads busy; all at once would fill the memory.
                while len(running) <= 2 * self.count and (block := next(blocks, None)) is not None:
                    running[pool.submit(workbench.run, block)] = block
                if not running:
                    break
                # Not for ever: some libraries keep a signal from interrupting a wait.
                finished, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield running.pop(future), future.result()
        finally:
            workbench.stop[0] = 1  # on errors and Ctrl-C: threads look at it now and then
            pool.shutdown(wait=True, cancel_futures=True)
