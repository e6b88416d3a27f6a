"""PostgreSQL, for several server processes or machines that share one database."""

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

_MIGRATION_LOCK = 7_463_829_112
"""The advisory lock of a migration: an arbitrary number."""
_COLLISIONS = (
    pg.UniqueViolation, pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable,
)  # fmt: skip
_TRANSIENT = (  # InternalError: the server became a replica, the session was terminated, …
    psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError,
    pg.InsufficientPrivilege,
)  # fmt: skip
_DAMAGE = (pg.DataCorrupted, pg.IndexCorrupted)
_SETTINGS = (
    "SET synchronous_commit = on",  # responses are sent only after the commit is on disk
    # A cached plan from the time when a table was empty would scan the whole table.
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
        return self.connection.execute(_with_psycopg_placeholders(sql), params).fetchall()

    def rows_where_in(  # noqa: D102
        self,
        columns: Columns,
        where: str,
        params: Sequence[Any],
        column: str,
        values: Sequence[Any],
    ) -> list[Row]:
        # One lookup per value, so that each uses a unique index. For `= ANY(…)`, PostgreSQL scans
        # all offers of a new campaign as long as it has no statistics about it.
        one = f"{columns.select} WHERE {where} AND {column} = wanted.value"
        kind = columns.table.columns[column]
        sql = (
            f"SELECT found.* FROM unnest(%b::{kind}[]) AS wanted (value), LATERAL ({one}) AS found"
        )
        return self.rows(sql, (list(dict.fromkeys(values)), *params))

    def index_hint(self, index: str) -> str:  # noqa: D102
        return ""

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:  # noqa: D102
        return self.connection.execute(_with_psycopg_placeholders(sql), params).rowcount

    def insert(  # noqa: D102
        self, table: Table, rows: Sequence[Sequence[Any]], on_conflict: str = ""
    ) -> None:
        if not rows:
            return
        # One statement with an array per column is much faster than one statement per row.
        arrays = ", ".join(f"%b::{kind}[]" for kind in table.columns.values())
        into = f"{table.name} ({', '.join(table.columns)})"
        sql = f"INSERT INTO {into} SELECT * FROM unnest({arrays}) {on_conflict}"
        self.connection.execute(sql.encode(), [list(column) for column in zip(*rows, strict=True)])


class PostgresStore:
    """A PostgreSQL database. A transaction locks a campaign's row before it reads the campaign."""

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
        """Return the connection of this thread; connect if there is none or it is broken."""
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
            session.rows("SELECT pg_advisory_xact_lock(?)", (_MIGRATION_LOCK,))
            there = session.rows("SELECT to_regclass('schema_version') IS NOT NULL")[0][0]
            version = session.rows("SELECT version FROM schema_version")[0][0] if there else 0
            if version > len(scripts):
                raise SchemaTooNew(
                    f"The database has schema version {version}; this version of Entice supports "
                    f"versions up to {len(scripts)}. Upgrade Entice."
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
            # No idle timeout: readers hold no locks, and a verification may take long.
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
            status = connection.execute("COMMIT").statusmessage
        except psycopg.OperationalError as error:
            connection.close()
            raise Unavailable(
                "The connection to the database broke during the commit: whether the change was "
                "written is not known. Retry with the same Idempotency-Key."
            ) from error
        if status != "COMMIT":  # PostgreSQL reports ROLLBACK if a statement had failed
            raise Unavailable(f"The database did not commit: it returned {status}.")

    def _end(self, connection: psycopg.Connection[Row], statement: str) -> None:
        """End a transaction; close the connection if that fails."""
        try:
            connection.execute(statement.encode())
        except psycopg.Error:
            with suppress(psycopg.Error):
                connection.close()

    def check(self) -> None:  # noqa: D102
        with self.read() as session:
            session.rows("SELECT 1 FROM campaigns LIMIT 1")

    def check_integrity(self) -> None:  # noqa: D102
        self.check()  # PostgreSQL has its own page checksums

    def close(self) -> None:  # noqa: D102
        with self._lock:
            for connection in self._open:
                with suppress(psycopg.Error):
                    connection.close()
            self._open.clear()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate PostgreSQL's errors into those of the service."""
        try:
            yield
        except _COLLISIONS as error:
            raise Stale(str(error)) from error
        except _DAMAGE as error:
            raise Corrupt(f"The database is damaged: {error}. Restore a backup.") from error
        except _TRANSIENT as error:
            connection = getattr(self._local, "connection", None)
            if connection is not None:
                with suppress(psycopg.Error):
                    connection.close()
            reason = str(error).strip().replace(self.url, without_password(self.url))
            raise Unavailable(f"The database cannot be used at the moment: {reason}") from error


@lru_cache(maxsize=256)
def _with_psycopg_placeholders(sql: str) -> bytes:
    """Replace `?` by psycopg's placeholder. The SQL of the service has no other question marks."""
    return sql.replace("?", "%s").encode()
