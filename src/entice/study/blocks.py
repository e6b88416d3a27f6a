"""Blocks of replications, into which a study is split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

_LEAST_WORK = 45_000_000
"""Rounds × arms in a block: some 0.1 to 0.3 s of the kernel."""
_MOST_WORK = 160 * _LEAST_WORK
"""Half a minute. So much is lost at a kill; and a client that takes in fifty blocks of a large
study a second keeps a thousand workers busy (docs/cluster.md)."""
_BLOCKS = 256
"""Between those limits a study has so many blocks, for few workers to be busy to the end."""
_MOST_NUMBERS = 2**21
"""That a block may hold: 16 MiB."""


class Block(NamedTuple):
    """Some consecutive replications of one cell."""

    cell: int
    first: int
    replications: int


def split(
    work: Sequence[int],
    replications: int,
    numbers: int = 1,
    size: int | None = None,
    kept: Iterable[Block] = (),
) -> list[Block]:
    """Cut a study into blocks; their size changes no number in the result.

    Parameters
    ----------
    work
        For each cell, how many rounds × arms one replication amounts to.
    replications
        Of each cell.
    numbers
        That are kept of one replication.
    size
        Replications in a block, instead of what is chosen from the work.
    kept
        Blocks that are finished, cut by whatever count of replications there was before; the rest
        is cut around them.
    """
    share = sum(work) * replications // _BLOCKS
    work_per_block = min(max(share, _LEAST_WORK), _MOST_WORK)
    blocks = []
    for cell, rounds in enumerate(work):
        step = size or max(1, min(work_per_block // rounds, _MOST_NUMBERS // numbers))
        begin = 0
        for block in [*sorted(b for b in kept if b.cell == cell), Block(cell, replications, 0)]:
            if begin <= block.first and block.first + block.replications <= replications:
                for first in range(begin, block.first, step):
                    blocks.append(Block(cell, first, min(step, block.first - first)))
                if block.replications:
                    blocks.append(block)
                begin = block.first + block.replications
    return blocks
