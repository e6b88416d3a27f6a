"""SQLite, the default database: one file, no set-up, one writer at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from entice.errors import InputError
from entice.service.domain.errors import Corrupt, SchemaTooNew, Unavailable
from entice.service.storage.migrations import migrations
from entice.service.storage.store import Columns, Row, Table

Connect = Callable[[str], Any]
"""Opens a file; returns an object like a `sqlite3.Connection` in autocommit mode."""

MAX_LOG = 32 * 2**20
"""Bytes to which the write-ahead log is cut when it starts again. If it is larger, readers kept it
from starting again: the writer then waits for them, but not longer than `_RESTART_TIMEOUT`."""
CHECKPOINT_PAGES, CHECKPOINT_PAGES_SHARED = 4000, 500
"""Number of pages in the write-ahead log after which a commit copies them to the database, if one
campaign writes, and if several do. The other campaigns wait for it: 16 ms of CPU time for 4,000."""
_RESTART_TIMEOUT, _RESTART_EVERY = 0.02, 1.0
"""Seconds."""
_MAX_VALUES = 1024
_TIMEOUT = 10
"""Seconds for which a connection waits for a lock."""
# The SQL of the service is valid, so SQLITE_ERROR, or an error without a code (such as invalid
# text), means that the tables were altered.
_DAMAGE = {None, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def connect(path: str) -> sqlite3.Connection:
    """Open a file in autocommit mode, without implicit transactions.

    A new file is readable only by its owner; SQLite gives its -wal and -shm the same permissions.
    """
    if not Path(path).exists():
        with contextlib.suppress(OSError):  # SQLite reports why it cannot open the file
            _create_private(Path(path))
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_TIMEOUT)


def _create_private(path: Path) -> None:
    """Create an empty file that only its owner can read, unless another process was first.

    No descriptor of the file itself may be closed: that would drop the locks of all connections of
    this process.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    os.close(handle)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()


