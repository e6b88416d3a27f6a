"""Alignment of arrays to cache lines, so that threads do not share lines."""

from __future__ import annotations

from typing import Any

import numpy as np

_LINE = 64  # bytes
_SMALL = 4096  # bytes; larger arrays share at most the lines at their ends


def cache_aligned(workspace: Any) -> Any:
    """Copy the small arrays of a (nested) named tuple to cache lines of their own.

    NumPy may allocate small arrays of different threads next to each other. Two threads that write
    to one cache line wait for each other at each write. Without separate lines, two threads of
    UCB's fast path were between 1.5 and 1.9 times as fast as one, depending on the run.
    """
    if isinstance(workspace, tuple):
        return type(workspace)(*map(cache_aligned, workspace))
    if workspace.nbytes > _SMALL:
        return workspace
    buffer = np.zeros(workspace.nbytes + 2 * _LINE, np.uint8)
    begin = _LINE - buffer.ctypes.data % _LINE
    aligned = (
        buffer[begin : begin + workspace.nbytes].view(workspace.dtype).reshape(workspace.shape)
    )
    aligned[...] = workspace
    return aligned
