"""Frames that are built when they are first read.

A call of `simulate` is often read for its last rounds alone. Until a frame is read, it keeps the
numbers that it is built from, which may need much more memory than the frame. So their total is
limited: beyond the limit, the frames that have waited longest are built.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

MAX_BYTES = 128 * 2**20
"""Memory limit for the numbers of all frames that are not built yet."""


class DeferredFrame:
    """A frame that is built at the first call of `read`.

    Parameters
    ----------
    build
        Returns the frame. It is called once, and released with the numbers that it holds.
    size
        The number of bytes that `build` holds and the frame does not need. 0 does not count towards
        the limit.
    """

    def __init__(self, build: Callable[[], pl.DataFrame], size: int = 0) -> None:
        self._lock = threading.Lock()
        self._build: Callable[[], pl.DataFrame] | None = build
        self._frame: pl.DataFrame | None = None
        self._size = size
        if size:
            _build_oldest(self)

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that reading the frame would release."""
        return self._size if self._build is not None else 0

    def read(self) -> pl.DataFrame:
        """Return the frame."""
        with self._lock:
            if self._build is not None:
                self._frame = self._build()
                self._build = None
            assert self._frame is not None
            return self._frame

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the frame itself: a lock can be neither pickled nor copied."""
        return DeferredFrame, (self.read().clone,)


def concat_deferred(frames: Mapping[int, DeferredFrame]) -> DeferredFrame:
    """Combine frames in the order of their keys."""
    return DeferredFrame(partial(_concat, [frames[key] for key in sorted(frames)]))


def _concat(frames: Sequence[DeferredFrame]) -> pl.DataFrame:
    return pl.concat([frame.read() for frame in frames])


_waiting: list[weakref.ref[DeferredFrame]] = []
_waiting_lock = threading.Lock()


def _build_oldest(new: DeferredFrame) -> None:
    """Add a frame, and build the oldest ones as long as the limit is exceeded."""
    with _waiting_lock:
        found = [frame for reference in _waiting if (frame := reference()) is not None]
        waiting = [frame for frame in (*found, new) if frame.waiting_bytes]
        _waiting[:] = map(weakref.ref, waiting)
    total = sum(frame.waiting_bytes for frame in waiting)
    for frame in waiting:
        if total <= MAX_BYTES:
            break
        total -= frame.waiting_bytes
        frame.read()
