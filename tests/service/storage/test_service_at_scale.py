"""Large campaigns: every query uses an index, and a backup completes under load."""

from __future__ import annotations

import itertools
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from entice.service.domain.clock import Clock
from entice.service.domain.commands import (
    Accept,
    ChangeCampaign,
    CreateCampaign,
    Decline,
    MakeOffer,
    MakeOffers,
    Rate,
    Reverse,
)
from entice.service.domain.spec import CampaignSpec
from entice.service.operations import alerts
from entice.service.operations.alerts import CampaignAlerts
from entice.service.operations.campaign_list import CampaignList
from entice.service.operations.metrics import read_gauges
from entice.service.operations.verify import verify
from entice.service.storage import sqlite
from entice.service.storage.queries import Queries
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.writer import Writer

SPEC = CampaignSpec(
    name="scale",
    arms=["a", "b", "c"],
    budget=10**6,
    price_of_a_star=100,
    cap_per_player=500,
    seed=7,
)


class TickingClock(Clock):
    """A clock that advances by a quarter of an hour on request."""

    ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead


def body(answer: Any) -> Any:
    return msgspec.json.decode(answer.result(timeout=30).body)


def players(first: int = 1) -> Iterator[bytes]:
    return (n.to_bytes(16, "big") for n in itertools.count(first))


@pytest.fixture
def queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """All SQL queries that the service runs."""
    monkeypatch.setattr(alerts, "RECENT_OFFERS", 5)
    said: set[str] = set()

    def connect(path: str) -> sqlite3.Connection:
        connection = sqlite.connect(path)
        connection.set_trace_callback(said.add)
        return connection

    clock = TickingClock()
    with closing(SqliteStore(tmp_path / "entice.db", connect)) as store:
        writer, queries = Writer(store, clock, tick=0.05), Queries(store)
        writer.start()
        campaign = body(writer.submit(CreateCampaign(SPEC), scope="x", key="k"))["id"]
        who = players()
        batch = MakeOffers(campaign, [MakeOffer(campaign, next(who)) for _ in range(20)])
        offers = [offer["id"] for offer in body(writer.submit(batch))["offers"]]
        offers += [body(writer.submit(MakeOffer(campaign, next(who))))["id"] for _ in range(10)]
        for offer in offers[:10]:
            writer.submit(Accept(offer)).result()
            writer.submit(Rate(offer, 4), scope="x", key=offer).result()
        writer.submit(Reverse(offers[0])).result()
        writer.submit(Decline(offers[10])).result()
        found = CampaignAlerts(queries.drifts)
        CampaignList(store, found).page(sort="-alerts", limit=1000)
        read_gauges(store, found.of_all, lambda: 0.0)
        clock.ahead = 1000 * 1_000_000
        while queries.campaign(campaign).in_flight:
            pass
        writer.submit(MakeOffer(campaign, next(who))).result()
        writer.submit(ChangeCampaign(campaign=campaign, status="closed")).result()
        queries.offer(offers[0])
        queries.events(campaign, 10, 10)
        queries.arms(campaign)
        queries.spending(campaign)
        writer.stop()
    return said


def test_no_query_scans_a_whole_campaign(queries: set[str], tmp_path: Path) -> None:
    tables = re.compile(r"\b(offers|events|answers)\b")
    statements = [sql for sql in queries if tables.search(sql) and not sql.startswith("INSERT")]
    statements = [sql for sql in statements if sql.startswith(("SELECT", "UPDATE", "DELETE"))]
    assert len(statements) > 30
    with closing(sqlite3.connect(tmp_path / "entice.db")) as connection:
        slow = [
            (step, sql)
            for sql in statements
            for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}")
            if re.search(r"SCAN (offers|events|answers|o|e)\b", step)
            or re.search(r"(offers|o) USING PRIMARY KEY \(campaign=\?\)", step)
        ]
    # The highest number of a campaign is the last entry of the primary key.
    assert [pair for pair in slow if "max(n)" not in pair[1]] == []


def test_a_backup_completes_during_writes(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "entice.db")) as store:
        writer = Writer(store, Clock())
        writer.start()
        campaign = body(writer.submit(CreateCampaign(SPEC)))["id"]
        for first in range(0, 6000, 1000):
            who = players(first + 1)
            batch = [MakeOffer(campaign, next(who)) for _ in range(1000)]
            writer.submit(MakeOffers(campaign, batch)).result()
        enough = threading.Event()

        def write() -> None:
            for player in players(10**6):
                writer.submit(MakeOffer(campaign, player)).result()
                if enough.is_set():
                    return

        thread = threading.Thread(target=write)
        thread.start()
        try:
            copying = threading.Thread(target=store.backup, args=(tmp_path / "copy.db",))
            copying.start()
            copying.join(30)
            assert not copying.is_alive()
        finally:
            enough.set()
            thread.join()
            writer.stop()
    with closing(SqliteStore(tmp_path / "copy.db")) as copy:
        (verdict,) = verify(copy)
        assert verdict.fault is None
        assert verdict.events > 6000
