"""Progress reports, and the progress bar on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

Report = Callable[[int, int], None]
"""A function of the work done and the total work, in replications unless stated otherwise."""


@contextmanager
def reporting(progress: bool | Report | None, title: str, unit: str = "runs") -> Iterator[Report]:
    """Provide a function for progress reports: the caller's own, a bar on the terminal, or a no-op.

    None means a bar if standard error is a terminal.
    """
    if callable(progress):
        yield progress
    elif progress or (progress is None and sys.stderr.isatty()):
        with _bar(title, unit) as report:
            yield report
    else:
        yield lambda done, total: None


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


@contextmanager
def _bar(title: str, unit: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("Compiling", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, description=title, completed=done, total=total)

        yield report
