"""Migrations: databases of earlier versions open, those of later versions are rejected."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from postgres import Postgres, postgres

from entice.service.domain.clock import Clock
from entice.service.domain.commands import Accept, ChangeCampaign, MakeOffer, Rate
from entice.service.domain.errors import SchemaTooNew
from entice.service.operations.heads import check_heads, read_heads
from entice.service.operations.verify import rows_without_events, verify
from entice.service.storage.migrations import migrations
from entice.service.storage.player_hasher import player_hasher_for
from entice.service.storage.postgres import PostgresStore
from entice.service.storage.queries import Queries
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Store
from entice.service.storage.webhooks import Webhooks
from entice.service.storage.writer import Writer

__all__ = ["postgres"]

ASSETS = Path(__file__).parents[2] / "support" / "assets"
sys.path.insert(0, str(ASSETS))
from make_service_v1 import copy_rows, describe  # noqa: E402

CONTENTS: dict[str, Any] = msgspec.json.decode((ASSETS / "service_v1.json").read_bytes())


def assert_intact(store: Store) -> None:
    """Assert that an old database has its contents, verifies, and accepts new commands."""
    assert describe(store) == CONTENTS
    with store.read() as session:  # its campaigns have no salts
        assert session.rows("SELECT lookup, salt FROM players") == [(b"", b"")] * len(CONTENTS)
    assert [verdict.fault for verdict in verify(store)] == [None] * len(CONTENTS)
    shadowed = next(iter(CONTENTS))
    writer = Writer(store, Clock())
    writer.start()
    answer = writer.submit(MakeOffer(shadowed, bytes(16))).result()
    writer.stop()
    assert answer.status == 201
    webhook, _ = Webhooks(store).create(shadowed, "https://warehouse.example", after=0)
    assert [found.id for found in Webhooks(store).of(shadowed)] == [webhook.id]
    assert [verdict.fault for verdict in verify(store)] == [None] * len(CONTENTS)


def test_sqlite_of_the_first_schema_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    shutil.copyfile(ASSETS / "service_v1.db", path)
    store = SqliteStore(path)
    store.check_integrity()
    assert_intact(store)
    store.close()


def test_an_old_campaign_is_upgraded_once_and_then_estimates_who_rates(
    tmp_path: Path,
) -> None:
    path = tmp_path / "old.db"
    shutil.copyfile(ASSETS / "service_v1.db", path)
    store, name = SqliteStore(path), next(iter(CONTENTS))
    writer = Writer(store, Clock())
    writer.start()
    writer.submit(ChangeCampaign(campaign=name, status="live")).result()
    before = Queries(store).campaign(name)
    assert before.share_who_rate is None
    assert before.in_flight > 0
    for player in range(20, 26):
        made = json.loads(writer.submit(MakeOffer(name, player.to_bytes(16))).result().body)
        writer.submit(Accept(made["id"])).result()
        writer.submit(Rate(made["id"], 4)).result()
    writer.stop()
    after, arms = Queries(store).campaign(name), Queries(store).arms(name)
    kinds = [event.body for event in Queries(store).events(name, before.events, limit=1000)]
    assert [b'"kind":"upgraded"' in bytes(body) for body in kinds].index(True) == 0
    assert sum(b'"kind":"upgraded"' in bytes(body) for body in kinds) == 1
    assert after.share_who_rate is not None
    assert sum(arm.offered for arm in arms) == before.in_flight + 6
    assert after.in_flight == before.in_flight
    assert [verdict.fault for verdict in verify(store)] == [None] * len(CONTENTS)
    store.close()


def test_postgres_of_the_first_schema_is_opened(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables of the first migration, with the rows of the SQLite file."""
    monkeypatch.setenv("ENTICE_SECRET", "00" * 32)
    url = postgres.new_database()
    store = PostgresStore(url)
    with store.write() as session:
        tables = session.rows("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        for (table,) in tables:
            session.run(f"DROP TABLE {table} CASCADE")
        for statement in migrations("postgres")[0].split(";"):
            if statement.strip():
                session.run(statement)
        session.run("UPDATE schema_version SET version = 1")
    copy_rows(ASSETS / "service_v1.db", store)
    store.close()
    again = PostgresStore(url)
    assert_intact(again)
    assert list(rows_without_events(again, None)) == []  # the checksums of schema 1
    assert list(rows_without_events(again, player_hasher_for(again))) == []  # keyed ones
    with again.read() as session:
        assert {len(row[0]) for row in session.rows("SELECT digest FROM answers")} == {16}
    heads = read_heads(again)
    assert sum(hour.count for hour in heads.responses.values()) == 32
    assert list(check_heads(again, heads)) == []
    again.close()


def test_sqlite_of_a_later_schema_is_rejected_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    shutil.copyfile(ASSETS / "service_v1.db", path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(
        SchemaTooNew, match="schema version 99; this version of Entice supports versions up to"
    ):
        SqliteStore(path)
    assert path.read_bytes()[100:] == before[100:]


def test_postgres_of_a_later_schema_is_rejected(postgres: Postgres) -> None:
    url = postgres.new_database()
    store = PostgresStore(url)
    with store.write() as session:
        session.run("UPDATE schema_version SET version = 99")
    store.close()
    with pytest.raises(SchemaTooNew, match="schema version 99"):
        PostgresStore(url)


def test_a_failed_migration_leaves_the_database_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "half.db"
    shutil.copyfile(ASSETS / "service_v1.db", path)
    broken = [*migrations("sqlite"), "CREATE TABLE more (x INTEGER);\nALTER TABLE none ADD y;\n"]
    monkeypatch.setattr("entice.service.storage.sqlite.migrations", lambda _: broken)
    with pytest.raises(Exception, match="no such table: none"):
        SqliteStore(path)
    monkeypatch.undo()
    store = SqliteStore(path)
    with store.read() as session:
        assert session.rows("SELECT 1 FROM sqlite_schema WHERE name = 'more'") == []
    assert describe(store) == CONTENTS
    store.close()
