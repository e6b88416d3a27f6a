"""Finished blocks of a study on disk, so that an interrupted run goes on where it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.study.whole_file import whole_file

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_ROUNDS_PER_BLOCK = 5_000_000
"""Rounds × arms / 9 in one block: some 0.1 to 0.3 s of work, so little is lost at a kill."""


class Block(NamedTuple):
    """Some consecutive replications of one cell."""

    cell: int
    first: int
    replications: int


def split(cells: int, replications: int, horizon: int, arms: int, size: int | None) -> list[Block]:
    """Cut a study into blocks; their size changes no number in the result."""
    if size is None:
        size = max(1, 9 * _ROUNDS_PER_BLOCK // (horizon * arms))
    return [
        Block(cell, first, min(size, replications - first))
        for cell in range(cells)
        for first in range(0, replications, size)
    ]


class BlockFolder:
    """Keeps the arrays of finished blocks as files; a damaged file counts as not finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, block: Block, metrics: Floats, pulls: Counts) -> bool:
        """Fill the arrays from a finished block, if there is one that fits."""
        try:
            with self._path(block).open("rb") as file:
                data = np.load(file, allow_pickle=False)
                found = tuple(data["block"]), data["metrics"].shape, data["pulls"].shape
                if found != (tuple(block), metrics.shape, pulls.shape):
                    return False
                metrics[...], pulls[...] = data["metrics"], data["pulls"]
        except Exception:  # a damaged archive may end in any error: the block is run again
            return False
        return True

    def save(self, block: Block, metrics: Floats, pulls: Counts) -> None:
        """Write a finished block, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole_file(self._path(block)) as path, path.open("wb") as file:
            np.savez(file, block=np.array(block), metrics=metrics, pulls=pulls)

    def remove(self) -> None:
        """Forget all blocks: the result holds everything."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, block: Block) -> Path:
        return (
            self.folder / f"cell{block.cell}-from{block.first}-replications{block.replications}.npz"
        )
