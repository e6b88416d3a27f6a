"""Tests of the fault-injecting disk itself, with plain SQL."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from service_faults.adapter import Connection
from service_faults.disk import CHANGES, Disk, Kind
from service_faults.recording import (
    Create,
    Delete,
    Recording,
    Sync,
    SyncFolder,
    Truncate,
    Write,
    replace_files,
)

ROWS = 40


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    shim = Disk(folder)
    yield shim
    shim.close()


def fill(disk: Disk, journal: str, synchronous: str) -> Recording:
    """Commit rows 1, 2, … one by one, with a marker after each acknowledgement."""
    db = Connection(disk.open())
    db.execute(f"PRAGMA journal_mode={journal}")
    db.execute(f"PRAGMA synchronous={synchronous}")
    db.execute("PRAGMA wal_autocheckpoint=12")
    db.execute("CREATE TABLE log (n INTEGER PRIMARY KEY, text TEXT) STRICT")
    for n in range(1, ROWS + 1):
        add(db, n)
        disk.mark(f"row {n}")
    db.close()
    return disk.recording


def add(db: Connection, n: int) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO log VALUES (?, ?)", (n, "a long text" * 30))
    db.execute("UPDATE log SET text = text || 'x' WHERE n = 1")
    db.execute("COMMIT")


def surviving_rows(folder: Path) -> list[int] | None:
    """Return the rows that survived a power cut; None if the database is damaged."""
    db = sqlite3.connect(folder / "test.db")
    try:
        db.execute("PRAGMA synchronous=OFF")  # for speed
        if not db.execute("SELECT name FROM sqlite_master").fetchall():
            return []
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = [n for (n,) in db.execute("SELECT n FROM log ORDER BY n")]
        updates = db.execute("SELECT length(text) - 330 FROM log WHERE n = 1").fetchone()
        assert updates == ((len(rows),) if rows else None)  # only whole transactions
        return rows
    except (sqlite3.DatabaseError, AssertionError):
        return None
    finally:
        db.close()


def cut_everywhere(recording: Recording, folder: Path, seed: int, times: int) -> tuple[int, int]:
    """Return how many cuts lost an acknowledged row, and how many damaged the database."""
    lost = damaged = 0
    for cut, files in recording.power_losses(recording.places() * times, seed):
        replace_files(files, folder)
        rows = surviving_rows(folder)
        damaged += rows is None
        lost += rows is not None and len(rows) < len(recording.markers(cut))
        assert rows is None or rows == list(range(1, len(rows) + 1))
    return lost, damaged


@pytest.mark.parametrize(
    ("journal", "synchronous", "loses", "damages"),
    [
        ("WAL", "FULL", False, False),
        ("WAL", "NORMAL", True, False),  # the log is synced at checkpoints, not at commits
        ("WAL", "OFF", True, True),
        ("DELETE", "EXTRA", False, False),
        ("DELETE", "FULL", True, False),  # the commit deletes the journal, which is not synced
        ("DELETE", "OFF", True, True),
    ],
)
def test_a_power_cut_loses_exactly_what_sqlite_documents(
    disk: Disk, tmp_path: Path, journal: str, synchronous: str, loses: bool, damages: bool
) -> None:
    recording = fill(disk, journal, synchronous)
    lost, damaged = cut_everywhere(recording, tmp_path / "left", seed=7, times=1)
    assert (lost > 0, damaged > 0) == (loses, damages)


def test_without_a_power_cut_nothing_is_lost(disk: Disk, tmp_path: Path) -> None:
    recording = fill(disk, "WAL", "FULL")
    replace_files(recording.after_power_loss(len(recording.operations), seed=1), tmp_path / "left")
    assert surviving_rows(tmp_path / "left") == list(range(1, ROWS + 1))
    assert recording.markers(len(recording.operations))[-1] == f"row {ROWS}"


def test_one_seed_gives_one_outcome(disk: Disk) -> None:
    recording = fill(disk, "WAL", "OFF")
    cuts = recording.places()[::9]
    once = list(recording.power_losses(cuts, seed=3))
    assert once == list(recording.power_losses(reversed(cuts), seed=3))
    assert once == [(cut, recording.after_power_loss(cut, seed=3)) for cut in cuts]
    assert once != list(recording.power_losses(cuts, seed=4))
    first, second = recording.power_losses([cuts[-1], cuts[-1]], seed=3)
    assert first != second


def outcomes(*operations: object, found: dict[str, bytes] | None = None) -> set[bytes | None]:
    """Return all possible contents of file "a" after a power cut."""
    recording = Recording({"a": b""} if found is None else found)
    recording.operations.extend(operations)  # type: ignore[arg-type]
    return {recording.after_power_loss(len(operations), seed).get("a") for seed in range(1000)}


def test_an_unsynced_write_is_kept_dropped_or_torn_at_a_sector() -> None:
    old, new = b"o" * 1536, b"n" * 1536
    seen = outcomes(Write(-1, 0, new), found={"a": old})
    assert seen == {a + b + c for a in parts(0) for b in parts(1) for c in parts(2)}
    assert outcomes(Write(-1, 0, new), Sync(-1), found={"a": old}) == {new}


def parts(_: int) -> tuple[bytes, bytes]:
    return b"o" * 512, b"n" * 512


def test_unsynced_writes_survive_independently() -> None:
    both = Write(-1, 0, b"x"), Write(-1, 1, b"y")
    assert outcomes(*both) == {b"", b"x", b"xy", b"\0y", b"\0", b"\0\0", b"x\0"}
    assert outcomes(both[0], Sync(-1), both[1]) == {b"x", b"xy", b"x\0"}


def test_sectors_are_aligned_to_the_file() -> None:
    seen = outcomes(Write(-1, 500, b"n" * 20), found={"a": b"o" * 600})
    assert {content[500:520] for content in seen if content} == {
        b"n" * 20,
        b"o" * 20,
        b"n" * 12 + b"o" * 8,
        b"o" * 12 + b"n" * 8,
    }


def test_an_unsynced_truncation_may_be_lost() -> None:
    assert outcomes(Truncate(-1, 1), found={"a": b"abc"}) == {b"a", b"abc"}
    assert outcomes(Truncate(-1, 1), Sync(-1), found={"a": b"abc"}) == {b"a"}


def test_file_names_are_durable_once_the_folder_is_synced() -> None:
    found = {"a": b"old"}
    new = Create("a", 1), Write(1, 0, b"new"), Sync(1)
    assert outcomes(Delete("a"), found=found) == {b"old", None}
    assert outcomes(Delete("a"), SyncFolder(), found=found) == {None}
    assert outcomes(*new, found={}) == {b"new", None}
    assert outcomes(*new, SyncFolder(), found={}) == {b"new"}
    assert outcomes(Delete("a"), *new, found=found) == {b"old", None, b"new"}
    assert outcomes(Delete("a"), *new, SyncFolder(), found=found) == {b"new"}


def test_files_that_existed_before_are_durable(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    first = Disk(folder)
    fill(first, "WAL", "FULL")
    first.close()
    second = Disk(folder)
    db = Connection(second.open())
    add(db, ROWS + 1)
    for _, files in second.recording.power_losses(second.recording.places(), seed=1):
        replace_files(files, tmp_path / "left")
        rows = surviving_rows(tmp_path / "left")
        assert rows is not None
        assert len(rows) in (ROWS, ROWS + 1)
    db.close()
    second.close()


ERRORS = {False: ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC"), True: ("SQLITE_FULL",)}


def prepared(disk: Disk) -> Connection:
    db = Connection(disk.open())
    for sql in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE purse (name TEXT PRIMARY KEY, amount INTEGER) STRICT",
        "INSERT INTO purse VALUES ('a', 100), ('b', 0)",
    ):
        db.execute(sql)
    return db


def move(db: Connection, amount: int, *, separately: bool = False) -> None:
    """Move an amount from a to b, in one transaction or, as the control, in two."""
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE purse SET amount = amount - ? WHERE name = 'a'", (amount,))
        if separately:
            db.execute("COMMIT")
            db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE purse SET amount = amount + ? WHERE name = 'b'", (amount,))
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def amounts(db: Connection) -> tuple[int, ...]:
    return tuple(n for (n,) in db.execute("SELECT amount FROM purse ORDER BY name"))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("separately", [False, True])
def test_an_error_at_any_write_is_atomic_only_in_one_transaction(
    disk: Disk, full: bool, separately: bool
) -> None:
    db = prepared(disk)
    kinds: tuple[Kind, ...] = ("write",) if full else ("write", "sync")
    seen, halves = set(), 0
    for k in range(100):
        before = amounts(db)
        disk.fail(k, *kinds, full=full)
        failed = disk.failed
        try:
            move(db, 1, separately=separately)
        except sqlite3.OperationalError as error:
            seen.add(error.sqlite_errorname)
        disk.repair()
        if disk.failed == failed:
            break
        halves += sum(amounts(db)) != 100
        db.execute("UPDATE purse SET amount = CASE name WHEN 'a' THEN ? ELSE ? END", before)
    assert k >= 2
    assert seen == set(ERRORS[full])
    assert (halves > 0) == separately
    db.close()


def test_a_disk_stays_full_until_it_is_repaired(disk: Disk) -> None:
    db = prepared(disk)
    disk.fail(1, "write", full=True, permanent=True)
    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError):
            move(db, 10)
    assert amounts(db) == (100, 0)
    assert disk.failed >= 3
    disk.repair()
    move(db, 10)
    assert amounts(db) == (90, 10)
    db.close()


def test_a_read_can_fail_too(disk: Disk) -> None:
    prepared(disk).close()
    db = Connection(disk.open())
    disk.fail(2, "read")
    with pytest.raises(sqlite3.OperationalError) as caught:
        amounts(db)
    assert caught.value.sqlite_errorname == "SQLITE_IOERR_READ"
    assert amounts(db) == (100, 0)
    db.close()


@pytest.mark.parametrize("kind", CHANGES)
def test_every_kind_of_change_can_fail(disk: Disk, kind: Kind) -> None:
    disk.fail(0, kind)
    with pytest.raises(apsw.Error):  # noqa: PT012
        db = disk.open()
        db.execute("PRAGMA journal_mode=TRUNCATE")
        db.execute("CREATE TABLE t (a)")
        db.execute("PRAGMA journal_mode=DELETE")
        db.execute("INSERT INTO t VALUES (1)")
    assert disk.failed == 1


def test_the_adapter_behaves_like_the_standard_library(disk: Disk) -> None:
    ours = Connection(disk.open())
    theirs = sqlite3.connect(":memory:", isolation_level=None)
    script: list[tuple[str, tuple[object, ...]]] = [
        ("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT) STRICT", ()),
        ("INSERT INTO t VALUES (?, ?), (2, 'y')", (1, "x")),
        ("INSERT INTO t VALUES (1, 'again')", ()),
        ("INSERT INTO t VALUES (3, ?)", (b"no text",)),
        ("SELECT * FROM t ORDER BY a", ()),
        ("UPDATE t SET b = 'z'", ()),
        ("BEGIN IMMEDIATE", ()),
        ("BEGIN", ()),
        ("DELETE FROM t WHERE a = 1 RETURNING b", ()),
        ("ROLLBACK", ()),
        ("SELECT * FROM nothing", ()),
    ]
    for sql, parameters in script:
        said = []
        for db in (ours, theirs):
            try:
                cursor = db.execute(sql, parameters)
                answer: object = (cursor.fetchall(), cursor.rowcount)
            except sqlite3.Error as error:
                answer = (type(error), error.sqlite_errorcode)
            said.append((answer, db.in_transaction))
        assert said[0] == said[1], sql
    many = [(n, "m") for n in range(10, 20)]
    for db in (ours, theirs):
        assert db.executemany("INSERT INTO t VALUES (?, ?)", many).rowcount == 10
        cursor = db.execute("SELECT a FROM t WHERE a > 10")
        assert (cursor.fetchone(), next(iter(cursor))) == ((11,), (12,))
        db.close()


def test_the_adapter_reports_damage_like_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "test.db").write_bytes(b"no database" * 1000)
    disk = Disk(tmp_path)
    said = []
    for db in (Connection(disk.open()), sqlite3.connect(disk.folder / "test.db")):
        with pytest.raises(sqlite3.DatabaseError) as caught:
            db.execute("SELECT * FROM sqlite_master")
        said.append((caught.type, caught.value.sqlite_errorname))
        db.close()
    assert said[0] == said[1] == (sqlite3.DatabaseError, "SQLITE_NOTADB")
    disk.close()


def test_a_commit_succeeds_even_if_the_checkpoint_after_it_fails(disk: Disk) -> None:
    """APSW would report the error; sqlite3 does not, and the commit is durable."""
    db = prepared(disk)
    db.execute("PRAGMA wal_autocheckpoint=1")
    calls = len(disk.recording.operations)
    move(db, 1)
    calls = len(disk.recording.operations) - calls
    disk.fail(calls - 1, permanent=True)  # the last operation of a commit is the checkpoint's sync
    move(db, 1)
    assert disk.failed > 0
    last = disk.recording.operations[-1]
    assert isinstance(last, Write | Truncate)
    assert last.file == disk.file_of_name["test.db"]
    disk.repair()
    assert amounts(db) == (98, 2)
    db.close()
