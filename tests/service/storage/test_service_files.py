"""The files of a SQLite database: permissions, backups, and the size of the write-ahead log."""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from log_forging import campaign_with_all_events
from writer_fixtures import Service, service

from entice.errors import InputError
from entice.service.domain.errors import Corrupt
from entice.service.operations import verify as verification
from entice.service.operations.verify import verify
from entice.service.storage import sqlite
from entice.service.storage.player_hasher import player_hasher_for
from entice.service.storage.sqlite import MAX_LOG, SqliteStore
from entice.service.storage.store import open_store

__all__ = ["service"]

MB = 2**20


@pytest.fixture
def _permissive() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_permissive")
def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    """SQLite itself creates files that all users can read and, with this umask, write."""
    with closing(SqliteStore(tmp_path / "entice.db")) as store:
        player_hasher_for(store)
        store.backup(tmp_path / "copy.db")
        files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    names = "entice.db", "entice.db-wal", "entice.db-shm", "entice.db.secret", "copy.db"
    assert files == dict.fromkeys(names, 0o600)
    with closing(sqlite3.connect(tmp_path / "control.db")) as control:
        control.execute("CREATE TABLE t (x)")
    assert stat.S_IMODE((tmp_path / "control.db").stat().st_mode) & 0o077


def test_a_backup_beside_a_stale_log_is_rejected(service: Service, tmp_path: Path) -> None:
    campaign_with_all_events(service)
    assert isinstance(service.store, SqliteStore)
    wal = tmp_path / "copy.db-wal"
    shutil.copyfile(tmp_path / "entice.db-wal", wal)
    with pytest.raises(InputError, match=r"must not have a file copy\.db-wal beside it"):
        service.store.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    service.store.backup(tmp_path / "other.db")
    with closing(open_store(f"sqlite:///{tmp_path / 'other.db'}")) as copy:
        copy.check_integrity()
    # The control: SQLite applies the log of another time to the copy.
    with service.store.write() as session:
        session.run("DELETE FROM events")
    service.store.backup(tmp_path / "control.db")
    wal.rename(tmp_path / "control.db-wal")
    with closing(sqlite3.connect(tmp_path / "control.db")) as control:
        assert control.execute("SELECT count(*) FROM events").fetchone() != (0,)


def test_a_damaged_database_is_not_backed_up(tmp_path: Path) -> None:
    path = tmp_path / "entice.db"
    with closing(SqliteStore(path)) as store, store.write() as session:
        for n in range(200):
            session.run("INSERT INTO meta VALUES (?, ?)", (f"{n}", bytes(1000)))
    damaged = bytearray(path.read_bytes())
    damaged[-40_000:-20_000] = bytes(20_000)
    path.write_bytes(damaged)
    with closing(SqliteStore(path)) as store, pytest.raises(Corrupt, match="damaged"):
        store.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    assert not list(tmp_path.glob(".backup-*"))


def test_the_log_stays_small_during_a_verification(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The control does the same writes during one long read, as `verify` once did."""
    campaign = service.create()
    service.rate_organic(campaign, a=[1, 2, 3] * 100)
    monkeypatch.setattr(verification, "PAGE", 50)
    wal, sizes = tmp_path / "entice.db-wal", list[int]()

    def write(_: int = 0) -> None:
        with service.store.write() as session:
            session.run("DELETE FROM meta")
            session.run("INSERT INTO meta VALUES ('x', zeroblob(?))", (10 * MB,))
        sizes.append(wal.stat().st_size)

    (result,) = verify(service.store, progress=write)
    assert (result.events, result.fault) == (301, None)
    assert len(sizes) >= 7
    assert max(sizes) < MAX_LOG
    with service.store.read() as session:
        session.rows("SELECT 1 FROM meta")
        for _ in range(7):
            write()
    assert max(sizes) > 60 * MB
    write()
    write()
    assert wal.stat().st_size <= MAX_LOG


@pytest.mark.parametrize("bounded", [True, False])
def test_continuous_readers_do_not_keep_the_log_from_starting_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounded: bool
) -> None:
    """There is always a reader: it begins each transaction before the previous one ends.

    The control relies on SQLite alone, which starts its log again in a commit after all of it was
    copied to the database. A reader that moves on after each commit prevents that.
    """
    monkeypatch.setattr(sqlite, "_RESTART_EVERY", 0.0 if bounded else 1e9)
    monkeypatch.setattr(sqlite, "_RESTART_TIMEOUT", 1.0)  # enough on a busy machine
    wal, stop = tmp_path / "entice.db-wal", threading.Event()
    stores = [SqliteStore(tmp_path / "entice.db") for _ in range(3)]
    readers, reading = itertools.cycle(stores[1:]), ExitStack()

    def move_on() -> None:
        with ExitStack() as both:
            both.enter_context(next(readers).read()).rows("SELECT 1 FROM meta")
            reading.close()
            reading.push(both.pop_all())

    def read_without_a_pause() -> None:
        while not stop.wait(0.001):
            move_on()

    move_on()
    reader = threading.Thread(target=read_without_a_pause)
    if bounded:
        reader.start()
    for _ in range(10):
        with stores[0].write() as session:
            session.run("DELETE FROM meta")
            session.run("INSERT INTO meta VALUES ('x', zeroblob(?))", (10 * MB,))
        if not bounded:
            move_on()
    stop.set()
    if bounded:
        reader.join()
    reading.close()
    assert (wal.stat().st_size < 2 * MAX_LOG) == bounded
    for store in stores:
        store.close()
