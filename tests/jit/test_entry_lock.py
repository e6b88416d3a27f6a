"""Waiting for a process that compiles the same kernel."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import without_coverage

from entice.jit import entry_lock as module
from entice.jit.entry_lock import entry_lock

KEY, OTHER = "0" * 32, "1" * 32

HOLD = """
import sys
from pathlib import Path
from entice.jit.entry_lock import entry_lock

with entry_lock(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its standard input is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), KEY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=without_coverage(),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def seconds_to_lock(folder: Path, key: str) -> float:
    start = time.monotonic()
    with entry_lock(folder, key):
        return time.monotonic() - start


@pytest.mark.usefixtures("holder")
def test_a_process_that_keeps_its_lock_is_not_waited_for_forever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_WAIT", 0.5)
    assert seconds_to_lock(tmp_path, KEY) >= 0.5
    assert seconds_to_lock(tmp_path, OTHER) < 0.5


def test_a_lock_is_waited_for_until_it_is_released(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    assert holder.stdin is not None
    release = threading.Timer(0.5, holder.stdin.close)
    release.start()
    assert 0.3 < seconds_to_lock(tmp_path, KEY) < module._MAX_WAIT / 2
    release.join()
