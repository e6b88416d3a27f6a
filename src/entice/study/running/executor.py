"""Who runs the blocks of a study: threads here, or the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from entice.errors import InputError
from entice.study.aggregation.block_digest import BlockResult
from entice.study.blocks import Block
from entice.study.spec import Study

Finished = Generator[tuple[Block, BlockResult], None, None]
Work = Callable[[Iterator[Block]], Finished]
"""Runs blocks, and gives each back as soon as it is finished, in any order.

Blocks are asked for when there is somebody to run them. Closing the iterator ends the work."""


if TYPE_CHECKING:
    from distributed import Client


class Executor(Protocol):
    """Runs studies, one at a time."""

    def prepare(self, study: Study) -> Work:
        """Make ready for a study that has a seed, or say why it can't be run."""
        ...


@contextmanager
def executor_for(threads: int | None, cluster: Client | str | None) -> Iterator[Executor]:
    """Find who runs a study: threads of this process, or a cluster if one is given."""
    from entice.study.running.threads import Threads

    if cluster is None:
        yield Threads(threads)
        return
    if threads is not None:
        rule = "means nothing with a cluster, whose workers have threads of their own"
        raise InputError("threads", rule, given=threads)
    try:
        from entice.study.running.cluster import cluster_of
    except ImportError as error:
        rule = f"needs Dask, which is not installed here ({error})"
        raise InputError("cluster", rule, todo="Try: pip install 'entice[cluster]'") from error
    with cluster_of(cluster) as crew:
        yield crew
