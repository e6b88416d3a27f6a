"""Restore a SQLite database from a backup, after checking it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from entice.errors import InputError
from entice.service.domain.errors import Corrupt
from entice.service.operations.heads import Heads, check_heads
from entice.service.operations.verify import count_events, rows_without_events, verify
from entice.service.storage.player_hasher import VARIABLE, known_player_hasher, secret_file_of
from entice.service.storage.sqlite import SqliteStore, leftovers

# SQLite's "shared" bytes, which every open connection to a database in WAL mode has locked.
_SHARED_BYTES, _FIRST_SHARED_BYTE = 510, 0x40000002


def replaced_path(target: Path) -> Path:
    """Return the path under which a replaced database is kept."""
    return target.with_name(f"{target.name}.replaced")


def restore(
    backup: Path,
    target: Path,
    *,
    replace: bool = False,
    heads: Heads | None = None,
    secret_file: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Check a backup, put it in place of a database, and return the number of its events.

    This process must not have the database open: its own locks do not exclude each other.

    Parameters
    ----------
    replace
        Whether an existing database may be replaced. It is kept as `replaced_path`.
    heads
        Heads that the backup must continue from.
    progress
        Called with the numbers of events verified and to be verified.

    Raises
    ------
    Corrupt
        The backup is damaged. Nothing was changed.
    InputError
        The database exists, or is in use. Nothing was changed.
    """
    _check_backup(backup)
    _check_target(target, replace)
    with _lock(target), tempfile.TemporaryDirectory(dir=target.parent, prefix=".restore-") as name:
        copy = Path(name) / "copy.db"
        copy.touch(mode=0o600)
        shutil.copyfile(backup, copy)
        events = _check_copy(copy, target, heads, secret_file, progress)
        _sync(copy)
        if target.exists():
            os.link(target, replaced_path(target))
        for file_beside in leftovers(target):
            end = file_beside.name.removeprefix(target.name)
            file_beside.rename(target.with_name(f"{replaced_path(target).name}{end}"))
        target.with_name(f"{target.name}-shm").unlink(missing_ok=True)
        copy.rename(target)
        _sync(target.parent)
    return events


def _check_backup(backup: Path) -> None:
    if not backup.is_file():
        raise InputError("the backup", "must be an existing file", given=str(backup))
    if beside := leftovers(backup):
        raise InputError(
            "the backup",
            f"must be one file, without {beside[0].name} beside it",
            given=str(backup),
            todo="Make backups with `entice backup`.",
        )


def _check_target(target: Path, replace: bool) -> None:
    if not target.parent.is_dir():
        raise InputError("the database", "must be in an existing folder", given=str(target))
    if not replace and (target.exists() or leftovers(target)):
        kept = replaced_path(target)
        raise InputError(
            "the database",
            "must not exist yet",
            given=str(target),
            todo=f"With --replace it is replaced, and kept as {kept}.",
        )
    if replace and replaced_path(target).exists():
        rule = "must not exist yet: it is where the replaced database would be kept"
        raise InputError(str(replaced_path(target)), rule, todo="Move it elsewhere.")


@contextlib.contextmanager
def _lock(target: Path) -> Iterator[None]:
    """Keep other processes from opening the existing database; raise an error if one has."""
    if not target.exists():
        yield
        return
    with target.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_BYTES, _FIRST_SHARED_BYTE)
        except OSError:
            raise InputError(
                "the database",
                "must not be in use",
                given=str(target),
                todo="Stop the service, and all programs that have the file open.",
            ) from None
        yield


def _check_copy(
    copy: Path,
    target: Path,
    heads: Heads | None,
    secret_file: Path | None,
    progress: Callable[[int, int], None],
) -> int:
    """Verify a copy, and return the number of its events."""
    with contextlib.closing(SqliteStore(copy)) as store:
        store.check_integrity()
        players = known_player_hasher(store, secret_file or _secret_beside(target))
        total, done = count_events(store), 0

        def count(more: int) -> None:
            nonlocal done
            done += more
            progress(done, total)

        faults = [f"{r.campaign}: {r.fault}" for r in verify(store, progress=count) if r.fault]
        faults += rows_without_events(store, players)
        faults += check_heads(store, heads) if heads is not None else []
    if faults:
        raise Corrupt(f"The backup does not verify. {' '.join(faults[:3])} Nothing was restored.")
    return total


def _secret_beside(target: Path) -> Path | None:
    """Return the file with the database's secret, unless the environment has the secret."""
    file = secret_file_of(f"sqlite:///{target}")
    return file if file is not None and file.exists() and not os.environ.get(VARIABLE) else None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
