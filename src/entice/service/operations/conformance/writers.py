"""Checks: concurrent writers lose no updates and do not deadlock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from entice.service.domain.errors import Stale
from entice.service.operations.conformance.common import (
    TIMEOUT,
    NotConforming,
    Open,
    in_threads,
    new_campaign,
    opened,
    require,
    reserved,
)
from entice.service.storage.store import ANSWERS, Session, Store


def no_update_is_lost(open_store: Open) -> None:
    """Concurrent increments, from threads and connections, all count."""
    times = 25
    with opened(open_store) as (store, other):
        name = new_campaign(store, "writers")

        def add(writer: Store) -> None:
            for _ in range(times):
                _retry_if_stale(partial(_add_one, writer, name))

        writers = [store, other, store, other]
        in_threads([partial(add, writer) for writer in writers])
        found, expected = reserved(store, name), times * len(writers)
        require(
            found == expected,
            f"{expected} concurrent increments gave {found}: a budget would be spent twice",
        )


def a_conditional_update_reports_its_rows(open_store: Open) -> None:
    """A conditional UPDATE returns the number of changed rows, which protects the budget."""
    with opened(open_store) as (store, _):
        name = new_campaign(store, "condition")
        for seq, changed in ((0, 1), (0, 0), (1, 1), (7, 0)):
            with store.write() as session:
                found = session.run(
                    "UPDATE campaigns SET seq = seq + 1 WHERE id = ? AND seq = ?", (name, seq)
                )
            require(
                found == changed, f"run() must return {changed} changed rows; it returned {found!r}"
            )


def writers_that_lock_in_different_order_both_finish(open_store: Open) -> None:
    """Of two writers in a deadlock, one gets `Stale` and can retry."""
    with opened(open_store) as (store, other):
        names = [new_campaign(store, "first"), new_campaign(store, "second")]
        ready = threading.Barrier(2)

        def add_to(writer: Store, order: Sequence[str]) -> None:
            def both() -> None:
                with writer.write() as session:
                    for name in order:
                        _lock(writer, session, name)
                        session.run(
                            "UPDATE campaigns SET reserved = reserved + 1 WHERE id = ?", (name,)
                        )

            ready.wait(TIMEOUT)
            for _ in range(2):
                _retry_if_stale(both)

        in_threads([partial(add_to, store, names), partial(add_to, other, names[::-1])])
        found = [reserved(store, name) for name in names]
        require(
            found == [4, 4], f"each of two numbers was incremented 4 times, but they are {found}"
        )


def a_duplicate_key_is_rejected(open_store: Open) -> None:
    """Of two transactions that insert the same key, one fails and is rolled back."""
    with opened(open_store) as (store, other):
        name = new_campaign(store, "once")
        response = ("scope", name, b"1", 201, b"first", 0, b"")
        started, outcome = threading.Event(), list[Exception]()
        expected_errors: tuple[type[Exception], ...] = (Stale, *other.driver_errors)

        def insert_again() -> None:
            started.wait(TIMEOUT)
            try:
                with other.write() as session:
                    session.run("UPDATE campaigns SET reserved = 8 WHERE id = ?", (name,))
                    session.insert(ANSWERS, [("scope", name, b"2", 201, b"second", 0, b"")])
            except expected_errors as error:
                outcome.append(error)

        thread = threading.Thread(target=insert_again, daemon=True)
        thread.start()
        with store.write() as session:
            session.insert(ANSWERS, [response])
            started.set()
        thread.join(TIMEOUT)
        require(not thread.is_alive(), "a second writer of the same key is blocked")
        require(
            len(outcome) == 1,
            "the same key was inserted twice, or rejected by an error that is neither Stale nor "
            "one of the store's `driver_errors`",
        )
        with store.read() as session:
            rows = session.rows("SELECT body FROM answers WHERE key = ?", (name,))
        require(rows == [(b"first",)], f"a key that was inserted twice has the rows {rows!r}")
        require(reserved(store, name) == 0, "a rejected transaction left a change behind")


def _retry_if_stale(act: Callable[[], Any]) -> Any:
    """Retry a transaction on `Stale`, as the writer does."""
    for _ in range(200):
        try:
            return act()
        except Stale:
            continue
    raise NotConforming("a transaction failed with Stale 200 times in a row")


def _lock(store: Store, session: Session, name: str) -> int:
    """Lock a campaign's row, and return its reserved amount."""
    sql = f"SELECT reserved FROM campaigns WHERE id = ?{store.for_update}"
    return int(session.rows(sql, (name,))[0][0])


def _add_one(store: Store, name: str) -> None:
    with store.write() as session:
        value = _lock(store, session, name)
        session.run("UPDATE campaigns SET reserved = ? WHERE id = ?", (value + 1, name))
