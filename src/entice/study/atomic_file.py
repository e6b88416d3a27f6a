"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write to; it takes the place of `path` once it is on disk."""
    beside = path.with_name(f".writing-{uuid4().hex}")
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
