"""A lock for each entry of the cache, so that no two processes compile the same kernel at once."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

LOCK_FILE = "lock"
"""One file for all entries of a cache: each entry locks a byte of its own, which may not exist."""


@contextlib.contextmanager
def entry_lock(folder: Path, key: str) -> Iterator[None]:
    """Hold the lock of one entry. The operating system releases it if the process dies.

    Some file systems do not support locks. There two processes may compile the same kernel, and one
    of the two entries is kept.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
            stack.callback(os.close, file)  # releases the lock, too
            _lock_byte(file, int(key[:7], 16))
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock_byte(file: int, position: int) -> None:
        os.lseek(file, position, os.SEEK_SET)
        while True:
            try:
                msvcrt.locking(file, msvcrt.LK_LOCK, 1)
            except OSError as error:
                if error.errno != errno.EDEADLK:  # Windows stops waiting after 10 seconds
                    raise
            else:
                return

else:
    import fcntl

    def _lock_byte(file: int, position: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, position)
