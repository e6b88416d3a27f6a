"""Stores open and migrate databases, recover from failures, and make backups."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres import Postgres, both_databases, postgres
from writer_fixtures import FakeClock, hashed

from entice.errors import InputError
from entice.service.domain.commands import (
    Accept,
    ChangeCampaign,
    CreateCampaign,
    EnterRatings,
    MakeOffer,
    Organic,
    Rate,
)
from entice.service.domain.errors import Corrupt, Refusal, SchemaTooNew, Unavailable
from entice.service.domain.spec import CampaignSpec
from entice.service.operations.alerts import CampaignAlerts
from entice.service.operations.campaign_list import CampaignList
from entice.service.operations.verify import verify
from entice.service.storage import postgres as postgres_module
from entice.service.storage import store as store_module
from entice.service.storage.api_keys import Keys
from entice.service.storage.migrations import Database, migrations
from entice.service.storage.queries import Queries
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Session, Store, open_store, without_password
from entice.service.storage.writer import Writer

__all__ = ["postgres"]


@both_databases
def test_an_empty_database_is_set_up_once_by_concurrent_openers(url: str) -> None:
    together = threading.Barrier(6)
    stores: list[Store] = []
    errors: list[BaseException] = []

    def start() -> None:
        together.wait(20)
        try:
            stores.append(open_store(url))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for store in stores:
        store.check()
        store.check_integrity()
        store.close()


def set_version(url: str, version: int) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
    else:
        with closing(psycopg.connect(url, autocommit=True)) as postgres:
            postgres.execute("UPDATE schema_version SET version = %s", (version,))


@both_databases
def test_a_newer_schema_is_rejected(url: str) -> None:
    open_store(url).close()
    set_version(url, 99)
    with pytest.raises(SchemaTooNew, match="schema version 99"):
        open_store(url)
    set_version(url, len(migrations("sqlite")))
    open_store(url).close()


@both_databases
def test_an_older_schema_is_migrated(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(url).close()
    backend: Database = "sqlite" if url.startswith("sqlite") else "postgres"
    later = [*migrations(backend), "CREATE TABLE later (x BIGINT);\nINSERT INTO later VALUES (7);"]
    if backend == "sqlite":
        later[-1] = later[-1].replace("BIGINT", "INTEGER")
    monkeypatch.setattr(f"entice.service.storage.{backend}.migrations", lambda database: later)
    for _ in range(2):  # the second time is a no-op
        with closing(open_store(url)) as store, store.read() as session:
            assert session.rows("SELECT x FROM later") == [(7,)]
    monkeypatch.undo()
    with pytest.raises(SchemaTooNew, match=f"schema version {len(later)}"):
        open_store(url)


@both_databases
def test_a_failed_migration_changes_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(url).close()
    backend: Database = "sqlite" if url.startswith("sqlite") else "postgres"
    broken = [*migrations(backend), "DROP TABLE answers;\nCREATE TABLE meta (x INTEGER);"]
    monkeypatch.setattr(f"entice.service.storage.{backend}.migrations", lambda database: broken)
    with pytest.raises((Corrupt, psycopg.Error)):
        open_store(url)
    monkeypatch.undo()
    with closing(open_store(url)) as store, store.read() as session:
        assert session.rows("SELECT count(*) FROM answers") == [(0,)]


@both_databases
def test_all_data_survives_reopening(url: str) -> None:
    def at(store: Store) -> Any:
        queries = Queries(store)
        (view,) = queries.campaigns()
        offers = [queries.offer(f"{view.id}.{n}") for n in range(1, 11)]
        return view, queries.arms(view.id), queries.events(view.id, limit=1000), offers

    seen: list[Any] = []
    for _ in range(3):
        store = open_store(url)
        writer = Writer(store, FakeClock(), tick=1e6)
        writer.start()
        if not seen:
            spec = CampaignSpec(
                name="Zoë's 茶", arms=["a", "b"], budget=10**15, price_of_a_star=10**9, seed=2**62
            )
            made = writer.submit(CreateCampaign(spec)).result(60)
            campaign = json.loads(made.body)["id"]
            for player in range(10):
                offer = f"{campaign}.{player + 1}"
                writer.submit(MakeOffer(campaign, hashed(player)))
                writer.submit(Accept(offer))
                writer.submit(Rate(offer, 1 + player % 5)).result(60)
        writer.stop()
        seen.append(at(store))
        assert [verdict.fault for verdict in verify(store)] == [None]
        store.close()
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize(
    "url", ["", "entice.db", "sqlite:", "sqlite://", "sqlite:///", "mysql://h/d"]
)
def test_an_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(InputError, match="sqlite:///entice"):
        open_store(url)


def test_passwords_are_not_displayed() -> None:
    assert without_password("postgresql://me:secret@host/db") == "postgresql://me:…@host/db"
    assert without_password("postgresql://me:se?cr=et@host/db") == "postgresql:…"
    with pytest.raises(InputError) as raised:
        open_store("mysql://me:secret@host/db")
    assert "secret" not in str(raised.value)
    with pytest.raises(Unavailable) as down:
        open_store("postgresql://me:secret@127.0.0.1:1/db")
    assert "secret" not in str(down.value)


malformed_urls = pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hidden%zz@host/db", "postgresql://me:hid@den@host/db",
        "postgresql://me:hidden/1@host/db", "postgresql://me:hidden@host:1x/db",
        "postgresql://me:hidden@host/db?nonsense=1", "postgresql:/me:hidden@host/db",
        "postgresql://me:hidden", "host=here password=hidden", "mysql://me:hidden@host/db",
        "postgresql://me@host/db?password=hidden&nonsense=1", "postgresql://me@host/db?pasword=hidden",
        "postgresql://me@host/db?user=me&PASSWORD=hidden",
        "postgresql://me@host/db?hidden", "postgresql://me@host/db?password=s3&hidden=1", "sqlite://me:hidden@x.db",
    ],
)  # fmt: skip


def reported(url: str) -> str:
    """Return the error of a malformed URL."""
    with pytest.raises(InputError, match="the database must be a URL") as raised:
        open_store(url)
    return str(raised.value)


@malformed_urls
def test_a_malformed_url_is_reported_without_its_password(url: str) -> None:
    """Without the check, psycopg raised an error with the password, which no caller expected."""
    assert "hid" not in reported(url)


@malformed_urls
def test_control_a_malformed_url_that_is_reported_as_it_is_shows_its_password(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (store_module, postgres_module):
        monkeypatch.setattr(module, "without_password", lambda url: url)
    assert "hid" in reported(url)


def test_a_misspelled_parameter_of_a_url_is_corrected() -> None:
    reports = [reported(f"postgresql://me@host/db?{name}=hidden") for name in ("pasword", "PORT")]
    assert ["Did you mean password?" in reports[0], "mean port?" in reports[1]] == [True, True]
    assert postgres_module._parameters("postgresql://me@host/db?ssl=true")["sslmode"] == "require"


def test_a_file_that_is_not_a_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "noise.db").write_bytes(bytes(range(256)) * 100)
    with pytest.raises(Corrupt):
        open_store(f"sqlite:///{tmp_path / 'noise.db'}")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE cookies (x)")
    with pytest.raises(Corrupt, match="not one of Entice"):
        open_store(f"sqlite:///{tmp_path / 'other.db'}")
    with pytest.raises(Unavailable):
        open_store(f"sqlite:///{tmp_path}")
    with pytest.raises(InputError, match="an existing folder"):
        open_store(f"sqlite:///{tmp_path / 'no' / 'folder.db'}")


@both_databases
def test_a_closed_store_raises_or_reconnects(url: str) -> None:
    store = open_store(url)
    store.check()
    store.close()
    store.close()
    try:
        store.check()
    except Unavailable:
        pass
    finally:
        store.close()


@both_databases
def test_a_nested_transaction_is_rejected(url: str) -> None:
    with closing(open_store(url)) as store:
        with (
            pytest.raises((Corrupt, AssertionError)),
            store.read(),
            store.read() as session,
        ):
            session.rows("SELECT 1")
        store.check()


def terminate(url: str, session: Session) -> None:
    """Terminate a session's connection, as a network failure would."""
    (pid,) = session.rows("SELECT pg_backend_pid()")[0]
    with closing(psycopg.connect(url, autocommit=True)) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (pid,))


