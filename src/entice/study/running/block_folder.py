"""Finished blocks as files, from which an interrupted run resumes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from entice.atomic_file import atomic_file
from entice.study.aggregation.block_digest import BlockDigest, BlockResult, FinalRounds
from entice.study.blocks import Block
from entice.study.run_arrays import RunArrays

P = TypeVar("P", RunArrays, BlockDigest, FinalRounds)

_NAME = re.compile(r"cell(\d+)-from(\d+)-replications([1-9]\d*)\.npz")


class BlockFolder:
    """A folder of finished blocks. A damaged file counts as not finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def blocks(self) -> Iterator[Block]:
        """Iterate over the blocks that have a file."""
        for path in self.folder.glob("*.npz"):
            if match := _NAME.fullmatch(path.name):
                yield Block(*map(int, match.groups()))

    def load(self, block: Block, kind: type[P]) -> P | None:
        """Read a finished block, or the fields of it that `kind` has. Return None without one."""
        try:
            with self._path(block).open("rb") as file:
                data = np.load(file, allow_pickle=False)
                if tuple(data["block"]) != tuple(block):
                    return None
                return kind(*(data[name] for name in kind._fields))
        except Exception:  # a damaged archive can raise anything; the block is run again
            return None

    def save(self, block: Block, result: BlockResult) -> None:
        """Write a finished block, completely or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(self._path(block)) as path, path.open("wb") as file:
            np.savez(file, block=np.array(block), **result._asdict())

    def remove(self) -> None:
        """Delete all blocks."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, block: Block) -> Path:
        return (
            self.folder / f"cell{block.cell}-from{block.first}-replications{block.replications}.npz"
        )
