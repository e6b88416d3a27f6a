"""A server that acknowledges before it commits: a control that must lose data."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from entice.service.http import server as serving
from entice.service.http.server import Settings
from entice.service.http.server import worker_app as original_app
from service_faults.serve import serve

DELAY = 0.1
"""Seconds for which a transaction stays open after its requests are acknowledged."""

Write = Callable[[Any], AbstractContextManager[Any]]


class DelayedTransaction:
    """A transaction that stays open after its requests are acknowledged."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._began = 0.0
        self._transaction: AbstractContextManager[Any] | None = None
        self._session: Any = None

    @contextmanager
    def write(self, store: Any) -> Iterator[Any]:
        """Replace a store's `write`: join the open transaction, if there is one."""
        if self._transaction is None:
            transaction = self._write(store)
            self._session = transaction.__enter__()
            self._transaction, self._began = transaction, time.monotonic()
        try:
            yield self._session
        except BaseException as error:
            self.end(error)
            raise
        if time.monotonic() - self._began > DELAY:
            self.end()

    def end(self, error: BaseException | None = None) -> None:
        """Commit the open transaction, or roll it back."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.__exit__(type(error) if error else None, error, None)


def commit_later(store: Any) -> None:
    """Make the writer of a class of stores commit later than it acknowledges."""
    write, read = store.write, store.read
    held = DelayedTransaction(write)

    def writer() -> bool:
        return threading.current_thread().name == "entice-writer"

    store.write = lambda self: held.write(self) if writer() else write(self)

    def read_committed(self: Any) -> AbstractContextManager[Any]:
        if writer():
            held.end()
        opened: AbstractContextManager[Any] = read(self)
        return opened

    store.read = read_committed


def worker_app(settings: Settings, extensions: Any) -> Any:
    """Build the application as the service does, on stores that commit later."""
    from entice.service.storage.postgres import PostgresStore
    from entice.service.storage.sqlite import SqliteStore

    commit_later(SqliteStore)
    commit_later(PostgresStore)
    return original_app(settings, extensions)


def main() -> None:
    """Serve as `entice serve` does, without care."""
    serving.worker_app = worker_app
    serve()


if __name__ == "__main__":
    from service_faults import ack_before_commit  # worker processes import it by this name

    ack_before_commit.main()
