"""Where blocks are run: the cells of a study, each compiled when first needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from entice.study.aggregation.block_digest import BlockResult, digest, is_large
from entice.study.blocks import Block
from entice.study.run_arrays import RunArrays
from entice.study.running.cell import Cell
from entice.study.spec import Study

_AT_ONCE = 32 * 2**20
"""Bytes of metrics that are reduced at a time."""


class BlockRunner:
    """Runs any block of a study that has a seed; several threads may ask at once."""

    def __init__(self, study: Study) -> None:
        self.stop = np.zeros(1, dtype=np.int64)
        """Set to 1, it makes all that is under way end soon, with `Stopped`."""
        self._study = study
        self._cells = list(study.cells())
        self._compiled: dict[int, Cell] = {}
        self._is_large = is_large(study)
        self._compiling = threading.Lock()

    def compile(self) -> None:
        """Compile all cells, so that what can't be is told before anything runs."""
        for cell in range(len(self._cells)):
            self._cell(cell)

    def run(self, block: Block) -> BlockResult:
        """Run a block."""
        cell = self._cell(block.cell)
        if self._is_large:
            return digest(self._some_at_a_time(cell, block))
        room = cell.room_for(block.replications)
        cell.run(block.first, room)
        return room

    def _some_at_a_time(self, cell: Cell, block: Block) -> Iterator[tuple[int, RunArrays]]:
        """Run a block in parts whose numbers do not take much memory."""
        end = block.first + block.replications
        step = max(1, _AT_ONCE // cell.room_for(1).metrics.nbytes)
        room = cell.room_for(min(step, block.replications))
        for first in range(block.first, end, step):
            rows = room.rows(0, min(step, end - first))
            cell.run(first, rows)
            yield first, rows

    def _cell(self, number: int) -> Cell:
        with self._compiling:
            if number not in self._compiled:
                _, _, policy, drift = self._cells[number]
                self._compiled[number] = Cell(self._study, policy, drift, self.stop)
            return self._compiled[number]
