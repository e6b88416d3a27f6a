"""One transaction: what is written is kept or leaves no trace, what is read is one moment."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial

from entice.service.domain.errors import Refusal
from entice.service.operations.conformance.common import (
    PATIENCE,
    NotConforming,
    Open,
    begin,
    demand,
    execute,
    exists,
    in_thread,
    in_threads,
    insert_campaign,
    must_fail,
    opened,
    reserved,
    reserved_in,
    set_reserved,
)

# What is written


def a_write_is_durable(open_store: Open) -> None:
    """What was written is there for everyone, and after everyone has left."""
    with closing(open_store()) as one, closing(open_store()) as other:
        name = begin(one, "kept")
        with one.write() as session:
            changed = session.run("UPDATE campaigns SET reserved = 7 WHERE id = ?", (name,))
        demand(changed == 1, f"run() changed one row, but returned {changed!r}")
        demand(reserved(other, name) == 7, "another connection does not see what was committed")
    with opened(open_store) as (again, _):
        demand(reserved(again, name) == 7, "what was committed is gone after reopening")


def a_write_is_atomic(open_store: Open) -> None:
    """A write that fails halfway leaves no trace, whatever it fails of."""
    with opened(open_store) as (store, other):
        name = begin(store, "all or nothing")
        for failure in (ValueError("on purpose"), KeyboardInterrupt(), Refusal(409, "", "", "")):
            try:
                with store.write() as session:
                    session.run("UPDATE campaigns SET reserved = 9 WHERE id = ?", (name,))
                    insert_campaign(session, f"{name}, too")
                    raise failure
            except BaseException as error:
                if error is not failure:
                    raise NotConforming(
                        f"write() must pass on what is raised inside it, {failure!r}; "
                        f"it raised {error!r}"
                    ) from error
            for reader in (store, other):
                demand(
                    reserved(reader, name) == 0 and not exists(reader, f"{name}, too"),
                    f"a write that ended with {failure!r} was kept all the same, or in part",
                )


def a_failed_statement_is_not_ignored(open_store: Open) -> None:
    """Where a statement fails and the caller goes on, the write is kept or refused, not lost."""
    with opened(open_store) as (store, _):
        name = begin(store, "failed statement")
        told = False
        try:
            with store.write() as session:
                session.run("UPDATE campaigns SET reserved = 3 WHERE id = ?", (name,))
                try:
                    session.run("UPDATE campaigns SET reserved = -1 WHERE id = ?", (name,))
                except Exception:
                    pass
                else:
                    raise NotConforming("a negative amount was taken: a CHECK is missing")
        except NotConforming:
            raise
        except Exception:
            told = True
        kept = reserved(store, name)
        demand(
            kept == (0 if told else 3),
            "a write in which one statement failed ended without an error, but was not kept: "
            "the caller takes it for committed",
        )


def a_store_works_after_an_error(open_store: Open) -> None:
    """One bad statement, and the next transaction is as good as ever."""
    with opened(open_store) as (store, _):
        name = begin(store, "goes on")
        for way in (store.read, store.write):
            for _ in range(3):
                nonsense = partial(execute, way, "SELECT nothing FROM nowhere")
                must_fail(nonsense, "a statement without meaning was carried out")
        with store.write() as session:
            session.run("UPDATE campaigns SET reserved = 1 WHERE id = ?", (name,))
        demand(reserved(store, name) == 1, "after an error nothing can be written any more")
        store.check()
        store.check_integrity()


# What is read


def a_read_is_a_snapshot(open_store: Open) -> None:
    """A read sees one moment, however long it takes and whatever is written meanwhile."""
    with opened(open_store) as (store, other):
        name = begin(store, "snapshot")
        with store.read() as session:
            before = reserved_in(session, name)
            for writer in (store, other):
                in_thread(partial(set_reserved, writer, name, 5))
                demand(
                    reserved_in(session, name) == before,
                    "a read sees what was written after it began: `verify` would find faults "
                    "where there are none",
                )
        demand(reserved(store, name) == 5, "a new read does not see what was written before it")


def a_read_cannot_write(open_store: Open) -> None:
    """A read can't write."""
    with opened(open_store) as (store, _):
        name = begin(store, "read only")
        sql = "UPDATE campaigns SET reserved = 1 WHERE id = ?"
        must_fail(partial(execute, store.read, sql, (name,)), "a read has changed a row")
        demand(reserved(store, name) == 0, "a read has changed a row")


def readers_and_writers_do_not_block_each_other(open_store: Open) -> None:
    """Pages are served while offers are made, and a long export holds up nobody."""
    with opened(open_store) as (store, other):
        name = begin(store, "no waiting")
        with store.write() as session:
            session.run("UPDATE campaigns SET reserved = 4 WHERE id = ?", (name,))
            for reader in (store, other):
                seen = in_thread(partial(reserved, reader, name))
                demand(seen == 0, "a read sees what is not committed yet")
        with store.read() as session:
            reserved_in(session, name)
            in_thread(partial(set_reserved, other, name, 6))
        demand(reserved(store, name) == 6, "a write beside a read was lost")


def threads_read_concurrently(open_store: Open) -> None:
    """Each thread has a read of its own."""
    with opened(open_store) as (store, _):
        name = begin(store, "many readers")
        together = threading.Barrier(8)

        def look() -> int:
            with store.read() as session:
                together.wait(PATIENCE)  # all are inside a read
                return reserved_in(session, name)

        demand(
            in_threads([look] * 8) == [0] * 8, "reads of several threads get in each other's way"
        )
