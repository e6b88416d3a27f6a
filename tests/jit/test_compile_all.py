"""Kernels that are missing from the cache are compiled by several processes."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from compile_steps import (
    end_process,
    fail,
    interrupt,
    record_process,
    without_fingerprint,
)

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


def test_kernels_of_a_dead_child_are_compiled_here_with_progress(
    children: list[CompilerProcess], tmp_path: Path
) -> None:
    # The child takes the last kernel, which the queue then compiles here, as the other two.
    steps = [
        partial(record_process, tmp_path, "first"),
        partial(record_process, tmp_path, "second"),
        partial(end_process, tmp_path, "last"),
    ]
    queue = module._Queue(dict(enumerate(steps)), set())
    reported: list[tuple[int, int]] = []
    with reporting_compilation(lambda done, total: reported.append((done, total))):
        results = queue.compile()
    assert len(children) == 1
    assert (tmp_path / "last crashed").exists()
    assert results == {
        number: f"{name} by {os.getpid()}"
        for number, name in enumerate(("first", "second", "last"))
    }
    assert reported[-1] == (2, 3)


def test_a_call_returns_whether_the_function_ended_without_an_error(tmp_path: Path) -> None:
    def call(child: CompilerProcess, step: Callable[..., str]) -> bool:
        payload = portable(partial(step, tmp_path, "any"))
        assert payload is not None
        return child.call(payload)

    with CompilerProcess() as child:
        assert call(child, record_process)
        assert not call(child, fail)
        assert call(child, record_process)
        assert not call(child, end_process)
        assert not call(child, record_process)


def test_kernels_that_no_child_can_cache_stay_here(
    children: list[CompilerProcess], tmp_path: Path
) -> None:
    compile_all([partial(without_fingerprint, tmp_path, name) for name in ("first", "last")])
    assert not children


def test_no_child_is_started_if_the_cache_is_not_writable(
    children: list[CompilerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ENTICE_CACHE_DIR", str(tmp_path / "file"))
    compile_all([partial(record_process, tmp_path, name) for name in ("first", "last")])
    assert not children


def test_a_module_must_be_on_the_path_of_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "of_a_study.py"
    file.write_text("def step(): pass\n")
    spec = importlib.util.spec_from_file_location("of_a_study", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "of_a_study", module)
    assert portable(module.step) is None
    monkeypatch.syspath_prepend(tmp_path)
    assert portable(module.step) is not None


def test_ctrl_c_ends_the_children(children: list[CompilerProcess], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        compile_all(
            [partial(interrupt, tmp_path, "first"), partial(record_process, tmp_path, "last")]
        )
    assert children[0]._process.returncode is not None
