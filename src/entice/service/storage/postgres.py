"""PostgreSQL, for several server processes or machines that share one database."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo, TransactionStatus

from entice.errors import InputError
from entice.service.domain.errors import Corrupt, SchemaTooNew, Stale, Unavailable
from entice.service.storage.migrations import migrations
from entice.service.storage.store import Columns, Row, Table, without_password

SILENT_AFTER = 1.0
"""Seconds without an answer after which a new connection tests whether the server still answers."""
PAUSE = 0.5
"""Seconds after a test without an answer for which all requests fail at once."""
_CONNECTION = {
    "connect_timeout": "2",  # for each address; libpq allows no less
    # The kernel notices a lost peer. A peer that is silent at a higher level is noticed by `wait`.
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "tcp_user_timeout": "5000",
}
"""Defaults for the parameters of a URL."""

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
    # The writer tries 5 times: 4.5 s in all.
    "SET lock_timeout = '900ms'",
    "SET statement_timeout = '60s'",
    # The server must release the locks of a client that it cannot reach any more.
    "SET idle_in_transaction_session_timeout = '30s'",
    "SET tcp_keepalives_idle = 5",
    "SET tcp_keepalives_interval = 2",
    "SET tcp_keepalives_count = 2",
    "SET tcp_user_timeout = 5000",
)


class _Connection(psycopg.Connection[Row]):
    """A connection that fails if the server has become silent, instead of waiting for ever.

    A network or a proxy may keep a connection open and forward nothing. A slow statement looks the
    same, so the server counts as silent only if it does not answer a new connection either.
    """

    is_silent: Callable[[], bool]

    def wait(self, gen: Any, *_: Any, **__: Any) -> Any:
        """Wait until a generator of psycopg has what it waits for."""
        poll = select.poll()
        try:
            wanted = next(gen)
            while True:
                poll.register(self.pgconn.socket, _EVENTS[wanted])
                if ready := poll.poll(1000 * SILENT_AFTER):
                    wanted = gen.send(_ready(ready[0][1]))
                elif self.is_silent():
                    self.pgconn.finish()  # does not wait for the server, unlike a cancellation
                    raise psycopg.OperationalError("the server does not answer")
        except StopIteration as done:
            return done.value


_EVENTS = {1: select.POLLIN, 2: select.POLLOUT, 3: select.POLLIN | select.POLLOUT}
"""What to poll for, by psycopg's `Wait`."""


def _ready(event: int) -> int:
    """Return psycopg's `Ready`. An error counts as ready, so that libpq reads it."""
    error = bool(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL))
    readable, writable = event & select.POLLIN, event & select.POLLOUT
    return 1 * bool(readable or error) | 2 * bool(writable or error)


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

    def contains(self, column: str) -> str:  # noqa: D102
        return f"position(? in {column}) > 0"

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
        self._parameters: dict[str, Any] = {**_CONNECTION, **_parameters(url)}
        self._silent_until = 0.0
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
            connection = self._connect()
            for setting in _SETTINGS:
                connection.execute(setting.encode())
            self._local.connection = connection
            with self._lock:
                self._open = {c for c in self._open if not c.closed} | {connection}
        return connection

    def _connect(self) -> psycopg.Connection[Row]:
        if time.monotonic() < self._silent_until:
            raise psycopg.OperationalError("the server did not answer a moment ago")
        try:
            connection = _Connection.connect(autocommit=True, **self._parameters)
        except pg.ConnectionTimeout:
            self._silent_until = time.monotonic() + PAUSE
            raise
        connection.is_silent = self._is_silent
        return connection

    def _is_silent(self) -> bool:
        """Return whether the server does not answer a new connection."""
        try:
            self._connect().close()
        except pg.ConnectionTimeout:
            return True
        except psycopg.OperationalError:  # an answer, unless the test has just been made
            return time.monotonic() < self._silent_until
        return False

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

    def set_shared(self, shared: bool) -> None:
        """Do nothing: PostgreSQL writes its checkpoints in another process."""

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
            reason = str(error).strip()
            raise Unavailable(f"The database cannot be used at the moment: {reason}") from error


def _parameters(url: str) -> dict[str, Any]:
    """Return the parameters in a URL; raise `InputError`, without its password, if it is malformed.

    An unencoded @, : or / in a password makes parts of it the host or the port, which libpq would
    print. So neither the URL nor libpq's message is shown.
    """
    shown = without_password(url)
    try:
        found = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        found = {"host": "@"}
        known = [option.keyword.decode() for option in Conninfo.get_defaults()]
        for name in (part.partition("=")[0] for part in url.partition("?")[2].split("&")):
            if name not in known and (meant := get_close_matches(name.lower(), known, 1, 0.8)):
                raise InputError(
                    "the database",
                    "must be a URL with parameters that PostgreSQL has, in lower case",
                    given=shown,
                    todo=f"Did you mean {meant[0]}?",
                ) from None
    host, ports = str(found.get("host") or ""), str(found.get("port") or "")
    if "@" in host or not all(port.isdigit() for port in ports.split(",") if port):
        raise InputError(
            "the database",
            "must be a URL such as postgresql://user:password@host:5432/name",
            given=shown,
            todo="Percent-encode special characters of the password, such as %40 for @, %3A for :, "
            "%2F for /, %23 for # and %25 for %.",
        )
    return found


@lru_cache(maxsize=256)
def _with_psycopg_placeholders(sql: str) -> bytes:
    """Replace `?` by psycopg's placeholder. The SQL of the service has no other question marks."""
    return sql.replace("?", "%s").encode()
