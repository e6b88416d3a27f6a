"""Finished blocks as files. An interrupted run resumes with the blocks it finds."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from entice.study.aggregation.block_digest import BlockResult, Digest, FinalRounds
from entice.study.atomic_file import atomic_file
from entice.study.blocks import Block
from entice.study.run_arrays import RunArrays

P = TypeVar("P", RunArrays, Digest, FinalRounds)

_NAME = re.compile(r"cell(\d+)-from(\d+)-replications([1-9]\d*)\.npz")


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

    def save(self, block: Block, piece: BlockResult) -> None:
        """Write a finished block, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(self._path(block)) as path, path.open("wb") as file:
            np.savez(file, block=np.array(block), **piece._asdict())

    def remove(self) -> None:
        """Forget all blocks: the result holds everything."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, block: Block) -> Path:
        return (
            self.folder / f"cell{block.cell}-from{block.first}-replications{block.replications}.npz"
        )
