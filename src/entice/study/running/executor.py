"""Executors: run the blocks of a study in threads, or on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from entice.errors import InputError
from entice.extras import require
from entice.study.aggregation.block_digest import BlockResult
from entice.study.blocks import Block
from entice.study.spec import Study

if TYPE_CHECKING:
    from distributed import Client

BlockResults = Generator[tuple[Block, BlockResult], None, None]
RunBlocks = Callable[[Iterator[Block]], BlockResults]
"""A function that runs blocks and yields each as soon as it is finished, in any order.

Blocks are taken from the iterator when a thread or a worker is free. Closing the generator stops
the blocks in progress."""


class Executor(Protocol):
    """A runner of studies, one at a time."""

    def prepare(self, study: Study) -> RunBlocks:
        """Prepare to run a study that has a seed. Raise an error if it cannot be run."""
        ...


@contextmanager
def executor_for(threads: int | None, cluster: Client | str | None) -> Iterator[Executor]:
    """Provide the executor of a study: the cluster if there is one, else threads."""
    from entice.study.running.threads import ThreadExecutor

    if cluster is None:
        yield ThreadExecutor(threads)
        return
    if threads is not None:
        rule = "must be omitted with a cluster, whose workers have their own number of threads"
        raise InputError("threads", rule, given=threads)
    require("cluster")
    from entice.study.running.cluster import connect

    with connect(cluster) as executor:
        yield executor
