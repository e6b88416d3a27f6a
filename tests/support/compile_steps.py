"""Steps for `compile_all` that record which process ran them; child processes import them."""

from __future__ import annotations

import os
from pathlib import Path

from entice.jit import specialize


def record_process(folder: Path, name: str) -> str:
    """Compile nothing, but record this process's number in a file, as an entry of the cache is."""
    file = folder / name
    if not file.exists():
        if specialize._load_only.get():
            raise specialize.NotCompiled(name)
        file.write_text(str(os.getpid()))
    return f"{name} by {file.read_text()}"


def fail(folder: Path, name: str) -> str:
    """Fail like a function that can't be compiled."""
    if specialize._load_only.get():
        raise specialize.NotCompiled(name)
    raise ValueError(f"{name} can't be compiled")


def interrupt(folder: Path, name: str) -> str:
    """Behave like a step during which Ctrl-C is pressed."""
    if specialize._load_only.get():
        raise specialize.NotCompiled(name)
    raise KeyboardInterrupt


def end_process(folder: Path, name: str) -> str:
    """End the first process that runs this, like a crash of the compiler; it is always a child."""
    file = folder / f"{name} crashed"
    if not specialize._load_only.get() and not file.exists():
        file.touch()
        os._exit(1)
    return record_process(folder, name)


def without_fingerprint(folder: Path, name: str) -> str:
    """Behave like a function that can't be cached."""
    if specialize._load_only.get():
        raise specialize.NotCompiled(name, cacheable=False)
    return f"{name} by {os.getpid()}"
