"""A simulated disk for a real SQLite: power cuts, and calls that fail.

`Disk` is an APSW VFS between SQLite and the file system. It passes every call on and records
writes, truncations, syncs, creations and deletions in order. From the record, `recording` derives
the possible contents of the disk after a power cut at any point. Killing a process cannot show
this: its unsynced writes still reach the disk, because the operating system keeps running.

`Disk` can also report that the disk is full or broken.
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
_CODES: dict[Kind, int] = {  # as SQLite's Unix VFS reports such failures
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "create": apsw.SQLITE_CANTOPEN,
    "delete": apsw.SQLITE_IOERR_DELETE,
}
_numbers = itertools.count()


class Disk:
    """A folder behind a shim that records calls and can make them fail.

    Parameters
    ----------
    folder
        The folder of the files. Its current contents count as durable.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        self.recording = Recording(found)
        self.file_of_name = {name: -number for number, name in enumerate(found, 1)}
        self.failed = 0  # number of calls that failed
        self._kinds: tuple[Kind, ...] = ()
        self._wait, self._full, self._permanent = 0, False, False
        self._files = itertools.count(1)
        self.lock = threading.RLock()  # calls are recorded in the order in which they happen
        self.vfs = f"disk {next(_numbers)}"
        self._shim = _Shim(self)

    def open(self, name: str = "test.db") -> apsw.Connection:
        """Open a database in the folder through the shim."""
        return apsw.Connection(str(self.folder / name), vfs=self.vfs)

    def close(self) -> None:
        """Unregister the shim after all connections are closed."""
        self._shim.unregister()

    def mark(self, text: str) -> None:
        """Add a marker to the record."""
        self.note(Marker(text))

    def fail(self, at: int, *kinds: Kind, full: bool = False, permanent: bool = False) -> None:
        """Make a call fail: the next one (``at=0``) or a later one.

        Parameters
        ----------
        at
            The number of calls of these kinds that succeed before.
        kinds
            The kinds of calls that count and fail; by default all that change something.
        full
            Whether writes report a full disk instead of an I/O error.
        permanent
            Whether all later calls of these kinds fail too, until `repair`.
        """
        with self.lock:
            self._kinds, self._wait, self._full, self._permanent = (
                kinds or CHANGES,
                at,
                full,
                permanent,
            )

    def repair(self) -> None:
        """Make every call succeed again."""
        with self.lock:
            self._kinds = ()

    # Called by the shim

    def note(self, operation: Operation) -> None:
        with self.lock:
            self.recording.operations.append(operation)

    def call(
        self,
        kind: Kind,
        act: Callable[[], Operation],
        write_half: Callable[[], None] = lambda: None,
    ) -> None:
        """Perform a call and record it; or fail, possibly after half of it."""
        with self.lock:
            self.fail_if_planned(kind, write_half)
            self.note(act())

    def fail_if_planned(self, kind: Kind, write_half: Callable[[], None] = lambda: None) -> None:
        with self.lock:
            if self._fails(kind):
                self.failed += 1
                write_half()
                full = self._full and kind == "write"
                raise apsw.exception_for(apsw.SQLITE_FULL if full else _CODES[kind])

    def _fails(self, kind: Kind) -> bool:
        if kind not in self._kinds:
            return False
        self._wait -= 1
        if self._wait >= 0:
            return False
        if not self._permanent:
            self._kinds = ()
        return True

    def created(self, name: str) -> Create:
        self.file_of_name[name] = next(self._files)
        return Create(name, self.file_of_name[name])


_RECORDED = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL


class _Shim(apsw.VFS):
    """Opens and deletes files like the default VFS.

    The -shm file is not recorded: SQLite rebuilds it from the log.
    """

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk.vfs, "")
        self.disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None or not flags[0] & _RECORDED:
            return apsw.VFSFile("", name, flags)  # temporary: lost in a power cut anyway
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
        """Ignore errors that SQLite does not report, such as a failed deletion on close."""
        return True


class _ShimFile(apsw.VFSFile):
    """A database file: data, log or journal."""

    def __init__(
        self, disk: Disk, label: str, name: str | apsw.URIFilename, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self.disk = disk
        self.file = disk.file_of_name[label]
        # SQLite's Unix VFS syncs the folder with the first sync of a journal.
        self.new_journal = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self.disk.fail_if_planned("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        content = bytes(data)

        def write(piece: bytes) -> Operation:
            super(_ShimFile, self).xWrite(piece, offset)
            return Write(self.file, offset, piece)

        def write_half() -> None:  # a disk that fills up may write the first part
            beginning = content[: len(content) // 2]
            if beginning:
                self.disk.note(write(beginning))

        self.disk.call("write", lambda: write(content), write_half)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        def act() -> Operation:
            super(_ShimFile, self).xTruncate(newsize)
            return Truncate(self.file, newsize)

        self.disk.call("truncate", act)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Record the sync without performing it: the test machine keeps its power."""
        self.disk.call("sync", lambda: Sync(self.file))
        if self.new_journal:
            self.disk.note(SyncFolder())
            self.new_journal = False

    def excepthook(self, *_: object) -> bool:
        """Ignore errors that SQLite does not report."""
        return True
