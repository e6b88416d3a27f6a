"""Blocks of replications: how a study is cut, and finished ones on disk.

An interrupted run goes on with the blocks that it finds.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from entice.study.cell import Room
from entice.study.digest import Digest, Last
from entice.study.whole_file import whole_file

Piece = Room | Digest
"""What a finished block amounts to."""
P = TypeVar("P", Room, Digest, Last)

_LEAST_WORK = 45_000_000
"""Rounds × arms in a block: some 0.1 to 0.3 s of the kernel."""
_MOST_WORK = 160 * _LEAST_WORK
"""Half a minute. So much is lost at a kill; and a client that takes in fifty blocks of a large
study a second keeps a thousand workers busy (docs/cluster.md)."""
_BLOCKS = 256
"""Between those limits a study has so many blocks, for few workers to be busy to the end."""
_MOST_NUMBERS = 2**21
"""That a block may hold: 16 MiB."""


_NAME = re.compile(r"cell(\d+)-from(\d+)-replications([1-9]\d*)\.npz")


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


class BlockFolder:
    """Keeps finished blocks as files; a damaged file counts as not finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def found(self) -> Iterator[Block]:
        """Go through the blocks that there are files of."""
        for path in self.folder.glob("*.npz"):
            if match := _NAME.fullmatch(path.name):
                yield Block(*map(int, match.groups()))

    def load(self, block: Block, kind: type[P]) -> P | None:
        """Read a finished block, or the part of it that is asked for, if there is one."""
        try:
            with self._path(block).open("rb") as file:
                data = np.load(file, allow_pickle=False)
                if tuple(data["block"]) != tuple(block):
                    return None
                return kind(*(data[name] for name in kind._fields))
        except Exception:  # a damaged archive may end in any error: the block is run again
            return None

    def save(self, block: Block, piece: Piece) -> None:
        """Write a finished block, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole_file(self._path(block)) as path, path.open("wb") as file:
            np.savez(file, block=np.array(block), **piece._asdict())

    def remove(self) -> None:
        """Forget all blocks: the result holds everything."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, block: Block) -> Path:
        return (
            self.folder / f"cell{block.cell}-from{block.first}-replications{block.replications}.npz"
        )
