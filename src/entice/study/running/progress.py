"""Telling a person how far a study is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, int], None]
"""Called with what is done and what there is in all: replications, as a rule."""


@contextmanager
def reporting(progress: bool | Report | None, title: str, unit: str = "runs") -> Iterator[Report]:
    """Give a function to report to: the caller's own, a bar on the terminal, or nothing.

    None stands for a bar if standard error is a terminal.
    """
    if callable(progress):
        yield progress
    elif progress or (progress is None and sys.stderr.isatty()):
        with _bar(title, unit) as report:
            yield report
    else:
        yield lambda done, total: None


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
