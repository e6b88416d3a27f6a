"""Stores conform, and the conformance checks find stores that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from oracles.service_comparison import SideBySide
from postgres import Postgres, both_databases, postgres
from writer_fixtures import Service

from entice.service.operations import conformance
from entice.service.operations.conformance import CHECKS, NotConforming, Open, check_store
from entice.service.storage.migrations import migrations
from entice.service.storage.postgres import PostgresStore
from entice.service.storage.sqlite import SqliteSession, SqliteStore
from entice.service.storage.store import open_store

__all__ = ["postgres"]


@both_databases
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_store_conforms(url: str, check: Callable[[Open], None]) -> None:
    check(lambda: open_store(url))


def test_the_checks_leave_a_database_unchanged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'entice.db'}"
    check_store(lambda: open_store(url))
    with closing(open_store(url)) as store, store.read() as session:
        counts = [
            session.rows(f"SELECT count(*) FROM {table}")[0][0]
            for table in ("campaigns", "answers", "offers")
        ]
        assert counts == [
            1,
            0,
            80,
        ]  # from the check with two writers, which is a campaign of the service


class Broken(SqliteStore):
    """Base class of stores that break one guarantee."""


class CommitsOnError(Broken):
    @contextmanager
    def write(self) -> Iterator[SqliteSession]:
        with self._lock:
            self._writer.run("BEGIN IMMEDIATE")
            try:
                yield self._writer
            finally:
                self._writer.run("COMMIT")


class NeverCommits(Broken):
    @contextmanager
    def write(self) -> Iterator[SqliteSession]:
        with self._lock:
            self._writer.run("BEGIN IMMEDIATE")
            try:
                yield self._writer
            finally:
                self._writer.run("ROLLBACK")


class SwallowsErrors(Broken):
    @contextmanager
    def write(self) -> Iterator[SqliteSession]:
        with super().write() as session:
            yield session
            if "failed" in str(session.rows("SELECT id FROM campaigns WHERE reserved = 3")):
                session.run("UPDATE campaigns SET reserved = 0")


class ReadsWithoutSnapshot(Broken):
    @contextmanager
    def read(self) -> Iterator[SqliteSession]:
        with closing(self._connect(str(self.path))) as connection:
            yield SqliteSession(connection)


class ReadsUncommitted(Broken):
    @contextmanager
    def read(self) -> Iterator[SqliteSession]:
        yield self._writer


class WritesWithoutLock(Broken):
    @contextmanager
    def write(self) -> Iterator[SqliteSession]:
        with closing(self._connect(str(self.path))) as connection:
            yield SqliteSession(connection)  # each statement commits by itself


class _WrongRowCountSession(SqliteSession):
    def run(self, sql: str, params: Any = ()) -> int:
        super().run(sql, params)
        return 1


class ReportsWrongRowCounts(Broken):
    @contextmanager
    def write(self) -> Iterator[SqliteSession]:
        with super().write() as session:
            yield _WrongRowCountSession(session.connection)


class _LossySession(SqliteSession):
    def rows(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        found = super().rows(sql, params)
        return [
            tuple(float(v) if isinstance(v, int) and v > 2**53 else v for v in row) for row in found
        ]


class LosesPrecision(Broken):
    @contextmanager
    def read(self) -> Iterator[SqliteSession]:
        with super().read() as session:
            yield _LossySession(session.connection)


class _TruncatingSession(SqliteSession):
    def rows_where_in(self, *arguments: Any) -> list[tuple[Any, ...]]:
        return super().rows_where_in(*arguments)[:100]


class TruncatesLookups(Broken):
    @contextmanager
    def read(self) -> Iterator[SqliteSession]:
        with super().read() as session:
            yield _TruncatingSession(session.connection)


@pytest.mark.parametrize(
    ("store", "check"),
    [
        (CommitsOnError, conformance.a_write_is_atomic),
        (NeverCommits, conformance.a_write_is_durable),
        (SwallowsErrors, conformance.a_failed_statement_is_not_ignored),
        (ReadsWithoutSnapshot, conformance.a_read_is_a_snapshot),
        (ReadsWithoutSnapshot, conformance.a_read_cannot_write),
        (ReadsUncommitted, conformance.readers_and_writers_do_not_block_each_other),
        (WritesWithoutLock, conformance.no_update_is_lost),
        (ReportsWrongRowCounts, conformance.a_conditional_update_reports_its_rows),
        (LosesPrecision, conformance.values_are_stored_exactly),
        (TruncatesLookups, conformance.bulk_inserts_and_lookups_are_complete),
    ],
    ids=lambda part: part.__name__,
)
def test_a_store_that_breaks_a_guarantee_is_detected(
    tmp_path: Path, store: type[SqliteStore], check: Callable[[Open], None]
) -> None:
    with pytest.raises((NotConforming, IndexError)):
        check(lambda: store(tmp_path / "entice.db"))


@pytest.mark.parametrize(
    ("missing", "check"),
    [
        ("CHECK (reserved + committed <= budget)", conformance.an_overspent_budget_is_rejected),
        (" CHECK (reserved >= 0)", conformance.a_failed_statement_is_not_ignored),
        ("CREATE UNIQUE INDEX live_offers", conformance.a_player_has_one_live_offer),
        (
            " REFERENCES campaigns (number)",
            conformance.foreign_keys_are_enforced,
        ),
    ],
    ids=["budget", "amount", "live offer", "campaign"],
)
def test_a_schema_without_a_constraint_is_detected(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    check: Callable[[Open], None],
) -> None:
    script, *later = migrations("sqlite")
    assert missing in script
    instead = {"CREATE UNIQUE INDEX live_offers": "CREATE INDEX live_offers"}.get(missing, "")
    if missing.startswith("CHECK (reserved + "):
        instead = "CHECK (true)"
    poorer = [script.replace(missing, instead), *later]
    monkeypatch.setattr("entice.service.storage.sqlite.migrations", lambda database: poorer)
    with pytest.raises(NotConforming):
        check(lambda: open_store(f"sqlite:///{tmp_path / 'entice.db'}"))


def test_postgres_without_locks_loses_updates_and_is_detected(postgres: Postgres) -> None:
    url = postgres.new_database()

    class Unlocked(PostgresStore):
        for_update = ""

    with pytest.raises(NotConforming, match="concurrent increments"):
        conformance.no_update_is_lost(lambda: Unlocked(url))


@pytest.mark.parametrize("seed", [0, 3, 4, 7])
def test_on_postgres_the_service_agrees_with_the_oracle(
    postgres: Postgres, tmp_path: Path, seed: int
) -> None:
    with closing(Service(tmp_path, postgres.new_database())) as service:
        both = SideBySide(service, seed, **({"holdout": 0.4} if seed >= 4 else {}))
        both.run(steps=80)
        assert service.faults(both.id) == [None]
