"""Kernels that are missing from the cache are compiled by several processes."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from compile_steps import fail, interrupt, record_process

from entice.jit import compile_all as module
from entice.jit.compile_all import compile_all
from entice.jit.compiler_process import CompilerProcess, portable
from entice.progress import reporting_compilation


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[CompilerProcess]:
    """Pretend that there are two cores, and list the child processes."""
    started: list[CompilerProcess] = []

    def start() -> CompilerProcess:
        started.append(CompilerProcess())
        return started[-1]

    monkeypatch.setattr(module, "thread_count", lambda threads: 2)
    monkeypatch.setattr(module, "CompilerProcess", start)
    return started


def test_a_child_compiles_the_last_kernel_and_this_process_the_first(
    children: list[CompilerProcess], tmp_path: Path
) -> None:
    reported: list[tuple[int, int]] = []
    with reporting_compilation(lambda done, total: reported.append((done, total))):
        first, last, again = compile_all(
            [partial(record_process, tmp_path, name) for name in ("first", "last", "first")]
        )
    (child,) = children
    assert first == again == f"first by {os.getpid()}"
    assert last == f"last by {child._process.pid}"
    assert child._process.returncode is not None
    assert reported[0] == (0, 2)


def test_one_missing_kernel_starts_no_process(
    children: list[CompilerProcess], tmp_path: Path
) -> None:
    assert compile_all([partial(record_process, tmp_path, "only")]) == [f"only by {os.getpid()}"]
    assert not children


def test_functions_that_no_other_process_can_import_stay_here(
    children: list[CompilerProcess], tmp_path: Path
) -> None:
    steps = [lambda name=name: record_process(tmp_path, name) for name in ("first", "last")]
    assert portable(steps[0]) is None
    assert compile_all(steps) == [f"first by {os.getpid()}", f"last by {os.getpid()}"]
    assert not children


def test_an_error_in_a_child_is_raised_here(
    children: list[CompilerProcess], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"^last can't be compiled$"):
        compile_all([partial(record_process, tmp_path, "first"), partial(fail, tmp_path, "last")])
    assert children[0]._process.returncode is not None


def test_ctrl_c_ends_the_children(children: list[CompilerProcess], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        compile_all(
            [partial(interrupt, tmp_path, "first"), partial(record_process, tmp_path, "last")]
        )
    assert children[0]._process.returncode is not None
