"""Warnings about runs whose payments grow without bound: two lines for a call, however large."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_LISTED = 3
"""Number of cells that the last line names."""


class _Count(NamedTuple):
    runs: int = 0
    stopped: int = 0
    first_round: int = sys.maxsize


class Runaways:
    """Counts the runs that were stopped because their payments grew without bound."""

    def __init__(self) -> None:
        self._cells: dict[str, _Count] = {}
        self._warned = False

    def add(self, cell: str, stopped: npt.NDArray[np.int64]) -> None:
        """Add runs of a cell, with the round in which each was stopped or 0; warn of the first."""
        rounds, count = stopped[stopped > 0], self._cells.get(cell, _Count())
        self._cells[cell] = _Count(
            count.runs + len(stopped),
            count.stopped + len(rounds),
            min([count.first_round, *rounds.tolist()]),
        )
        if len(rounds) and not self._warned:
            self._warned = True
            _print(
                f"payments grow without bound in runs of {cell}; such runs are stopped and marked"
            )

    def print_summary(self) -> None:
        """Print the cells with the most runs that were stopped, if there are any."""
        found = [(cell, count) for cell, count in self._cells.items() if count.stopped]
        if not found:
            return
        found.sort(key=lambda item: item[1].stopped, reverse=True)
        parts = [
            f"{count.stopped:,} of {count.runs:,} runs of {cell}, first in round "
            f"{count.first_round:,}"
            for cell, count in found[:_LISTED]
        ]
        if len(found) > _LISTED:
            parts.append(f"runs of {len(found) - _LISTED} more")
        _print(
            f"payments grew without bound in {'; '.join(parts)}. These runs were stopped there: "
            "see `stopped` in result.final. A feedback_range or a cap on the drift keeps payments "
            "bounded."
        )


_current: ContextVar[Runaways | None] = ContextVar("_current", default=None)


@contextmanager
def warning_of_runaways() -> Iterator[Runaways]:
    """Provide a counter whose summary is printed at the end, also after an interruption.

    Within another such block, provide the counter of that one.
    """
    outer = _current.get()
    if outer is not None:
        yield outer
        return
    runaways = Runaways()
    before = _current.set(runaways)
    try:
        yield runaways
    finally:
        _current.reset(before)
        runaways.print_summary()


def _print(text: str) -> None:
    print(f"entice: {text}", file=sys.stderr)
