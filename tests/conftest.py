"""Where kernels of the tests are kept, and a command line to call without a new process."""

import gc
import math
import os
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from command_line import CommandResult, RunEntice
from matplotlib.figure import Figure
from numba.core.dispatcher import Dispatcher
from plain_kernel import plain_kernel
from sizes import LONG
from tracing import unmeasured, untraced, untraced_here

from entice.jit import compile_all

# Beside pytest's own cache, apart from the user's.
os.environ.setdefault(
    "ENTICE_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "kernels")
)

# Until the tests are collected: hardly anything that importing them makes is garbage, and looking
# for it takes 0.7 of 3.9 s in each worker.
gc.disable()

# The workers of pytest-xdist inherit it. They keep every core busy, and further threads for small
# tables took 6 % of the CPU time of the tests of studies and estimates.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

# Numba's compiler is Python for the most part, and most of what these tests do.
Dispatcher.compile = untraced(Dispatcher.compile)
# Matplotlib draws in Python too. It calls nothing of Entice while it draws.
Figure.draw = untraced(Figure.draw)  # type: ignore[method-assign]
Figure.savefig = untraced(Figure.savefig)  # type: ignore[method-assign]

LONG_CASE = math.inf if LONG else 0.1
"""Seconds of CPU from which on a case of a parametrised test is the last that is measured in its
worker: most cases run the same lines."""
_long_tests: set[str] = set()

# The tokens of the tests' services.
_state = tempfile.TemporaryDirectory(prefix="entice-state-")
os.environ["ENTICE_STATE_DIR"] = _state.name

# The workers of pytest-xdist keep every core busy, and a compiler process takes 2 s to start.
if "PYTEST_XDIST_WORKER" in os.environ:
    compile_all.thread_count = lambda threads: 1


def pytest_xdist_auto_num_workers() -> int:
    """Use one worker more than there are cores: the one with the tests of `WAITING` needs half."""
    return (os.cpu_count() or 1) + 1


WAITING = (
    "tests/test_docs.py", "tests/studio/", "tests/cluster/", "tests/packaging/", "tests/cli/",
    "tests/service/http/", "tests/service/operations/",
)  # fmt: skip
"""Tests that wait for browsers, services and other processes for much of their time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests first that wait.

    Each worker starts with its own part of the list. So one of them has these tests, and the others
    use the cores in the meantime; in the order of folders, all would wait together.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(WAITING))


def pytest_collection_finish() -> None:
    """Collect garbage less often, and never again what the modules of the tests contain.

    Garbage collection took 6.9 of 134 s of CPU of the tests of the engine, policies, worlds and the
    service's domain; so it takes 3.9 s.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Measure no coverage of further cases of a long parametrised test."""
    if _function(item) not in _long_tests:
        return (yield)
    with untraced_here():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Note long tests."""
    began = time.process_time()
    try:
        yield
    finally:
        if time.process_time() - began > LONG_CASE:
            _long_tests.add(_function(item))


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


@pytest.fixture
def plain() -> Iterator[None]:
    """Run the generic kernel in plain Python: see `plain_kernel`."""
    with plain_kernel():
        yield


@pytest.fixture(scope="module", name="unmeasured")
def _unmeasured() -> Iterator[None]:
    """Pause coverage for tests of compiled code, or of code that other tests cover."""
    with unmeasured():
        yield


@pytest.fixture(name="untraced")
def _untraced() -> Iterator[None]:
    """Pause coverage for a single test, in its thread and those that it starts."""
    with untraced_here():
        yield


@pytest.fixture
def run_entice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunEntice:
    """Call the command line in an empty folder, as its script does."""
    from entice.cli import app as cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["entice", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        shown = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return CommandResult(left.value.code, shown.out, shown.err)

    return call
