"""The split of a study into blocks of replications."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

_MIN_WORK = 45_000_000
"""Minimum work of a block, in rounds × arms: 0.1 to 0.3 s of the kernel."""
_MAX_WORK = 160 * _MIN_WORK
"""Maximum work of a block: half a minute. A killed process loses no more than that. Blocks of that
size keep a thousand workers busy if the client receives fifty of them per second
(docs/how-to/cluster.md)."""
_BLOCKS = 256
"""Number of blocks of a study, within those limits: enough to keep all workers busy to the end."""
_MAX_NUMBERS = 2**21
"""Maximum number of values in a block: 16 MiB."""


class Block(NamedTuple):
    """Consecutive replications of one cell."""

    cell: int
    first: int
    replications: int


def split(
    work: Sequence[int],
    replications: int,
    numbers: int = 1,
    size: int | None = None,
    finished: Iterable[Block] = (),
) -> list[Block]:
    """Split a study into blocks. The numbers of the result do not depend on their size.

    Parameters
    ----------
    work
        For each cell, the work of one replication in rounds × arms.
    replications
        Replications of each cell.
    numbers
        Numbers that one replication fills.
    size
        Replications in a block. Chosen from the work if omitted.
    finished
        Finished blocks, perhaps of a run with fewer replications. The gaps between them are split.
    """
    share = sum(work) * replications // _BLOCKS
    work_per_block = min(max(share, _MIN_WORK), _MAX_WORK)
    blocks = []
    for cell, rounds in enumerate(work):
        step = size or max(1, min(work_per_block // rounds, _MAX_NUMBERS // numbers))
        begin = 0
        for block in [*sorted(b for b in finished if b.cell == cell), Block(cell, replications, 0)]:
            if begin <= block.first and block.first + block.replications <= replications:
                for first in range(begin, block.first, step):
                    blocks.append(Block(cell, first, min(step, block.first - first)))
                if block.replications:
                    blocks.append(block)
                begin = block.first + block.replications
    return blocks
