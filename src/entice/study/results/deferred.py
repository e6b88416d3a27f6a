"""Frames that are built when they are first read.

A call of `simulate` is often read for its last rounds alone, and computing the statistics of 200
checkpoints takes up to half of the time of a small study.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl


class DeferredFrame:
    """A frame that is built at the first call of `read`.

    `build` returns the frame. It is called once, and released with the numbers that it holds.
    """

    def __init__(self, build: Callable[[], pl.DataFrame]) -> None:
        self._lock = threading.Lock()
        self._build: Callable[[], pl.DataFrame] | None = build
        self._frame: pl.DataFrame | None = None

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
