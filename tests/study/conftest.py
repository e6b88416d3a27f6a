"""Fixtures that count the replications that a study runs."""

from __future__ import annotations

from typing import Any

import pytest

from entice.study.running.cell import Cell


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split studies of 500 rounds into blocks of 9 replications."""
    monkeypatch.setattr("entice.study.blocks._MIN_WORK", 4500)
    monkeypatch.setattr("entice.study.blocks._MAX_WORK", 4500)


@pytest.fixture
def blocks_run(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return a list of the blocks that are run: first replication and number of replications."""
    blocks: list[tuple[int, int]] = []
    original = Cell.run

    def run(self: Cell, first: int, arrays: Any, *rest: Any) -> None:
        original(self, first, arrays, *rest)
        blocks.append((first, len(arrays.stopped)))

    monkeypatch.setattr(Cell, "run", run)
    return blocks
