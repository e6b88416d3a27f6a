"""The runner of blocks of replications. It compiles each cell when first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from entice.jit.compile_all import compile_all
from entice.parallel import StopFlag
from entice.study.aggregation.block_digest import BlockResult, digest, is_large
from entice.study.blocks import Block
from entice.study.run_arrays import RunArrays
from entice.study.running.cell import Cell
from entice.study.spec import Study

_CHUNK_BYTES = 32 * 2**20
"""Number of bytes of metrics that are reduced to a digest at a time."""


class BlockRunner:
    """A thread-safe runner of the blocks of a study that has a seed."""

    def __init__(self, study: Study) -> None:
        self.stop: StopFlag = np.zeros(1, dtype=np.int64)
        """The stop flag. Once it is set, all blocks in progress soon raise `Stopped`."""
        self._study = study
        self._cells = list(study.cells())
        self._compiled: dict[int, Cell] = {}
        self._is_large = is_large(study)
        self._compiling = threading.Lock()

    def compile(self) -> None:
        """Compile all cells, so that errors are raised before anything runs."""
        self._compiled = dict(enumerate(compile_all(_cell_makers(self._study, self.stop))))

    def run(self, block: Block) -> BlockResult:
        """Run a block."""
        cell = self._cell(block.cell)
        if self._is_large:
            return digest(self._run_in_chunks(cell, block))
        arrays = cell.allocate(block.replications)
        cell.run(block.first, arrays)
        return arrays

    def _run_in_chunks(self, cell: Cell, block: Block) -> Iterator[tuple[int, RunArrays]]:
        """Run a block in parts of limited memory."""
        end = block.first + block.replications
        step = max(1, _CHUNK_BYTES // cell.allocate(1).metrics.nbytes)
        arrays = cell.allocate(min(step, block.replications))
        for first in range(block.first, end, step):
            rows = arrays.rows(0, min(step, end - first))
            cell.run(first, rows)
            yield first, rows

    def _cell(self, number: int) -> Cell:
        with self._compiling:
            if number not in self._compiled:
                _, _, policy, drift = self._cells[number]
                self._compiled[number] = Cell(self._study, policy, drift, self.stop)
            return self._compiled[number]


def compile_studies(studies: Sequence[Study]) -> None:
    """Compile all cells of several studies, so that no study waits for its own."""
    stop = np.zeros(1, dtype=np.int64)
    seeded = [study if study.seed is not None else study.with_seed() for study in studies]
    compile_all([make for study in seeded for make in _cell_makers(study, stop)])


def _cell_makers(study: Study, stop: StopFlag) -> list[Callable[[], Cell]]:
    """List functions that compile the cells of a study; other processes can call them too."""
    return [partial(Cell, study, policy, drift, stop) for _, _, policy, drift in study.cells()]
