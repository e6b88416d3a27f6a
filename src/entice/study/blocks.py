"""Finished blocks of a study on disk, so that an interrupted run goes on where it was."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.study.cell import Room
from entice.study.whole_file import whole_file

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_WORK_PER_BLOCK = 45_000_000
"""Rounds × arms in one block: some 0.1 to 0.3 s of the kernel, so little is lost at a kill."""


class Block(NamedTuple):
    """Some consecutive replications of one cell."""

    cell: int
    first: int
    replications: int


def split(work: Sequence[int], replications: int, size: int | None = None) -> list[Block]:
    """Cut a study into blocks; their size changes no number in the result.

    Parameters
    ----------
    work
        For each cell, how many rounds × arms one replication amounts to.
    replications
        Of each cell.
    size
        Replications in a block, instead of what is chosen from the work.
    """
    blocks = []
    for cell, rounds in enumerate(work):
        step = size or max(1, _WORK_PER_BLOCK // rounds)
        for first in range(0, replications, step):
            blocks.append(Block(cell, first, min(step, replications - first)))
    return blocks


class BlockFolder:
    """Keeps the arrays of finished blocks as files; a damaged file counts as not finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, block: Block, room: Room) -> bool:
        """Fill the arrays from a finished block, if there is one that fits."""
        try:
            with self._path(block).open("rb") as file:
                data = np.load(file, allow_pickle=False)
                found = [data[name] for name in Room._fields]
                if tuple(data["block"]) != tuple(block) or any(
                    was.shape != array.shape for was, array in zip(found, room, strict=True)
                ):
                    return False
                for was, array in zip(found, room, strict=True):
                    array[...] = was
        except Exception:  # a damaged archive may end in any error: the block is run again
            return False
        return True

    def save(self, block: Block, room: Room) -> None:
        """Write a finished block, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole_file(self._path(block)) as path, path.open("wb") as file:
            np.savez(file, block=np.array(block), **room._asdict())

    def remove(self) -> None:
        """Forget all blocks: the result holds everything."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, block: Block) -> Path:
        return (
            self.folder / f"cell{block.cell}-from{block.first}-replications{block.replications}.npz"
        )
