"""The pending ratings of a simulated campaign: a heap of visitors, the earliest rating first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled, compiled_noinline

Counts = npt.NDArray[np.int64]


@compiled
def _rated_before(rated_at: Counts, one: int, other: int) -> bool:
    """Return whether the first visitor's rating comes earlier; ties go to the earlier visitor."""
    return bool(
        rated_at[one] < rated_at[other] or (rated_at[one] == rated_at[other] and one < other)
    )


@compiled_noinline
def push_pending(pending: Counts, pending_count: Counts, rated_at: Counts, visitor: int) -> None:
    """Push a visitor onto the heap of pending ratings."""
    place = pending_count[0]
    pending_count[0] += 1
    while place > 0:
        above = (place - 1) // 2
        if not _rated_before(rated_at, visitor, pending[above]):
            break
        pending[place] = pending[above]
        place = above
    pending[place] = visitor


@compiled_noinline
def pop_pending(pending: Counts, pending_count: Counts, rated_at: Counts) -> int:
    """Pop the visitor with the earliest pending rating."""
    earliest = pending[0]
    pending_count[0] -= 1
    count = pending_count[0]
    last, place = pending[count], 0
    while 2 * place + 1 < count:
        below = 2 * place + 1
        if below + 1 < count and _rated_before(rated_at, pending[below + 1], pending[below]):
            below += 1
        if not _rated_before(rated_at, pending[below], last):
            break
        pending[place] = pending[below]
        place = below
    pending[place] = last
    return int(earliest)
