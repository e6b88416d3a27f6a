"""PostgreSQL: several server processes, on several machines, on one database."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus

from entice.service.domain.errors import Corrupt, SchemaTooNew, Stale, Unavailable
from entice.service.storage.migrations import migrations
from entice.service.storage.store import Columns, Row, Table, without_password

_MIGRATING = 7_463_829_112
"""The lock that whoever migrates holds; any number that nobody else uses."""
_COLLISIONS = (
    pg.UniqueViolation, pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable,
)  # fmt: skip
_PASSING = (  # InternalError: a server that became a replica, a session that was ended, …
    psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError,
    pg.InsufficientPrivilege,
)  # fmt: skip
_DAMAGE = (pg.DataCorrupted, pg.IndexCorrupted)
_SETTINGS = (
    "SET synchronous_commit = on",  # an answer is given after the commit is on disk, never before
    # A plan made while a table was still empty searches it from end to end, and would be kept.
    "SET plan_cache_mode = force_custom_plan",
    "SET lock_timeout = '10s'",
    "SET statement_timeout = '60s'",
    "SET idle_in_transaction_session_timeout = '60s'",
)


class PostgresSession:
    """A connection to PostgreSQL."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self.connection = connection

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:  # noqa: D102
        return self.connection.execute(_with_percents(sql), params).fetchall()

    def rows_where_in(  # noqa: D102
        self, some: Columns, where: str, params: Sequence[Any], column: str, values: Sequence[Any]
    ) -> list[Row]:
        # Value by value, so that each is found by a unique index. PostgreSQL would search all
        # offers of a new campaign for `= ANY(…)`, as long as it has no statistics of it.
        one = f"{some.select} WHERE {where} AND {column} = wanted.value"
        kind = some.table.columns[column]
        sql = (
            f"SELECT found.* FROM unnest(%b::{kind}[]) AS wanted (value), LATERAL ({one}) AS found"
        )
        return self.rows(sql, (list(dict.fromkeys(values)), *params))

    def by(self, index: str) -> str:  # noqa: D102
        return ""

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:  # noqa: D102
        return self.connection.execute(_with_percents(sql), params).rowcount

    def insert(  # noqa: D102
        self, table: Table, rows: Sequence[Sequence[Any]], otherwise: str = ""
    ) -> None:
        if not rows:
            return
        # One statement, whose arrays are the columns: much quicker than one for each row.
        arrays = ", ".join(f"%b::{kind}[]" for kind in table.columns.values())
        into = f"{table.name} ({', '.join(table.columns)})"
        sql = f"INSERT INTO {into} SELECT * FROM unnest({arrays}) {otherwise}"
        self.connection.execute(sql.encode(), [list(column) for column in zip(*rows, strict=True)])


class PostgresStore:
    """A PostgreSQL database. Whoever changes a campaign locks its row first, then reads."""

    for_update = " FOR UPDATE"
    driver_errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: str) -> None:
        self.url = url
        self._local = threading.local()
        self._open: set[psycopg.Connection[Row]] = set()
        self._lock = threading.Lock()
        try:
            with self._translate_errors():
                self._migrate()
        except BaseException:
            self.close()
            raise

    def _connection(self) -> psycopg.Connection[Row]:
        """The connection of this thread; a new one if there is none, or if it broke."""
        connection: psycopg.Connection[Row] | None = getattr(self._local, "connection", None)
        if (
            connection is not None
            and connection.info.transaction_status == TransactionStatus.INTRANS
        ):
            raise AssertionError("a transaction must not begin inside another one")
        if connection is None or connection.closed or connection.broken:
            connection = psycopg.connect(self.url, autocommit=True, connect_timeout=5)
            for setting in _SETTINGS:
                connection.execute(setting.encode())
            self._local.connection = connection
            with self._lock:
                self._open = {c for c in self._open if not c.closed} | {connection}
        return connection

    def _migrate(self) -> None:
        scripts = migrations("postgres")
        connection = self._connection()
        with connection.transaction():
            session = PostgresSession(connection)
            session.rows("SELECT pg_advisory_xact_lock(?)", (_MIGRATING,))
            there = session.rows("SELECT to_regclass('schema_version') IS NOT NULL")[0][0]
            version = session.rows("SELECT version FROM schema_version")[0][0] if there else 0
            if version > len(scripts):
                raise SchemaTooNew(
                    f"The database has schema version {version}; this Entice knows versions up to "
                    f"{len(scripts)}. Use the Entice that wrote it, or a newer one."
                )
            if version == len(scripts):
                return
            for script in scripts[version:]:
                connection.execute(script.encode())
            session.run("UPDATE schema_version SET version = ?", (len(scripts),))

    @contextmanager
    def read(self) -> Iterator[PostgresSession]:  # noqa: D102
        with self._translate_errors():
            connection = self._connection()
            # Whoever reads holds no locks, and may take the time that verifying takes.
            connection.execute(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
                "SET LOCAL idle_in_transaction_session_timeout = 0"
            )
            try:
                yield PostgresSession(connection)
            finally:
                self._end(connection, "ROLLBACK")

    @contextmanager
    def write(self) -> Iterator[PostgresSession]:  # noqa: D102
        with self._translate_errors():
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                yield PostgresSession(connection)
            except BaseException:
                self._end(connection, "ROLLBACK")
                raise
            self._commit(connection)

    def _commit(self, connection: psycopg.Connection[Row]) -> None:
        try:
            said = connection.execute("COMMIT").statusmessage
        except psycopg.OperationalError as error:
            connection.close()
            raise Unavailable(
                "The connection to the database broke while this was being committed: whether it "
                "was written is not known."
            ) from error
        if said != "COMMIT":  # PostgreSQL rolls back, and says so, where a statement had failed
            raise Unavailable(f"The database did not commit, but answered {said}.")

    def _end(self, connection: psycopg.Connection[Row], how: str) -> None:
        """End a transaction; a connection on which that is not possible is of no use any more."""
        try:
            connection.execute(how.encode())
        except psycopg.Error:
            with suppress(psycopg.Error):
                connection.close()

    def check(self) -> None:  # noqa: D102
        with self.read() as session:
            session.rows("SELECT 1 FROM campaigns LIMIT 1")

    def check_integrity(self) -> None:  # noqa: D102
        self.check()  # PostgreSQL has checksums of its own pages

    def close(self) -> None:  # noqa: D102
        with self._lock:
            for connection in self._open:
                with suppress(psycopg.Error):
                    connection.close()
            self._open.clear()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn PostgreSQL's errors into those of the service."""
        try:
            yield
        except _COLLISIONS as error:
            raise Stale(str(error)) from error
        except _DAMAGE as error:
            raise Corrupt(f"The database is damaged: {error}. Restore a backup.") from error
        except _PASSING as error:
            connection = getattr(self._local, "connection", None)
            if connection is not None:
                with suppress(psycopg.Error):
                    connection.close()
            reason = str(error).strip().replace(self.url, without_password(self.url))
            raise Unavailable(f"The database can't be used just now: {reason}") from error


@lru_cache(maxsize=256)
def _with_percents(sql: str) -> bytes:
    """Placeholders as psycopg has them; none of our SQL has a question mark of its own."""
    return sql.replace("?", "%s").encode()
