"""Writers on temporary databases, without HTTP."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from entice.service.domain.clock import Clock
from entice.service.domain.commands import Command, CommandResult, CreateCampaign
from entice.service.domain.errors import Refusal
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Store
from entice.service.storage.writer import Writer

AT_ONCE = 2_000
"""Commands in the queue at a time, a tenth of the writer's limit."""


@contextmanager
def sqlite_store() -> Iterator[SqliteStore]:
    """Open a SQLite database in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="entice-faults-") as folder:
        store = SqliteStore(Path(folder) / "entice.db")
        try:
            yield store
        finally:
            store.close()


@contextmanager
def running_writer(store: Store, clock: Clock | None = None) -> Iterator[Writer]:
    """Run a writer."""
    writer = Writer(store, clock or Clock())
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


def create(writer: Writer, spec: CampaignSpec) -> str:
    """Create a campaign, and return its id."""
    return str(execute(writer, CreateCampaign(spec))["id"])


def execute(writer: Writer, command: Command) -> Any:
    """Execute a command, and return its decoded response."""
    return json.loads(writer.submit(command).result(timeout=60).body)


def execute_all(writer: Writer, commands: Iterable[Command]) -> Iterator[CommandResult | Refusal]:
    """Execute many commands as fast as possible; return their results in order."""
    waiting: list[Future[CommandResult]] = []
    for command in commands:
        waiting.append(writer.submit(command))
        if len(waiting) >= AT_ONCE:
            yield from _results(waiting)
            waiting = []
    yield from _results(waiting)


def _results(waiting: list[Future[CommandResult]]) -> Iterator[CommandResult | Refusal]:
    for future in waiting:
        error = future.exception(timeout=120)
        if error is None:
            yield future.result()
        elif isinstance(error, Refusal):
            yield error
        else:
            raise error