class SqliteSession:
    """A connection to SQLite."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:  # noqa: D102
        rows: list[Row] = self.connection.execute(sql, params).fetchall()
        return rows

    def rows_where_in(  # noqa: D102
        self,
        columns: Columns,
        where: str,
        params: Sequence[Any],
        column: str,
        values: Sequence[Any],
    ) -> list[Row]:
        rows: list[Row] = []
        hint = self.index_hint(columns.use_index) if columns.use_index else ""
        for first in range(0, len(values), _MAX_VALUES):
            part = list(values[first : first + _MAX_VALUES])
            # Padded to a power of two, so that few distinct statements are prepared and cached.
            length = 1 << (len(part) - 1).bit_length()
            part += [part[-1]] * (length - len(part))
            marks = ", ".join("?" * length)
            sql = f"{columns.select}{hint} WHERE {where} AND {column} IN ({marks})"
            rows += self.rows(sql, (*params, *part))
        return rows

    def index_hint(self, index: str) -> str:  # noqa: D102
        return f" INDEXED BY {index}"

    def contains(self, column: str) -> str:  # noqa: D102
        return f"instr({column}, ?) > 0"

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:  # noqa: D102
        return int(self.connection.execute(sql, params).rowcount)

    def insert(  # noqa: D102
        self, table: Table, rows: Sequence[Sequence[Any]], on_conflict: str = ""
    ) -> None:
        self.connection.executemany(
            _insert_statement(table.name, tuple(table.columns), on_conflict), rows
        )


def _enable_wal(connection: Any) -> None:
    """Switch to a write-ahead log, retrying while another connection does so.

    SQLite's own time-out does not cover this switch when several processes open a new file.
    """
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class SqliteStore:
    """A SQLite file in WAL mode, synced at each commit.

    Several threads and processes may use it; SQLite lets one of them write at a time. The service
    has a single writer thread, which commits many commands at once.
    """

    for_update = ""
    driver_errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: Path, connect: Connect = connect) -> None:
        if not path.parent.is_dir():
            rule = "must be in an existing folder"
            raise InputError("the database", rule, given=str(path))
        self.path = path
        self.url = f"sqlite:///{path}"
        self._wal = path.with_name(path.name + "-wal")
        self._next_restart = 0.0
        self._connect = connect
        self._readers = threading.local()
        self._open: list[Any] = []
        self._lock, self._opening = threading.Lock(), threading.Lock()
        try:
            with _translate_errors(path):
                self._writer = SqliteSession(self._new_connection())
                self._migrate()
        except BaseException:
            self.close()
            raise

    def _new_connection(self) -> Any:
        connection = self._connect(str(self.path))
        with self._opening:
            self._open.append(connection)
        _enable_wal(connection)
        connection.execute("PRAGMA synchronous = FULL").fetchall()
        connection.execute("PRAGMA foreign_keys = ON").fetchall()
        # Deleted salts are overwritten, so that they cannot be read from the file.
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        # Index pages are accessed at random: cache more of them, and checkpoint less often.
        connection.execute("PRAGMA cache_size = -8000").fetchall()
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}").fetchall()
        connection.execute(f"PRAGMA journal_size_limit = {MAX_LOG}").fetchall()
        connection.execute("PRAGMA cell_size_check = ON").fetchall()
        connection.execute("PRAGMA trusted_schema = OFF").fetchall()
        return connection

    def _migrate(self) -> None:
        scripts = migrations("sqlite")
        session = self._writer
        if self._version() == len(scripts):
            return
        session.run("BEGIN IMMEDIATE")
        try:
            version = self._version()  # another process may have migrated first
            if version > len(scripts):
                raise SchemaTooNew(
                    f"{self.path} has schema version {version}; this version of Entice supports "
                    f"versions up to {len(scripts)}. Upgrade Entice."
                )
            if version < 0:
                raise Corrupt(f"{self.path} is damaged: its schema version is {version}.")
            if version == 0 and session.rows("SELECT 1 FROM sqlite_schema LIMIT 1"):
                raise Corrupt(f"{self.path} is a SQLite database, but not one of Entice.")
            for script in scripts[version:]:
                for statement in _statements(script):
                    session.run(statement)
            session.run(f"PRAGMA user_version = {len(scripts)}")
            session.run("COMMIT")
        except BaseException:
            _roll_back(session)
            raise

    def _version(self) -> int:
        return int(self._writer.rows("PRAGMA user_version")[0][0])

    def check_integrity(self) -> None:
        """Raise `Corrupt` if the file or its schema is damaged, such as rows lost from an index.

        Values that a CHECK excludes are not reported: they damage one row, which its own checksum
        reveals when it is read, and `verify` names it.
        """
        with _translate_errors(self.path):
            rows = self._writer.rows("PRAGMA integrity_check")
            found = [str(row[0]) for row in rows if not str(row[0]).startswith("CHECK ")]
            if self._writer.rows(_SCHEMA) != _expected_schema():
                found = ["its schema was altered"]
        if found not in ([], ["ok"]):
            raise Corrupt(f"{self.path} is damaged: {'; '.join(found[:3])}. Restore a backup.")

    @contextmanager
    def read(self) -> Iterator[SqliteSession]:  # noqa: D102
        with _translate_errors(self.path):
            session: SqliteSession | None = getattr(self._readers, "session", None)
            if session is None:
                session = SqliteSession(self._new_connection())
                session.rows("PRAGMA query_only = ON")
                self._readers.session = session
            session.run("BEGIN")
            try:
                yield session
            finally:
                _roll_back(session)

    @contextmanager
    def write(self) -> Iterator[SqliteSession]:  # noqa: D102
        session = self._writer
        with self._lock, _translate_errors(self.path):
            _roll_back(session)  # in case the previous rollback failed
            session.run("BEGIN IMMEDIATE")
            try:
                yield session
                session.run("COMMIT")
            except BaseException:
                _roll_back(session)
                raise
            self._bound_log()

    def _bound_log(self) -> None:
        """Try to let the write-ahead log start again, if it is large.

        SQLite does so by itself at a commit during which nobody reads. With many short reads, there
        may be none: a verification of 150,000 events made the log grow to 413 MB.
        """
        now = time.monotonic()
        if now < self._next_restart:
            return
        self._next_restart = now + _RESTART_EVERY
        with contextlib.suppress(OSError, sqlite3.Error):  # the commit has succeeded
            if self._wal.stat().st_size > MAX_LOG:
                connection = self._writer.connection
                try:
                    connection.execute(f"PRAGMA busy_timeout = {1000 * _RESTART_TIMEOUT:.0f}")
                    connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
                finally:
                    connection.execute(f"PRAGMA busy_timeout = {1000 * _TIMEOUT}")

    def set_shared(self, shared: bool) -> None:
        """Copy the write-ahead log to the database in smaller pieces while it is shared."""
        pages = CHECKPOINT_PAGES_SHARED if shared else CHECKPOINT_PAGES
        with self._lock, contextlib.suppress(sqlite3.Error):  # a write reports it
            self._writer.rows(f"PRAGMA wal_autocheckpoint = {pages}")

    def check(self) -> None:  # noqa: D102
        with self.read() as session:
            session.rows("SELECT 1 FROM campaigns LIMIT 1")

    def backup(self, path: Path) -> None:
        """Copy the database to a new file, even while it is in use, and check the copy."""
        if leftover := leftovers(path):
            raise InputError(
                "the output file",
                f"must not have a file {leftover[0].name} beside it, which SQLite would apply to "
                "the copy",
                given=str(path),
                todo=f"Choose another name, or delete {leftover[0]} if it belongs to no database.",
            )
        # A folder of its own: no file of an interrupted backup can be beside the copy.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".backup-") as folder:
            partial = Path(folder) / "copy.db"
            with _translate_errors(self.path):
                source, target = self._connect(str(self.path)), self._connect(str(partial))
                try:
                    # In one step: a copy in several steps restarts after every write.
                    source.backup(target)
                    found = target.execute("PRAGMA quick_check(1)").fetchall()
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                        reason = os.strerror(errno.ENOSPC)
                        raise OSError(errno.ENOSPC, reason, str(path)) from error
                    raise
                finally:
                    source.close()
                    target.close()
            if found != [("ok",)]:
                raise Corrupt(f"{self.path} is damaged: {found[0][0]}. Restore an earlier backup.")
            partial.rename(path)

    def close(self) -> None:  # noqa: D102
        with self._opening:
            for connection in self._open:
                connection.close()
            self._open.clear()


def leftovers(path: Path) -> list[Path]:
    """Return the files that SQLite would apply to a database of this path, if there are any."""
    beside = (path.with_name(path.name + end) for end in ("-wal", "-journal"))
    return [file for file in beside if file.exists()]


@lru_cache
def _insert_statement(name: str, columns: tuple[str, ...], on_conflict: str) -> str:
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks}) {on_conflict}"


_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"


@lru_cache
def _expected_schema() -> list[Row]:
    """Return the schema that the migrations produce."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for script in migrations("sqlite"):
            connection.executescript(script)
        return connection.execute(_SCHEMA).fetchall()


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements, since `executescript` would commit the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _roll_back(session: SqliteSession) -> None:
    """Roll back the transaction, unless an error has already ended it."""
    if session.connection.in_transaction:
        session.connection.execute("ROLLBACK")


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Translate SQLite's errors into those of the service."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except (
        sqlite3.ProgrammingError
    ) as error:  # such as a connection that was closed in the meantime
        raise Unavailable(f"{path} can no longer be used: {error}") from error
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        if (code if code is None else code & 0xFF) in _DAMAGE:
            raise Corrupt(f"{path} is damaged: {error}. Restore a backup.") from error
        raise Unavailable(f"{path} cannot be used at the moment: {error}.") from error
