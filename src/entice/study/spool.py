"""A temporary folder that lasts as long as somebody refers to it."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class Spool:
    """A folder for what does not fit into the memory; it is removed with the last reference."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="entice-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
