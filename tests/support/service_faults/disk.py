"""A disk whose power can be cut and whose calls can fail, under a real SQLite.

`Disk` puts itself between SQLite and the file system (as an APSW VFS), lets everything through,
and keeps a record of what was written, truncated, synced, created and deleted, in order. From the
record follows, for a power cut after any operation, what a disk may hold: see `recording`. A
process that is killed can't show this: its unsynced writes still reach the disk, because the
operating system lives on.

The same place can answer SQLite that the disk is full or broken.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import apsw

from service_faults.recording import (
    Create,
    Delete,
    Marker,
    Operation,
    Recording,
    Sync,
    SyncFolder,
    Truncate,
    Write,
)

Kind = Literal["read", "write", "sync", "truncate", "create", "delete"]
CHANGES: tuple[Kind, ...] = ("write", "sync", "truncate", "create", "delete")
_CODES: dict[Kind, int] = {  # what SQLite's own layer for Unix says when such a call fails
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "create": apsw.SQLITE_CANTOPEN,
    "delete": apsw.SQLITE_IOERR_DELETE,
}
_numbers = itertools.count()


class Disk:
    """A folder seen through a shim that records, and that fails when told to.

    Parameters
    ----------
    folder
        Where the files really are; what it holds now counts as there for good.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        self.recording = Recording(found)
        self.meaning = {name: -number for number, name in enumerate(found, 1)}
        self.failed = 0  # how many calls were made to fail
        self._kinds: tuple[Kind, ...] = ()
        self._wait, self._full, self._stays = 0, False, False
        self._files = itertools.count(1)
        self.lock = threading.RLock()  # the order of the record is the order of the files
        self.vfs = f"disk {next(_numbers)}"
        self._shim = _Shim(self)

    def open(self, name: str = "test.db") -> apsw.Connection:
        """A connection to a database in the folder, through the shim."""
        return apsw.Connection(str(self.folder / name), vfs=self.vfs)

    def close(self) -> None:
        """Take the shim away once all connections are closed."""
        self._shim.unregister()

    def mark(self, text: str) -> None:
        """Remember something at this point of the record."""
        self.note(Marker(text))

    def fail(self, at: int, *kinds: Kind, full: bool = False, stays: bool = False) -> None:
        """Let a call fail: the next one (``at=0``) or a later one.

        Parameters
        ----------
        at
            How many calls of these kinds succeed before.
        kinds
            The kinds of calls that count and fail; all that change something if none is named.
        full
            Writes say that the disk is full, else that it is broken.
        stays
            All calls of these kinds after that one fail too, until `heal`.
        """
        with self.lock:
            self._kinds, self._wait, self._full, self._stays = kinds or CHANGES, at, full, stays

    def heal(self) -> None:
        """Let every call succeed again."""
        with self.lock:
            self._kinds = ()

    # What follows is for the shim.

    def note(self, operation: Operation) -> None:
        with self.lock:
            self.recording.operations.append(operation)

    def call(
        self, kind: Kind, act: Callable[[], Operation], half: Callable[[], None] = lambda: None
    ) -> None:
        """Carry a call out and record it; or fail, perhaps with half of it done."""
        with self.lock:
            self.perhaps_fail(kind, half)
            self.note(act())

    def perhaps_fail(self, kind: Kind, half: Callable[[], None] = lambda: None) -> None:
        with self.lock:
            if self._fails(kind):
                self.failed += 1
                half()
                full = self._full and kind == "write"
                raise apsw.exception_for(apsw.SQLITE_FULL if full else _CODES[kind])

    def _fails(self, kind: Kind) -> bool:
        if kind not in self._kinds:
            return False
        self._wait -= 1
        if self._wait >= 0:
            return False
        if not self._stays:
            self._kinds = ()
        return True

    def created(self, name: str) -> Create:
        self.meaning[name] = next(self._files)
        return Create(name, self.meaning[name])


_RECORDED = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL


class _Shim(apsw.VFS):
    """Opens and deletes files as the default VFS does; the -shm file stays with that one.

    It holds nothing that has to survive: SQLite builds it anew from the log.
    """

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk.vfs, "")
        self.disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None or not flags[0] & _RECORDED:
            return apsw.VFSFile("", name, flags)  # temporary: gone after a power cut anyway
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        with self.disk.lock:
            if not path.exists() and flags[0] & apsw.SQLITE_OPEN_CREATE:
                self.disk.call("create", lambda: self.disk.created(path.name))
            return _ShimFile(self.disk, path.name, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        def act() -> Operation:
            super(_Shim, self).xDelete(filename, False)
            return Delete(Path(filename).name)

        self.disk.call("delete", act)
        if syncdir:
            self.disk.note(SyncFolder())

    def excepthook(self, *_: object) -> bool:
        """Errors that SQLite need not report, as when a log can't be deleted at the end."""
        return True


class _ShimFile(apsw.VFSFile):
    """A file of the database: its data, its log or its journal."""

    def __init__(
        self, disk: Disk, label: str, name: str | apsw.URIFilename, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self.disk = disk
        self.file = disk.meaning[label]
        # SQLite's layer for Unix syncs the folder with the first sync of a journal.
        self.new_journal = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self.disk.perhaps_fail("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        content = bytes(data)

        def put(piece: bytes) -> Operation:
            super(_ShimFile, self).xWrite(piece, offset)
            return Write(self.file, offset, piece)

        def half() -> None:  # a disk that fills up may take the beginning
            beginning = content[: len(content) // 2]
            if beginning:
                self.disk.note(put(beginning))

        self.disk.call("write", lambda: put(content), half)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        def act() -> Operation:
            super(_ShimFile, self).xTruncate(newsize)
            return Truncate(self.file, newsize)

        self.disk.call("truncate", act)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Recorded only: nobody cuts the power of the computer that runs the test."""
        self.disk.call("sync", lambda: Sync(self.file))
        if self.new_journal:
            self.disk.note(SyncFolder())
            self.new_journal = False

    def excepthook(self, *_: object) -> bool:
        """Errors that SQLite need not report."""
        return True
