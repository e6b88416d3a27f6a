"""Progress: a bar on the terminal, one line in a notebook, and the kernels that are compiled."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import entice
from entice import progress
from entice.jit import specialize
from entice.jit.compile_all import compile_all
from entice.progress import report_compilation, reporting, reporting_compilation


class Output:
    """The output of a notebook's cell: lines by the id of their display, as a browser has them."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        states = self.lines.setdefault(f"display {len(self.lines)}", [data["text/plain"]])

        def update(data: dict[str, str], *, raw: bool) -> None:
            assert raw
            states.append(data["text/plain"])

        return SimpleNamespace(update=update)

    @property
    def line(self) -> list[str]:
        """The states of the only line."""
        [states] = self.lines.values()
        assert not any("\n" in state for state in states)
        return states


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that the test moves on."""
    now = 100.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    return wait


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Output:
    """Make this process a notebook's kernel, as far as IPython tells."""
    output = Output()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    display.display = output.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return output


def test_a_notebook_has_one_line(notebook: Output, clock: Callable[[float], None]) -> None:
    with reporting(None, "Simulating") as report:
        report_compilation(0, 2)
        clock(10)
        report_compilation(1, 2)
        clock(10)
        report(0, 2000)
        clock(6)
        report(1500, 2000)
        report(1501, 2000)  # too soon to be shown
        clock(2)
        report(2000, 2000)
        clock(0.1)
    assert notebook.line == [
        f"Compiling, the first time only {'─' * 24} 0 of 2 kernels",
        f"Compiling, the first time only {'━' * 12}{'─' * 12} 1 of 2 kernels",
        f"Simulating {'─' * 24} 0 of 2,000 runs",
        f"Simulating {'━' * 18}{'─' * 6} 1,500 of 2,000 runs, 2 s left",
        f"Simulating {'━' * 24} 2,000 of 2,000 runs, 0 s left",
        "Simulating: 2,000 runs in 8.1 s",
    ]


def test_a_short_call_leaves_no_output(notebook: Output, clock: Callable[[float], None]) -> None:
    for _ in range(20):
        with reporting(None, "Simulating") as report:
            report(0, 100)
            clock(0.1)
            report(100, 100)
    assert notebook.lines == {}


def test_an_interrupted_call_ends_its_line(
    notebook: Output, clock: Callable[[float], None]
) -> None:
    def plan() -> None:
        with reporting(None, "Planning") as report:
            clock(1)
            report(1200, 6000)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan()
    assert notebook.line[-1] == "Planning: stopped after 1,200 of 6,000 runs"


def test_a_notebook_shows_nothing_if_told_so(notebook: Output) -> None:
    with reporting(False, "Simulating") as report:
        report_compilation(0, 1)
        report(0, 1)
    assert notebook.lines == {}


def test_ipython_on_a_terminal_is_no_notebook(
    notebook: Output, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace())
    with reporting(True, "Simulating") as report:
        report_compilation(0, 1)
        report(3, 3)
    assert notebook.lines == {}
    assert "3 of 3 runs" in capsys.readouterr().err


def test_several_studies_have_one_line(notebook: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SHOWN_AFTER", -1)
    monkeypatch.setattr(progress, "_UPDATE_INTERVAL", -1)
    entice.simulate(
        arms=entice.Gaussian([0.9, 0.1]), policies=[entice.UCB()], horizon=[100, 200, 300],
        replications=50, seed=7,
    )  # fmt: skip
    done = [re.search(r"(\d+) of 150 runs", line) for line in notebook.line[:-1]]
    counts = [int(found[1]) for found in done if found is not None]
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert {50, 100, 150} <= set(counts)
    assert re.fullmatch(r"Simulating: 150 runs in \d+\.\d s", notebook.line[-1])


def test_kernels_to_compile_are_counted_before_the_first() -> None:
    """Each step stands for a cell: `cached` is loaded, the others are compiled."""
    compiled, reports = {"cached"}, []

    def step(key: str) -> str:
        if key not in compiled and specialize._load_only.get():
            raise specialize.NotCompiled(key)
        if key not in compiled:
            reports.append(f"compile {key}")
            compiled.add(key)
        return key.upper()

    keys = ["one", "cached", "two", "one", "two"]
    with reporting_compilation(lambda done, total: reports.append(f"{done} of {total}")):
        found = compile_all([lambda key=key: step(key) for key in keys])  # type: ignore[misc]
    assert found == ["ONE", "CACHED", "TWO", "ONE", "TWO"]
    assert reports == ["0 of 2", "compile one", "1 of 2", "compile two"]
