"""A result that one worker of pytest-xdist computes for all of them.

A fixture of a module runs in each worker that takes tests of that module.
"""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def once(
    factory: pytest.TempPathFactory, name: str, compute: Callable[[Path], T]
) -> tuple[T, Path]:
    """Return what a function returns, and the folder into which it wrote; call it once a session.

    Parameters
    ----------
    factory
        Of temporary folders.
    name
        The name of the folder, which must be unique.
    compute
        A function of that folder. Its result is pickled.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # of all workers
    folder, kept = root / name, root / f"{name}.pickle"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():  # also if the first worker failed
            folder.mkdir(exist_ok=True)
            kept.write_bytes(pickle.dumps(compute(folder)))
    found: T = pickle.loads(kept.read_bytes())
    return found, folder
