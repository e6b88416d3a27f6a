"""Desks on databases of their own, without HTTP, and gone in the end whatever happens."""

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
"""Requests that wait for the desk at a time: it turns callers away only at ten times as many."""


@contextmanager
def sqlite_store() -> Iterator[SqliteStore]:
    """A SQLite database in a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="entice-faults-") as folder:
        store = SqliteStore(Path(folder) / "entice.db")
        try:
            yield store
        finally:
            store.close()


@contextmanager
def desk_on(store: Store, clock: Clock | None = None) -> Iterator[Writer]:
    """A desk at work."""
    writer = Writer(store, clock or Clock())
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


def create(writer: Writer, spec: CampaignSpec) -> str:
    """Begin a campaign, and return its id."""
    return str(told(writer, CreateCampaign(spec))["id"])


def told(writer: Writer, command: Command) -> Any:
    """Have something done, and return what was told."""
    return json.loads(writer.submit(command).result(timeout=60).body)


def put_through(writer: Writer, commands: Iterable[Command]) -> Iterator[CommandResult | Refusal]:
    """Have many things done, as fast as the desk can, and return what was told in their order."""
    waiting: list[Future[CommandResult]] = []
    for command in commands:
        waiting.append(writer.submit(command))
        if len(waiting) >= AT_ONCE:
            yield from _settled(waiting)
            waiting = []
    yield from _settled(waiting)


def _settled(waiting: list[Future[CommandResult]]) -> Iterator[CommandResult | Refusal]:
    for future in waiting:
        error = future.exception(timeout=120)
        if error is None:
            yield future.result()
        elif isinstance(error, Refusal):
            yield error
        else:
            raise error
