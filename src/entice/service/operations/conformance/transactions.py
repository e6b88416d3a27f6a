"""Checks: transactions are atomic and durable, and reads see one snapshot."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial

from entice.service.domain.errors import Refusal
from entice.service.operations.conformance.common import (
    TIMEOUT,
    NotConforming,
    Open,
    execute,
    exists,
    in_thread,
    in_threads,
    insert_campaign,
    must_fail,
    new_campaign,
    opened,
    require,
    reserved,
    reserved_in,
    set_reserved,
)

# Writes


def a_write_is_durable(open_store: Open) -> None:
    """A committed write is visible to other connections, and after all are closed."""
    with closing(open_store()) as one, closing(open_store()) as other:
        name = new_campaign(one, "kept")
        with one.write() as session:
            changed = session.run("UPDATE campaigns SET reserved = 7 WHERE id = ?", (name,))
        require(changed == 1, f"run() changed one row but returned {changed!r}")
        require(reserved(other, name) == 7, "another connection does not see a committed write")
    with opened(open_store) as (again, _):
        require(reserved(again, name) == 7, "a committed write is lost after reopening")


def a_write_is_atomic(open_store: Open) -> None:
    """A write that raises an exception of any kind is rolled back completely."""
    with opened(open_store) as (store, other):
        name = new_campaign(store, "all or nothing")
        for failure in (ValueError("on purpose"), KeyboardInterrupt(), Refusal(409, "", "", "")):
            try:
                with store.write() as session:
                    session.run("UPDATE campaigns SET reserved = 9 WHERE id = ?", (name,))
                    insert_campaign(session, f"{name}, too")
                    raise failure
            except BaseException as error:
                if error is not failure:
                    raise NotConforming(
                        f"write() must reraise the exception raised inside it, {failure!r}; "
                        f"it raised {error!r}"
                    ) from error
            for reader in (store, other):
                require(
                    reserved(reader, name) == 0 and not exists(reader, f"{name}, too"),
                    f"a write that ended with {failure!r} was committed, or partly committed",
                )


def a_failed_statement_is_not_ignored(open_store: Open) -> None:
    """If the error of a statement is caught, the transaction either commits or raises an error."""
    with opened(open_store) as (store, _):
        name = new_campaign(store, "failed statement")
        raised = False
        try:
            with store.write() as session:
                session.run("UPDATE campaigns SET reserved = 3 WHERE id = ?", (name,))
                try:
                    session.run("UPDATE campaigns SET reserved = -1 WHERE id = ?", (name,))
                except Exception:
                    pass
                else:
                    raise NotConforming("a negative amount was accepted: a CHECK is missing")
        except NotConforming:
            raise
        except Exception:
            raised = True
        found = reserved(store, name)
        require(
            found == (0 if raised else 3),
            "a transaction in which one statement failed ended without an error but was not "
            "committed: the caller believes that it was",
        )


def a_store_works_after_an_error(open_store: Open) -> None:
    """After a failed statement, the next transactions work."""
    with opened(open_store) as (store, _):
        name = new_campaign(store, "after an error")
        for transaction in (store.read, store.write):
            for _ in range(3):
                nonsense = partial(execute, transaction, "SELECT nothing FROM nowhere")
                must_fail(nonsense, "an invalid statement was executed")
        with store.write() as session:
            session.run("UPDATE campaigns SET reserved = 1 WHERE id = ?", (name,))
        require(reserved(store, name) == 1, "after an error, writes no longer work")
        store.check()
        store.check_integrity()


# Reads


def a_read_is_a_snapshot(open_store: Open) -> None:
    """A read sees one snapshot, even if other connections write in the meantime."""
    with opened(open_store) as (store, other):
        name = new_campaign(store, "snapshot")
        with store.read() as session:
            before = reserved_in(session, name)
            for writer in (store, other):
                in_thread(partial(set_reserved, writer, name, 5))
                require(
                    reserved_in(session, name) == before,
                    "a read sees writes committed after it began: `verify` would report mismatches "
                    "that do not exist",
                )
        require(reserved(store, name) == 5, "a new read does not see an earlier write")


def a_read_cannot_write(open_store: Open) -> None:
    """A read transaction rejects writes."""
    with opened(open_store) as (store, _):
        name = new_campaign(store, "read only")
        sql = "UPDATE campaigns SET reserved = 1 WHERE id = ?"
        must_fail(partial(execute, store.read, sql, (name,)), "a read transaction changed a row")
        require(reserved(store, name) == 0, "a read transaction changed a row")


def readers_and_writers_do_not_block_each_other(open_store: Open) -> None:
    """A read does not wait for an open write, nor a write for an open read."""
    with opened(open_store) as (store, other):
        name = new_campaign(store, "no blocking")
        with store.write() as session:
            session.run("UPDATE campaigns SET reserved = 4 WHERE id = ?", (name,))
            for reader in (store, other):
                seen = in_thread(partial(reserved, reader, name))
                require(seen == 0, "a read sees an uncommitted write")
        with store.read() as session:
            reserved_in(session, name)
            in_thread(partial(set_reserved, other, name, 6))
        require(reserved(store, name) == 6, "a write during a read was lost")


def threads_read_concurrently(open_store: Open) -> None:
    """Several threads can have a read transaction at the same time."""
    with opened(open_store) as (store, _):
        name = new_campaign(store, "many readers")
        barrier = threading.Barrier(8)

        def read() -> int:
            with store.read() as session:
                barrier.wait(TIMEOUT)  # all threads have a read transaction
                return reserved_in(session, name)

        require(in_threads([read] * 8) == [0] * 8, "reads in several threads disturb each other")
