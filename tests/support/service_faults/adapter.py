"""An APSW connection that looks like one of the standard library's, as far as a store needs it.

The shim of `disk` is reached through APSW alone, and the store under test speaks to `sqlite3`. So
this translates: the calls, the errors, and one thing that APSW sees and SQLite's users never do.
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


def translated(error: apsw.Error) -> sqlite3.DatabaseError:
    """The error that the standard library would have raised: the first, where more followed."""
    while isinstance(error.__context__, apsw.Error):
        error = error.__context__
    code = getattr(error, "extendedresult", None) or apsw.SQLITE_ERROR
    kind = _CLASSES.get(code & 0xFF, sqlite3.DatabaseError)
    name = apsw.mapping_extended_result_codes.get(code) or apsw.mapping_result_codes[code]
    new = kind(str(error) or str(name))
    new.sqlite_errorcode, new.sqlite_errorname = code, str(name)
    return new


@contextlib.contextmanager
def _translating() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translated(error) from error


class Cursor:
    """The rows of a statement that ran to its end."""

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
        """Nothing is left to close."""


class Connection:
    """What ``sqlite3.connect(path, isolation_level=None)`` gives, over APSW.

    Parameters
    ----------
    instead
        Statements to replace: how a control is made to do what the store would never do.
    checkpoint_at
        After how many pages the log is moved into the database. Fewer than by default, and a
        short scenario sees many moves.
    """

    def __init__(
        self,
        raw: apsw.Connection,
        instead: Mapping[str, str] | None = None,
        checkpoint_at: int = 1000,
    ) -> None:
        self.raw = raw
        self._instead = instead or {}
        self._checkpoint_at = checkpoint_at
        self.raw.set_busy_timeout(10_000)
        self.raw.set_wal_hook(self._after_commit)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Cursor:
        sql = self._instead.get(sql, sql)
        with _translating():
            rows = self.raw.execute(sql, parameters).fetchall()
        if asked := _CHECKPOINTS.match(sql):
            self._checkpoint_at = int(asked[1])
            self.raw.set_wal_hook(self._after_commit)  # the pragma put SQLite's own there
        changes = sql.lstrip()[:7].upper().startswith(_CHANGES)
        return Cursor(rows, self.raw.changes() if changes else -1)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]]) -> Cursor:
        before = self.raw.total_changes()
        with _translating():
            self.raw.executemany(sql, parameters)
        return Cursor([], self.raw.total_changes() - before)

    @property
    def in_transaction(self) -> bool:
        return self.raw.in_transaction

    def backup(self, target: Connection, **_: object) -> None:
        with _translating(), target.raw.backup("main", self.raw, "main") as backup:
            backup.step()

    def close(self) -> None:
        with contextlib.suppress(apsw.Error):  # as SQLite: what fails at the end is not told
            self.raw.close()

    def _after_commit(self, raw: apsw.Connection, name: str, pages: int) -> int:
        """Move the log into the database when it is long: what SQLite does itself otherwise.

        The commit was done by then, so SQLite is silent about a move that fails. APSW is not: it
        raises what the shim raised, and a commit would look failed that was none.
        """
        if 0 < self._checkpoint_at <= pages:
            with contextlib.suppress(apsw.Error):
                raw.wal_checkpoint(name)
        return apsw.SQLITE_OK


SYNCS_NOTHING = {"PRAGMA synchronous = FULL": "PRAGMA synchronous = OFF"}
COMMITS_PIECEMEAL = {"BEGIN IMMEDIATE": "SELECT 1", "COMMIT": "SELECT 1"}


def connector(
    disk: Disk, instead: Mapping[str, str] | None = None, checkpoint_at: int = 1000
) -> Callable[[str], Connection]:
    """What a store takes to open its files on a disk that fails."""

    def connect(path: str) -> Connection:
        with _translating():
            raw = apsw.Connection(path, vfs=disk.vfs)
        return Connection(raw, instead, checkpoint_at)

    return connect
