"""What the checks of a store have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from entice.errors import EnticeError
from entice.service.storage.store import Session, Store

Open = Callable[[], Store]
"""Connects to one database: each call anew, as another process of the service would."""

PATIENCE = 20.0
"""Seconds after which something that should go on is taken to be stuck."""


class NotConforming(EnticeError, AssertionError):
    """A store does not keep a promise; the message says which, and why the service needs it."""


def demand(kept: bool, otherwise: str) -> None:
    """Say what the service would suffer, unless the promise was kept."""
    if not kept:
        raise NotConforming(otherwise)


def must_fail(act: Callable[[], Any], otherwise: str) -> None:
    """Do what the store has to refuse, by whatever error."""
    try:
        act()
    except Exception:
        return
    raise NotConforming(otherwise)


@contextmanager
def opened(open_store: Open) -> Iterator[tuple[Store, Store]]:
    """Connect twice, as two processes would, and leave the database as it was."""
    with closing(open_store()) as one, closing(open_store()) as other:
        yield one, other
        with one.write() as session:
            # No service writes rows without a checksum: these are ours.
            ours = "(SELECT number FROM campaigns WHERE digest = ?)"
            session.run(f"DELETE FROM events WHERE campaign IN {ours}", (b"",))
            session.run(f"DELETE FROM offers WHERE campaign IN {ours}", (b"",))
            session.run("DELETE FROM campaigns WHERE digest = ?", (b"",))
            session.run("DELETE FROM answers WHERE digest = ?", (b"",))


def execute(way: Callable[[], Any], sql: str, params: Sequence[Any] = ()) -> None:
    """Run one statement in a transaction of its own."""
    with way() as session:
        session.run(sql, params)


def in_thread(act: Callable[[], Any]) -> Any:
    """Do something elsewhere, as another request would."""
    return in_threads([act])[0]


def in_threads(acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Do several things at once; what one of them raises is raised here."""
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
        thread.join(PATIENCE)
    if errors:
        raise errors[0]
    demand(
        not any(thread.is_alive() for thread in threads),
        f"somebody still waits after {PATIENCE:g} seconds: readers and writers block each other",
    )
    return results


def insert_campaign(session: Session, name: str) -> None:
    """Make a row that no service would: without a checksum."""
    session.rows(
        "INSERT INTO campaigns (id, seq, head, budget, reserved, committed, state, digest) "
        "VALUES (?, 0, ?, 1000000, 0, 0, ?, ?) RETURNING number",
        (name, b"", b"", b""),
    )


def begin(store: Store, purpose: str) -> str:
    """Make a row to play with, of a name that nobody has used before."""
    with store.write() as session:
        (count,) = session.rows("SELECT count(*) FROM campaigns")[0]
        name = f"{purpose} {count}"
        insert_campaign(session, name)
    return name


def number_of(store: Store, name: str) -> int:
    """Tell by which number events and offers know a campaign."""
    with store.read() as session:
        return int(session.rows("SELECT number FROM campaigns WHERE id = ?", (name,))[0][0])


def exists(store: Store, name: str) -> bool:
    """Tell whether there is a campaign of this name."""
    with store.read() as session:
        return bool(session.rows("SELECT 1 FROM campaigns WHERE id = ?", (name,)))


def reserved_in(session: Session, name: str) -> int:
    """Read, in a transaction that is open already, the number that the checks play with."""
    return int(session.rows("SELECT reserved FROM campaigns WHERE id = ?", (name,))[0][0])


def reserved(store: Store, name: str) -> int:
    """Read the number that the checks play with."""
    with store.read() as session:
        return reserved_in(session, name)


def set_reserved(store: Store, name: str, value: int) -> None:
    """Write the number that the checks play with."""
    with store.write() as session:
        session.run("UPDATE campaigns SET reserved = ? WHERE id = ?", (value, name))
