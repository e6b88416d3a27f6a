"""An adapter that makes an APSW connection look like a `sqlite3` connection to a store.

The shim in `disk` requires APSW, but the store under test uses `sqlite3`. The adapter translates
calls and errors, and hides the errors of checkpoints, which only APSW reports.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw

from service_faults.disk import Disk

_CLASSES: dict[int, type[sqlite3.DatabaseError]] = {  # as in CPython's Modules/_sqlite/util.c
    apsw.SQLITE_INTERNAL: sqlite3.InternalError,
    apsw.SQLITE_NOTFOUND: sqlite3.InternalError,
    apsw.SQLITE_CORRUPT: sqlite3.DatabaseError,
    apsw.SQLITE_NOTADB: sqlite3.DatabaseError,
    apsw.SQLITE_TOOBIG: sqlite3.DataError,
    apsw.SQLITE_CONSTRAINT: sqlite3.IntegrityError,
    apsw.SQLITE_MISMATCH: sqlite3.IntegrityError,
    apsw.SQLITE_MISUSE: sqlite3.ProgrammingError,
}
_OPERATIONAL = (
    "ERROR PERM ABORT BUSY LOCKED READONLY INTERRUPT IOERR FULL CANTOPEN PROTOCOL EMPTY SCHEMA"
)
for _name in _OPERATIONAL.split():
    _CLASSES[getattr(apsw, f"SQLITE_{_name}")] = sqlite3.OperationalError

_CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
_CHECKPOINTS = re.compile(r"\s*pragma\s+wal_autocheckpoint\s*=\s*(\d+)", re.IGNORECASE)


def translate_error(error: apsw.Error) -> sqlite3.DatabaseError:
    """Return the error that the standard library would raise: the first of a chain."""
    while isinstance(error.__context__, apsw.Error):
        error = error.__context__
    code = getattr(error, "extendedresult", None) or apsw.SQLITE_ERROR
    kind = _CLASSES.get(code & 0xFF, sqlite3.DatabaseError)
    name = apsw.mapping_extended_result_codes.get(code) or apsw.mapping_result_codes[code]
    new = kind(str(error) or str(name))
    new.sqlite_errorcode, new.sqlite_errorname = code, str(name)
    return new


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translate_error(error) from error


class Cursor:
    """The rows of a completed statement."""

    def __init__(self, rows: list[tuple[Any, ...]], rowcount: int) -> None:
        self._rows = iter(rows)
        self.rowcount = rowcount

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)

    def close(self) -> None:
        """Do nothing."""


class Connection:
    """The equivalent of ``sqlite3.connect(path, isolation_level=None)``, with APSW.

    Parameters
    ----------
    replacements
        Statements to replace, by which a control breaks the store.
    checkpoint_at
        The length of the log, in pages, at which it is checkpointed. With fewer pages than by
        default, a short scenario has many checkpoints.
    """

    def __init__(
        self,
        raw: apsw.Connection,
        replacements: Mapping[str, str] | None = None,
        checkpoint_at: int = 1000,
    ) -> None:
        self.raw = raw
        self._replacements = replacements or {}
        self._checkpoint_at = checkpoint_at
        self.raw.set_busy_timeout(10_000)
        self.raw.set_wal_hook(self._after_commit)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Cursor:
        sql = self._replacements.get(sql, sql)
        with _translate_errors():
            rows = self.raw.execute(sql, parameters).fetchall()
        if match := _CHECKPOINTS.match(sql):
            self._checkpoint_at = int(match[1])
            self.raw.set_wal_hook(self._after_commit)  # the pragma installed SQLite's own hook
        changes = sql.lstrip()[:7].upper().startswith(_CHANGES)
        return Cursor(rows, self.raw.changes() if changes else -1)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]]) -> Cursor:
        before = self.raw.total_changes()
        with _translate_errors():
            self.raw.executemany(sql, parameters)
        return Cursor([], self.raw.total_changes() - before)

    @property
    def in_transaction(self) -> bool:
        return self.raw.in_transaction

    def backup(self, target: Connection, **_: object) -> None:
        with _translate_errors(), target.raw.backup("main", self.raw, "main") as backup:
            backup.step()

    def close(self) -> None:
        with contextlib.suppress(apsw.Error):  # sqlite3 does not report errors on close either
            self.raw.close()

    def _after_commit(self, raw: apsw.Connection, name: str, pages: int) -> int:
        """Checkpoint a long log, as SQLite's own hook does.

        The commit is complete by then, so SQLite ignores a failed checkpoint. APSW would raise the
        shim's error, and the commit would appear to have failed.
        """
        if 0 < self._checkpoint_at <= pages:
            with contextlib.suppress(apsw.Error):
                raw.wal_checkpoint(name)
        return apsw.SQLITE_OK


WITHOUT_SYNC = {"PRAGMA synchronous = FULL": "PRAGMA synchronous = OFF"}
COMMIT_EACH_STATEMENT = {"BEGIN IMMEDIATE": "SELECT 1", "COMMIT": "SELECT 1"}


def connector(
    disk: Disk, replacements: Mapping[str, str] | None = None, checkpoint_at: int = 1000
) -> Callable[[str], Connection]:
    """Return the `connect` function of a store for a disk that fails."""

    def connect(path: str) -> Connection:
        with _translate_errors():
            raw = apsw.Connection(path, vfs=disk.vfs)
        return Connection(raw, replacements, checkpoint_at)

    return connect
