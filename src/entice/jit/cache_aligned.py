"""Arrays of one thread on cache lines of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

_LINE = 64  # bytes
_SMALL = 4096  # bytes; of larger arrays only the ends could share a line


def cache_aligned(workspace: Any) -> Any:
    """Move the small arrays of a (nested) named tuple to where no other thread's data are near.

    NumPy hands out small arrays side by side, to whichever thread asks. Two threads that write to
    one cache line wait for each other at each write: measured on UCB's fast path, two threads
    were then 1.5 times as fast as one in some runs and 1.9 times in others.
    """
    if isinstance(workspace, tuple):
        return type(workspace)(*map(cache_aligned, workspace))
    if workspace.nbytes > _SMALL:
        return workspace
    room = np.zeros(workspace.nbytes + 2 * _LINE, np.uint8)
    begin = _LINE - room.ctypes.data % _LINE
    own = room[begin : begin + workspace.nbytes].view(workspace.dtype).reshape(workspace.shape)
    own[...] = workspace
    return own
