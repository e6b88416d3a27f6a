"""Helpers of the conformance checks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from entice.errors import EnticeError
from entice.service.storage.store import Session, Store

Open = Callable[[], Store]
"""Opens a new connection to the database, as another process of the service would."""

TIMEOUT = 20.0
"""Seconds after which a thread counts as blocked."""


class NotConforming(EnticeError, AssertionError):
    """A store breaks a guarantee, which the message names."""


def require(condition: bool, message: str) -> None:
    """Raise `NotConforming` unless a condition holds."""
    if not condition:
        raise NotConforming(message)


def must_fail(act: Callable[[], Any], message: str) -> None:
    """Raise `NotConforming` unless an action raises an exception of any kind."""
    try:
        act()
    except Exception:
        return
    raise NotConforming(message)


@contextmanager
def opened(open_store: Open) -> Iterator[tuple[Store, Store]]:
    """Open two connections, as two processes would; delete the rows of the checks at the end."""
    with closing(open_store()) as one, closing(open_store()) as other:
        yield one, other
        with one.write() as session:
            # Only rows of the checks have no checksum.
            own = "(SELECT number FROM campaigns WHERE digest = ?)"
            session.run(f"DELETE FROM events WHERE campaign IN {own}", (b"",))
            session.run(f"DELETE FROM offers WHERE campaign IN {own}", (b"",))
            session.run("DELETE FROM campaigns WHERE digest = ?", (b"",))
            session.run("DELETE FROM answers WHERE digest = ?", (b"",))


def execute(transaction: Callable[[], Any], sql: str, params: Sequence[Any] = ()) -> None:
    """Run one statement in its own transaction."""
    with transaction() as session:
        session.run(sql, params)


def in_thread(act: Callable[[], Any]) -> Any:
    """Run an action in another thread, and return its result."""
    return in_threads([act])[0]


def in_threads(acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run actions concurrently; return their results, or raise the first error."""
    results: list[Any] = [None] * len(acts)
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            results[i] = acts[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    if errors:
        raise errors[0]
    require(
        not any(thread.is_alive() for thread in threads),
        f"a thread is blocked after {TIMEOUT:g} seconds: readers and writers block each other",
    )
    return results


def insert_campaign(session: Session, name: str) -> None:
    """Insert a campaign without a checksum, which marks it as a row of the checks."""
    session.rows(
        "INSERT INTO campaigns (id, seq, head, budget, reserved, committed, state, digest) "
        "VALUES (?, 0, ?, 1000000, 0, 0, ?, ?) RETURNING number",
        (name, b"", b"", b""),
    )


def new_campaign(store: Store, purpose: str) -> str:
    """Insert a campaign with a new name, and return the name."""
    with store.write() as session:
        (count,) = session.rows("SELECT count(*) FROM campaigns")[0]
        name = f"{purpose} {count}"
        insert_campaign(session, name)
    return name


def number_of(store: Store, name: str) -> int:
    """Return the primary key of a campaign."""
    with store.read() as session:
        return int(session.rows("SELECT number FROM campaigns WHERE id = ?", (name,))[0][0])


def exists(store: Store, name: str) -> bool:
    """Return whether a campaign exists."""
    with store.read() as session:
        return bool(session.rows("SELECT 1 FROM campaigns WHERE id = ?", (name,)))


def reserved_in(session: Session, name: str) -> int:
    """Return a campaign's reserved amount, in an open transaction."""
    return int(session.rows("SELECT reserved FROM campaigns WHERE id = ?", (name,))[0][0])


def reserved(store: Store, name: str) -> int:
    """Return a campaign's reserved amount."""
    with store.read() as session:
        return reserved_in(session, name)


def set_reserved(store: Store, name: str, value: int) -> None:
    """Set a campaign's reserved amount."""
    with store.write() as session:
        session.run("UPDATE campaigns SET reserved = ? WHERE id = ?", (value, name))