def test_a_broken_connection_to_postgres_is_reported_and_reopened(postgres: Postgres) -> None:
    url = postgres.new_database()

    def lose(way: Callable[[], Any], last: str | None) -> None:
        with way() as session:
            terminate(url, session)
            if last is not None:
                session.rows(last)

    with closing(open_store(url)) as store:
        for way in (store.read, store.write):
            with pytest.raises(Unavailable):
                lose(way, "SELECT 1")
            store.check()
        with pytest.raises(Unavailable, match="not known"):  # it breaks during the commit
            lose(store.write, None)
        store.check()


def test_a_locked_file_is_unavailable_until_it_is_unlocked(tmp_path: Path) -> None:
    def impatient(path: str) -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.05)

    with (
        closing(SqliteStore(tmp_path / "entice.db", connect=impatient)) as store,
        closing(sqlite3.connect(tmp_path / "entice.db", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"), store.write():
            pass
        store.check()  # readers are not blocked
        other.execute("ROLLBACK")
        with store.write() as session:
            session.run("INSERT INTO meta VALUES ('x', x'01')")


def test_the_integrity_check_detects_damage(tmp_path: Path) -> None:
    path = tmp_path / "entice.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.check_integrity()
        with store.write() as session:
            for n in range(2000):
                session.run("INSERT INTO meta VALUES (?, ?)", (f"{n}", bytes(100)))
    damaged = bytearray(path.read_bytes())
    damaged[-8000:-4000] = bytes(4000)
    path.write_bytes(damaged)
    with (
        pytest.raises(Corrupt, match="damaged"),
        closing(open_store(f"sqlite:///{path}")) as store,
    ):
        store.check_integrity()


def test_every_sqlite_connection_has_the_durability_settings(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "entice.db")) as store:
        for way in (store.read, store.write):
            with way() as session:
                for pragma, value in (
                    ("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1),
                ):  # fmt: skip
                    assert session.rows(f"PRAGMA {pragma}") == [(value,)]


def test_a_backup_is_made_while_the_database_is_in_use(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "entice.db")) as store:
        stop = threading.Event()

        def write() -> None:
            n = 0
            while not stop.is_set():
                with store.write() as session:  # two rows per transaction
                    rows = [(f"{n} {part}", b"x" * 500) for part in "ab"]
                    for row in rows:
                        session.run("INSERT INTO meta VALUES (?, ?)", row)
                n += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for i in range(3):
                store.backup(tmp_path / f"copy{i}.db")
        finally:
            stop.set()
            thread.join()
    counts = []
    for i in range(3):
        with closing(open_store(f"sqlite:///{tmp_path / f'copy{i}.db'}")) as copy:
            copy.check_integrity()
            with copy.read() as session:
                counted = "SELECT count(*) FROM meta WHERE name <> 'unsealed'"
                counts.append(session.rows(counted)[0][0])
    assert all(count % 2 == 0 for count in counts)
    assert counts == sorted(counts)


def test_sessions_implement_the_protocol(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path / 'entice.db'}")) as store, store.read() as one:
        session: Session = one
        assert session.rows("SELECT ? + 1", (2**62,)) == [(2**62 + 1,)]


@both_databases
def test_campaigns_are_found_and_the_last_administrator_is_kept(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTICE_SECRET", "00" * 32)
    with closing(open_store(url)) as store:
        writer = Writer(store, FakeClock())
        writer.start()
        spec = {"arms": ["a", "b"], "price_of_a_star": 100, "seed": 7}
        for name, budget in (("Tea", 500), ("Coffee", 200), ("Teapots", 500)):
            made = CampaignSpec.from_plain({**spec, "name": name, "budget": budget})
            answer = writer.submit(CreateCampaign(made)).result()
            if name == "Coffee":  # its offer reserves the whole budget: 2 stars
                coffee = json.loads(answer.body)["id"]
                writer.submit(EnterRatings(coffee, [Organic("a", 5)])).result()
                writer.submit(MakeOffer(coffee, hashed(1))).result()
        campaigns = CampaignList(store, CampaignAlerts(Queries(store).drifts))
        page = campaigns.page(search="tea", sort="-name", limit=1)
        assert [c.name for c in page.campaigns] == ["Teapots"]
        assert (page.more, page.total) == (True, 2)
        last = campaigns.page(search="tea", sort="-name", limit=1, after=page.campaigns[0].id)
        assert ([c.name for c in last.campaigns], last.more) == (["Tea"], False)
        first = campaigns.page(sort="-alerts", limit=9).campaigns[0]
        assert (first.name, [a.kind for a in first.alerts]) == ("Coffee", ["budget_used_up"])
        change = ChangeCampaign(campaign=first.id, budget=900, status="paused")
        writer.submit(change).result()
        [paused] = campaigns.page(status="paused", limit=9).campaigns
        assert (paused.budget, paused.alerts) == (900, [])
        writer.stop()
        keys = Keys(store)
        with pytest.raises(Refusal, match="first key"):
            keys.create("read", None, "reader", keep_admin=True)
        one, _ = keys.create("admin", None, "one", keep_admin=True)
        with pytest.raises(Refusal, match="last key"):
            keys.revoke(one.id, keep_admin=True)
        keys.create("admin", None, "two")
        assert keys.revoke(one.id, keep_admin=True).revoked is not None
