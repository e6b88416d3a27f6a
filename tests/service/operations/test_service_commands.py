"""The commands that manage a service: keys, campaigns, backups and exports."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from command_line import RunEntice, assert_error, plain
from service_fixtures import service

from entice.service.operations import export
from entice.service.storage import sqlite
from entice.service.storage.sqlite import connect

SPEC = """\
name = "Teas"
arms = ["oolong", "sencha"]
budget = 50000
price_of_a_star = 200
"""


def test_keys_on_the_command_line(run_entice: RunEntice, tmp_path: Path) -> None:
    assert_error(run_entice("keys", "list"), "the database must exist")
    (tmp_path / "spec.toml").write_text(SPEC)
    campaign = run_entice("campaign", "create", "spec.toml").out.strip()
    made = run_entice("keys", "create", "--role", "read", "--name", "ann", "--campaign", campaign)
    assert made.code == 0
    number = made.out.split("_")[1]
    listed = plain(run_entice("keys", "list").out)
    assert number in listed
    assert campaign in listed
    assert made.out.strip() not in listed
    assert "Revoked" in run_entice("keys", "revoke", number).out
    assert_error(run_entice("keys", "revoke", "00000000"), "key must be the id of a key")
    bad = run_entice("keys", "create", "--role", "raed", "--name", "ann")
    assert_error(bad, "role must be a known role", "Did you mean 'read'?")


def test_altered_keys_are_marked(run_entice: RunEntice, tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        assert run_entice("keys", "create", "--role", "read", "--name", name).code == 0
    assert "altered" not in plain(run_entice("keys", "list").out).lower()
    with contextlib.closing(sqlite3.connect(tmp_path / "entice.db")) as database:
        database.execute("UPDATE keys SET role = 'admin' WHERE name = 'bob'")
        database.commit()
    listed = plain(run_entice("keys", "list").out)
    assert listed.count("ALTERED") == 1
    assert listed.index("ann") < listed.index("bob") < listed.index("ALTERED")
    assert "The service rejects these keys." in listed


def test_a_campaign_from_a_file_to_an_export(
    run_entice: RunEntice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTICE_DB", "sqlite:///other.db")
    (tmp_path / "spec.toml").write_text(SPEC)
    made = run_entice("campaign", "create", "spec.toml")
    campaign = made.out.strip()
    assert re.fullmatch("c_[0-9a-z]+", campaign)
    assert (tmp_path / "other.db").exists()
    assert "1 event replayed: OK" in run_entice("verify").out
    for name in ("taken.csv", "taken.parquet", "taken.jsonl"):
        assert "0 rows" in run_entice("export", campaign, "--out", name).out
    assert pl.read_parquet(tmp_path / "taken.parquet").height == 0
    assert_error(run_entice("export", campaign, "--out", "taken.xls"), "--out must end")
    assert_error(run_entice("export", "c_0", "--out", "taken.csv"), "There is no campaign")
    (tmp_path / "spec.toml").write_text(SPEC + "bugdet = 1\n")
    assert_error(run_entice("campaign", "create", "spec.toml"), "Did you mean 'budget'?")


def test_verify_names_the_first_bad_event(run_entice: RunEntice, tmp_path: Path) -> None:
    with service(tmp_path) as own_shop:
        campaign = own_shop.campaign()
        for i in range(5):
            own_shop.offer(campaign, str(i))
    assert run_entice("verify").code == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "entice.db")) as database:
        body = database.execute("SELECT body FROM events WHERE seq = 4").fetchone()[0]
        changed = body.replace(b'"amount":', b'"amount":1', 1)
        database.execute("UPDATE events SET body = ? WHERE seq = 4", (changed,))
        database.commit()
    ran = run_entice("verify", campaign)
    assert ran.code == 1
    assert "3 events replayed: FAILED. Event 4" in plain(ran.out)
    assert_error(run_entice("verify", "c_0"), "campaign must be the id of a campaign; got 'c_0'")
    (tmp_path / "entice.db").write_bytes(b"no database at all" * 100)
    ran = run_entice("verify")
    assert (ran.code, "FAILED." in ran.out) == (1, True)


def test_a_backup_works_while_the_service_runs(run_entice: RunEntice, tmp_path: Path) -> None:
    with service(tmp_path) as own_shop:
        campaign = own_shop.campaign()
        own_shop.offer(campaign, "ann")
        assert run_entice("backup", "copy.db").code == 0
        own_shop.offer(campaign, "bob")
    assert "2 events replayed" in run_entice("verify", "--db", "sqlite:///copy.db").out
    assert_error(run_entice("backup", "copy.db"), "must not exist yet")
    ran = run_entice("backup", "more.db", "--db", "postgresql://x")
    assert_error(ran, "must be a SQLite", "pg_dump")


def test_a_full_disk_is_reported_and_leaves_no_file(
    run_entice: RunEntice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    campaign = run_entice("campaign", "create", "spec.toml").out.strip()
    before = {path.name for path in tmp_path.iterdir()}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full_for_polars(*_: object) -> None:
        raise pl.exceptions.ComputeError("parquet: Invalid thrift: transport error")

    monkeypatch.setattr(export, "_write_parquet", full_for_polars)
    written = run_entice("export", campaign, "--out", "full.parquet")
    assert_error(
        written, "--out could not be written (parquet: Invalid thrift", "got 'full.parquet'",
        "disk is not full",
    )  # fmt: skip
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        for command in (["export", campaign, "--out", "full.csv"], ["head", "--out", "full.json"]):
            assert_error(run_entice(*command), "No space left on device", "Free some space")

    def connect_to_full(path: str) -> sqlite3.Connection:
        connection = connect(path)
        if Path(path).name == "copy.db":
            connection.execute("PRAGMA max_page_count = 2")
        return connection

    store = sqlite.SqliteStore(tmp_path / "entice.db", connect_to_full)
    with contextlib.closing(store), pytest.raises(OSError, match=r"No space left.*full\.db"):
        store.backup(tmp_path / "full.db")
    assert {path.name for path in tmp_path.iterdir()} == before


def test_an_output_file_replaces_nothing_but_a_regular_file(
    run_entice: RunEntice, tmp_path: Path
) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    campaign = run_entice("campaign", "create", "spec.toml").out.strip()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder").mkdir()
    (tmp_path / "database.csv").symlink_to("entice.db")
    for arguments in (
        ("head", "--out", "entice.db"), ("head", "--out", "pipe.csv"), ("head", "--out", "folder"),
        ("export", campaign, "--out", "database.csv"), ("export", campaign, "--out", "pipe.csv"),
    ):  # fmt: skip
        assert_error(run_entice(*arguments), "the output file must be a new or a regular file")
    assert (tmp_path / "pipe.csv").is_fifo()
    assert "1 event replayed: OK" in run_entice("verify").out
    (tmp_path / "kept.json").write_text("old")
    (tmp_path / "link.json").symlink_to("kept.json")
    assert run_entice("head", "--out", "link.json").code == 0
    assert (tmp_path / "link.json").is_symlink()
    assert campaign in (tmp_path / "kept.json").read_text()


def test_a_campaign_that_was_removed_is_found_with_its_head(
    run_entice: RunEntice, tmp_path: Path
) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    campaign = run_entice("campaign", "create", "spec.toml").out.strip()
    assert run_entice("head", "--out", "head.json").code == 0
    with contextlib.closing(connect(str(tmp_path / "entice.db"))) as connection:
        for table in ("events", "campaigns"):
            connection.execute(f"DELETE FROM {table}")
    assert_error(run_entice("verify", campaign), "must be the id of a campaign")
    ran = run_entice("verify", campaign, "--head", "head.json")
    assert (ran.code, f"FAILED. Campaign {campaign} is missing." in ran.out) == (1, True)


def test_help_has_examples(run_entice: RunEntice) -> None:
    expected = {
        "serve": "entice keys create",
        "campaign": "Create and list campaigns",
        "keys": "API keys",
        "verify": "Verify",
        "export": "entice.estimate",
        "backup": "pg_dump",
        "head": "--head FILE",
        "restore": "--replace",
    }
    for command, words in expected.items():
        ran = run_entice(command, "--help")
        assert ran.code == 0
        assert words in plain(ran.out)
    assert "price_of_a_star" in plain(run_entice("campaign", "create", "--help").out)


def test_help_does_not_import_the_service() -> None:
    """Nothing heavy is imported before it is needed."""
    script = "import sys, entice.cli.service; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "COVERAGE_PROCESS_START": ""},
    ).stdout.split()  # fmt: skip
    heavy = {"litestar", "granian", "numba", "polars", "structlog", "prometheus_client", "psycopg"}
    assert heavy.isdisjoint(loaded)
