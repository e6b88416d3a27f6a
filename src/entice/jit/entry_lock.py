"""A lock for each entry of the cache, so that no two processes compile the same kernel at once."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LOCK_FILE = "lock"
"""One file for all entries of a cache: each entry locks a byte of its own, which may not exist."""
_MAX_WAIT = 60.0
"""Seconds to wait for another process, which may be stopped (Ctrl-Z) or have a low priority."""
_RETRY_INTERVAL = 0.1


@contextlib.contextmanager
def entry_lock(folder: Path, key: str) -> Iterator[None]:
    """Hold the lock of one entry. The operating system releases it if the process dies.

    Some file systems do not support locks, and a process that holds one for more than a minute is
    not waited for. Then two processes may compile the same kernel, and one of the two entries is
    kept.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
            stack.callback(os.close, file)  # releases the lock, too
            _wait_for_byte(file, int(key[:7], 16))
        yield


def _wait_for_byte(file: int, position: int) -> None:
    end = time.monotonic() + _MAX_WAIT
    while time.monotonic() < end:
        # The two errors of a lock that is held; which one depends on the operating system.
        with contextlib.suppress(BlockingIOError, PermissionError):
            return _lock_byte(file, position)
        time.sleep(_RETRY_INTERVAL)


if sys.platform == "win32":
    import msvcrt

    def _lock_byte(file: int, position: int) -> None:
        os.lseek(file, position, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock_byte(file: int, position: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, position)
