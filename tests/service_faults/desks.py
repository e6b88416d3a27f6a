"""Desks on databases of their own, without HTTP, and gone in the end whatever happens."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from entice.service.clock import Clock
from entice.service.commands import Command, CreateCampaign
from entice.service.desk import Desk
from entice.service.errors import Refusal
from entice.service.handling import Answer
from entice.service.spec import CampaignSpec
from entice.service.sqlite import SqliteStore
from entice.service.store import Store

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
def desk_on(store: Store, clock: Clock | None = None) -> Iterator[Desk]:
    """A desk at work."""
    desk = Desk(store, clock or Clock())
    desk.start()
    try:
        yield desk
    finally:
        desk.stop()


def create(desk: Desk, spec: CampaignSpec) -> str:
    """Begin a campaign, and return its id."""
    return str(told(desk, CreateCampaign(spec))["id"])


def told(desk: Desk, command: Command) -> Any:
    """Have something done, and return what was told."""
    return json.loads(desk.submit(command).result(timeout=60).body)


def put_through(desk: Desk, commands: Iterable[Command]) -> Iterator[Answer | Refusal]:
    """Have many things done, as fast as the desk can, and return what was told in their order."""
    waiting: list[Future[Answer]] = []
    for command in commands:
        waiting.append(desk.submit(command))
        if len(waiting) >= AT_ONCE:
            yield from _settled(waiting)
            waiting = []
    yield from _settled(waiting)


def _settled(waiting: list[Future[Answer]]) -> Iterator[Answer | Refusal]:
    for future in waiting:
        error = future.exception(timeout=120)
        if error is None:
            yield future.result()
        elif isinstance(error, Refusal):
            yield error
        else:
            raise error
