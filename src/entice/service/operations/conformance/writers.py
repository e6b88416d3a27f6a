"""Writers among themselves: nobody is overlooked, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from entice.service.domain.errors import Stale
from entice.service.operations.conformance.common import (
    PATIENCE,
    NotConforming,
    Open,
    begin,
    demand,
    in_threads,
    opened,
    reserved,
)
from entice.service.storage.store import ANSWERS, Session, Store


def no_update_is_lost(open_store: Open) -> None:
    """Two that add to one number at once both count, from threads and from processes."""
    times = 25
    with opened(open_store) as (store, other):
        name = begin(store, "writers")

        def add(writer: Store) -> None:
            for _ in range(times):
                _again_if_stale(partial(_add_one, writer, name))

        writers = [store, other, store, other]
        in_threads([partial(add, writer) for writer in writers])
        found, expected = reserved(store, name), times * len(writers)
        demand(
            found == expected,
            f"{expected} writers added 1 each, and {found} was the sum: "
            "a budget would be spent twice",
        )


def a_conditional_update_reports_its_rows(open_store: Open) -> None:
    """An UPDATE with a condition says whether it was met: the last line of the budget's defence."""
    with opened(open_store) as (store, _):
        name = begin(store, "condition")
        for seq, changed in ((0, 1), (0, 0), (1, 1), (7, 0)):
            with store.write() as session:
                found = session.run(
                    "UPDATE campaigns SET seq = seq + 1 WHERE id = ? AND seq = ?", (name, seq)
                )
            demand(found == changed, f"run() must return {changed} rows changed, not {found!r}")


def writers_that_lock_in_different_order_both_finish(open_store: Open) -> None:
    """Nobody waits for ever: one of two that block each other is told to begin again."""
    with opened(open_store) as (store, other):
        names = [begin(store, "first"), begin(store, "second")]
        ready = threading.Barrier(2)

        def add_to(writer: Store, order: Sequence[str]) -> None:
            def both() -> None:
                with writer.write() as session:
                    for name in order:
                        _lock(writer, session, name)
                        session.run(
                            "UPDATE campaigns SET reserved = reserved + 1 WHERE id = ?", (name,)
                        )

            ready.wait(PATIENCE)
            for _ in range(2):
                _again_if_stale(both)

        in_threads([partial(add_to, store, names), partial(add_to, other, names[::-1])])
        found = [reserved(store, name) for name in names]
        demand(found == [4, 4], f"each of two numbers was raised 4 times, and they are {found}")


def a_duplicate_key_is_rejected(open_store: Open) -> None:
    """Of two who bring the same key at the same time one is told, and leaves no trace."""
    with opened(open_store) as (store, other):
        name = begin(store, "once")
        answer = ("scope", name, b"1", 201, b"first", 0, b"")
        begun, outcome = threading.Event(), list[Exception]()
        refusals: tuple[type[Exception], ...] = (Stale, *other.driver_errors)

        def bring_again() -> None:
            begun.wait(PATIENCE)
            try:
                with other.write() as session:
                    session.run("UPDATE campaigns SET reserved = 8 WHERE id = ?", (name,))
                    session.insert(ANSWERS, [("scope", name, b"2", 201, b"second", 0, b"")])
            except refusals as error:
                outcome.append(error)

        thread = threading.Thread(target=bring_again, daemon=True)
        thread.start()
        with store.write() as session:
            session.insert(ANSWERS, [answer])
            begun.set()
        thread.join(PATIENCE)
        demand(not thread.is_alive(), "a second writer of the same key waits for ever")
        demand(
            len(outcome) == 1,
            "the same key was written twice, or refused by an error that is neither Stale nor one "
            "of the store's `driver_errors`",
        )
        with store.read() as session:
            rows = session.rows("SELECT body FROM answers WHERE key = ?", (name,))
        demand(rows == [(b"first",)], f"under a key that came twice is kept {rows!r}")
        demand(reserved(store, name) == 0, "a writer that was refused has left something behind")


def _again_if_stale(act: Callable[[], Any]) -> Any:
    """Do what the desk does when another was faster."""
    for _ in range(200):
        try:
            return act()
        except Stale:
            continue
    raise NotConforming("a writer was told 200 times that another was faster")


def _lock(store: Store, session: Session, name: str) -> int:
    """Read a row that nobody else may change before we do."""
    sql = f"SELECT reserved FROM campaigns WHERE id = ?{store.for_update}"
    return int(session.rows(sql, (name,))[0][0])


def _add_one(store: Store, name: str) -> None:
    with store.write() as session:
        value = _lock(store, session, name)
        session.run("UPDATE campaigns SET reserved = ? WHERE id = ?", (value + 1, name))
