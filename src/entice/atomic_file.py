"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Provide a temporary path beside `path`; it replaces `path` once its content is on disk.

    If `path` is a symbolic link, the file that it points to is replaced.
    """
    path = path.resolve()
    beside = path.with_name(f".writing-{uuid4().hex}")
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
