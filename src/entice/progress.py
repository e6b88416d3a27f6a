"""Progress of long calls: reports, a bar on the terminal, one line in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate

Report = Callable[[int, int], None]
"""A function of the work done and the total work, in replications unless stated otherwise."""

_SHOWN_AFTER = 0.5
"""Seconds after which a notebook shows the progress of a call. Shorter calls leave no output."""
_UPDATE_INTERVAL = 0.2
"""Minimum seconds between two updates of a notebook, since each is a message to the browser."""
_METER_WIDTH = 24
_COMPILING, _KERNELS = "Compiling, the first time only", "kernels"

_compilation: ContextVar[Report | None] = ContextVar("_compilation", default=None)


@contextmanager
def reporting(progress: bool | Report | None, title: str, unit: str = "runs") -> Iterator[Report]:
    """Provide a function for progress reports: the caller's own, one that draws, or a no-op.

    None means to draw if standard error is a terminal or this process is a notebook's kernel.
    """
    in_notebook = _in_notebook()
    if callable(progress):
        yield progress
    elif progress or (progress is None and (in_notebook or sys.stderr.isatty())):
        with (
            (_notebook_line if in_notebook else _bar)(title) as show,
            reporting_compilation(lambda done, total: show(_COMPILING, done, total, _KERNELS)),
        ):
            yield lambda done, total: show(title, done, total, unit)
    else:
        yield lambda done, total: None


@contextmanager
def reporting_compilation(report: Report) -> Iterator[None]:
    """Call a function with the kernels compiled and their total, when this thread compiles some."""
    before = _compilation.set(report)
    try:
        yield
    finally:
        _compilation.reset(before)


def report_compilation(done: int, total: int) -> None:
    """Report how many kernels of a call are compiled, of those that have to be compiled."""
    report = _compilation.get()
    if report is not None:
        report(done, total)


def split_report(report: Report, sizes: Sequence[int]) -> list[Report]:
    """Split a report into one for each of several consecutive tasks of the given sizes.

    >>> from entice.progress import split_report
    >>> first, second = split_report(print, [100, 300])
    >>> first(5, 10), second(1, 3)
    50 400
    200 400
    (None, None)
    """

    def part(before: int, size: int) -> Report:
        return lambda done, total: report(before + round(size * done / total), sum(sizes))

    return [part(end - size, size) for end, size in zip(accumulate(sizes), sizes, strict=True)]


_Show = Callable[[str, int, int, str], None]
"""A function that draws a phase of a call: its title, the work done, the total, their unit."""


@contextmanager
def _bar(title: str) -> Iterator[_Show]:
    """Draw a bar on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),  # the first of many large blocks can take half a minute
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None, count="")

        def show(phase: str, done: int, total: int, unit: str) -> None:
            count = f"{done:,} of {total:,} {unit}"
            if phase != bar.tasks[0].description:
                bar.reset(task, description=phase, count=count)  # forgets the last phase's speed
            bar.update(task, completed=done, total=total, count=count)

        yield show


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


@contextmanager
def _notebook_line(title: str) -> Iterator[_Show]:
    """Write a line into a notebook's output, and replace it as the call proceeds.

    Rich would need ipywidgets for that, in the kernel and in the browser.
    """
    from IPython.display import display

    started = phase_started = time.monotonic()
    updated, now_shown, handle = -_UPDATE_INTERVAL, (title, 0, 0, ""), None

    def write(line: str) -> None:
        nonlocal handle
        if handle is None:
            handle = display({"text/plain": line}, raw=True, display_id=True)
        else:
            handle.update({"text/plain": line}, raw=True)

    def show(phase: str, done: int, total: int, unit: str) -> None:
        nonlocal updated, phase_started, now_shown
        now = time.monotonic()
        is_new = phase != now_shown[0]
        if is_new:
            phase_started = now
        now_shown = phase, done, total, unit
        # Compilation takes seconds, and reports nothing until a kernel is compiled.
        is_long = now - started > _SHOWN_AFTER or phase == _COMPILING
        if is_long and (is_new or now - updated > _UPDATE_INTERVAL):
            updated = now
            write(_line(phase, done, total, unit, now - phase_started))

    try:
        yield show
    except BaseException:
        phase, done, total, unit = now_shown
        if handle is not None:
            write(f"{phase}: stopped after {done:,} of {total:,} {unit}")
        raise
    if handle is not None:
        phase, _, total, unit = now_shown
        write(f"{phase}: {total:,} {unit} in {time.monotonic() - phase_started:.1f} s")


def _line(title: str, done: int, total: int, unit: str, seconds: float) -> str:
    """Return a line such as "Simulating ━━━━━━━━──── 1,200 of 1,800 runs, 4 s left"."""
    filled = _METER_WIDTH * done // max(1, total)
    meter = "━" * filled + "─" * (_METER_WIDTH - filled)
    # Kernels are few, and compiled side by side: the next one may end at once.
    is_known = done > 0 and unit != _KERNELS
    left = f", {seconds * (total - done) / done:,.0f} s left" if is_known else ""
    return f"{title} {meter} {done:,} of {total:,} {unit}{left}"
