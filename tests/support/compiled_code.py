"""Helpers for the tests of compiled code in memory and on disk."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import entice
from entice.jit import specialize
from entice.jit.decorators import inline_always
from entice.jit.entry_lock import LOCK_FILE
from entice.rng import Stream

FIRST, SECOND = [5, 1], [1, 5]  # pulls of arms 0 and 1 when each is tried once and then one only

FILES = ("kernel.py", "__pycache__/*.nbi", "__pycache__/*.nbc", "checksums.txt")


def clear_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the machine code in memory, as in a new process."""
    monkeypatch.setattr(specialize, "_compiled", {})


def pulls_of(select: Callable[..., Any]) -> list[int]:
    """Simulate 6 rounds of 2 arms and count the pulls of each."""
    result = entice.simulate(
        arms=entice.Bernoulli([0, 1]),
        policies=[entice.CustomPolicy(select)],
        horizon=6,
        replications=1,
        checkpoints=1,
        seed=1,
    )
    pulls: list[int] = result.final["pulls"][0].to_list()
    return pulls


@inline_always
def _ask(select: Callable[..., int], pulls: Any, means: Any, memory: Any, stream: Stream) -> int:
    return 0 + select(1, pulls, means, memory, (), stream)


def selected_arm(select: Callable[..., Any]) -> int:
    """Return the arm that a policy selects, through an entry point with little to compile."""
    arguments = np.zeros(2, np.int64), np.zeros(2), np.zeros(0), np.zeros(4, np.uint64)
    return int(specialize.get_compiled(_ask, (select,), arguments)(*arguments))


def define(source: str, **names: Any) -> Callable[..., Any]:
    """Define `select` in a module of its own, with some globals."""
    module = {"__name__": "of_a_user", "numba": numba, "np": np} | names
    exec(textwrap.dedent(source), module)
    found: Callable[..., Any] = module["select"]
    return found


def second(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    return 1


def loaded() -> tuple[int, int]:
    """Return how many functions in memory were loaded from disk, and how many were compiled."""
    runs: list[Any] = list(specialize._compiled.values())
    hits = sum(sum(run.stats.cache_hits.values()) for run in runs)
    return hits, len(runs) - hits


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return all files below a folder, with the times of their last change."""
    return {
        str(file.relative_to(folder)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def entries(cache: Path) -> list[Path]:
    """Return the entries of a cache."""
    return [path for path in cache.iterdir() if path.name != LOCK_FILE]


def only_entry(cache: Path) -> Path:
    """Return the only entry of a cache, and check that it is intact."""
    (entry,) = entries(cache)
    assert re.fullmatch("[0-9a-f]{32}", entry.name)
    assert specialize._is_intact(entry)
    files = {file for file in entry.rglob("*") if file.is_file()}
    assert {file for pattern in FILES for file in entry.glob(pattern)} == files
    assert len(files) == len(FILES)
    return entry
