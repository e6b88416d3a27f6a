"""`entice restore`: checks the backup, never overwrites by accident, and keeps what it replaces."""

from __future__ import annotations

import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest
from command_line import RunEntice, assert_error
from forking import run_forked
from service_fixtures import Service, service

from entice.service.storage.store import open_store


@pytest.fixture
def backed_up(tmp_path: Path, run_entice: RunEntice) -> str:
    """A stopped service with 3 offers, of which 2 are in copy.db; return the campaign's id."""
    with service(tmp_path) as shop:
        campaign = shop.campaign()
        offer(shop, campaign, "ann")
        offer(shop, campaign, "bob")
        assert run_entice("backup", "copy.db").code == 0
        assert run_entice("head", "--out", "head.json").code == 0
        offer(shop, campaign, "cem")
    return campaign


def offer(shop: Service, campaign: str, player: str) -> None:
    path, headers = f"/v1/campaigns/{campaign}/offers", {"idempotency-key": player}
    assert shop.client.post(path, json={"player": player}, headers=headers).status_code == 201


def decisions(path: Path, campaign: str) -> int:
    from entice.service.storage.queries import Queries

    with closing(open_store(f"sqlite:///{path}")) as store:
        return Queries(store).campaign(campaign).decisions


def test_a_backup_is_restored_to_a_new_file(
    backed_up: str, run_entice: RunEntice, tmp_path: Path
) -> None:
    ran = run_entice("restore", "copy.db", "--db", "sqlite:///new.db", "--head", "head.json")
    assert (ran.code, "Restored 3 events" in ran.out) == (0, True)
    assert "Put the secret for players' ids back before you start: new.db.secret" in ran.out
    assert stat.S_IMODE((tmp_path / "new.db").stat().st_mode) == 0o600
    assert decisions(tmp_path / "new.db", backed_up) == 2
    assert not list(tmp_path.glob(".restore-*"))


def test_an_existing_database_is_replaced_only_on_request_and_kept(
    backed_up: str, run_entice: RunEntice, tmp_path: Path
) -> None:
    before = (tmp_path / "entice.db").read_bytes()
    assert_error(run_entice("restore", "copy.db"), "must not exist yet", "--replace")
    assert (tmp_path / "entice.db").read_bytes() == before
    (tmp_path / "entice.db-wal").write_bytes(b"of the old database")
    assert run_entice("restore", "copy.db", "--replace").code == 0
    assert decisions(tmp_path / "entice.db", backed_up) == 2
    assert (tmp_path / "entice.db.replaced").read_bytes() == before
    assert (tmp_path / "entice.db.replaced-wal").read_bytes() == b"of the old database"
    assert_error(run_entice("restore", "copy.db", "--replace"), "entice.db.replaced must not exist")
    with service(tmp_path) as shop:  # with the same secret
        offer(shop, backed_up, "cem")


def test_a_database_in_use_is_not_replaced(
    backed_up: str, run_entice: RunEntice, tmp_path: Path
) -> None:
    with service(tmp_path) as shop:
        entice = Path(sys.executable).with_name("entice")
        ran = run_forked(entice, "restore", "copy.db", "--replace", cwd=tmp_path, code=2)
        assert_error(ran, "must not be in use", "Stop the service")
        offer(shop, backed_up, "dan")
    assert run_entice("restore", "copy.db", "--replace").code == 0  # the control


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("UPDATE events SET body = x'00' WHERE seq = 2", "Event 2 was altered"),
        ("UPDATE campaigns SET digest = x'00'", "The row of campaign"),
        ("UPDATE answers SET body = x'00' WHERE key = 'ann'", "idempotency key 'ann' was altered"),
        ("DROP INDEX due_offers", "schema was altered"),
    ],
)
def test_a_damaged_backup_is_not_restored(
    backed_up: str, run_entice: RunEntice, tmp_path: Path, damage: str, reason: str
) -> None:
    before = (tmp_path / "entice.db").read_bytes()
    with closing(sqlite3.connect(tmp_path / "copy.db", isolation_level=None)) as database:
        database.execute(damage)
    ran = run_entice("restore", "copy.db", "--replace")
    assert (ran.code, reason in ran.out) == (1, True)
    assert (tmp_path / "entice.db").read_bytes() == before
    assert not (tmp_path / "entice.db.replaced").exists()
    assert not list(tmp_path.glob(".restore-*"))


def test_a_backup_that_does_not_continue_from_the_heads_is_not_restored(
    backed_up: str, run_entice: RunEntice
) -> None:
    assert run_entice("head", "--out", "head.json").code == 0  # newer than the backup
    ran = run_entice("restore", "copy.db", "--replace", "--head", "head.json")
    assert (ran.code, "was cut: it ends with event 3" in ran.out) == (1, True)


def test_restore_rejects_what_is_no_backup(run_entice: RunEntice, tmp_path: Path) -> None:
    assert_error(run_entice("restore", "none.db"), "the backup must be an existing file")
    (tmp_path / "noise.db").write_bytes(b"no database at all" * 100)
    assert run_entice("restore", "noise.db").code == 1
    (tmp_path / "noise.db-wal").touch()
    assert_error(run_entice("restore", "noise.db"), "must be one file, without noise.db-wal")
    ran = run_entice("restore", "noise.db", "--db", "postgresql://me:hidden@host/name")
    assert_error(ran, "must be a SQLite database", "pg_restore")
    assert "hidden" not in ran.err
    assert not (tmp_path / "entice.db").exists()
