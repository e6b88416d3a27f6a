"""Reads with one key do not delay those with another."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from service_fixtures import Service, assert_problem, service

from entice.api_types import PlayerView
from entice.service.domain.commands import Expire
from entice.service.domain.errors import Refusal
from entice.service.http import read_threads
from entice.service.http.read_threads import (
    ReadTurns,
    in_slow_thread,
    in_thread,
)
from entice.service.operations.invariants import read_trust_view
from entice.service.operations.metrics import read_campaign_gauges
from entice.service.storage import queries
from entice.service.thread_switching import INTERVAL


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("read_turns")) as made:
        yield made


@pytest.mark.parametrize("taking_turns", [True, False], ids=["turns", "control: a pool only"])
def test_one_key_uses_one_thread_at_a_time(taking_turns: bool) -> None:
    """Without turns, the reads of one key take all threads, and other keys wait."""
    release, running, most = threading.Event(), [0], [0]
    lock = threading.Lock()

    def read() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        release.wait(10)
        with lock:
            running[0] -= 1

    async def run() -> str:
        turns = ReadTurns()
        reads = [
            asyncio.create_task(turns.read("a", False, read) if taking_turns else in_thread(read))
            for _ in range(6)
        ]
        await asyncio.sleep(0.05)
        other = await turns.read("b", False, lambda: "other") if taking_turns else ""
        release.set()
        await asyncio.gather(*reads)
        return other

    assert asyncio.run(run()) == ("other" if taking_turns else "")
    assert (most[0] == 1) == taking_turns


def test_only_the_key_with_too_many_reads_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_threads, "MAX_WAITING", 3)
    release = threading.Event()

    async def run() -> None:
        turns = ReadTurns()
        reads = [asyncio.create_task(turns.read("a", True, release.wait, 10)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Refusal) as rejected:
            await turns.read("a", True, int)
        assert rejected.value.status == 429
        assert await turns.read("b", True, int) == 0
        release.set()
        await asyncio.gather(*reads)
        assert await turns.read("a", True, int) == 0

    asyncio.run(run())


def test_python_switches_between_threads_more_often_during_reads_only() -> None:
    before = sys.getswitchinterval()
    release = threading.Event()

    def fail() -> None:
        raise ValueError

    async def run() -> None:
        long = asyncio.create_task(in_slow_thread(release.wait, 10))
        # Reads that end, also with an error, do not end it for the others.
        assert await in_thread(sys.getswitchinterval) == pytest.approx(INTERVAL)
        with pytest.raises(ValueError):
            await in_thread(fail)
        assert sys.getswitchinterval() == pytest.approx(INTERVAL)
        release.set()
        await long
        assert sys.getswitchinterval() == pytest.approx(before)

    asyncio.run(run())
    assert pytest.approx(before) != INTERVAL
    assert sys.getswitchinterval() == pytest.approx(before)


def test_a_player_is_read_in_the_turns_of_slow_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path) as shop:
        check_turns_of_players(shop, monkeypatch)


def check_turns_of_players(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_threads, "MAX_WAITING", 1)
    reading, release = threading.Event(), threading.Event()

    def read_slowly(*_: Any) -> PlayerView:
        reading.set()
        release.wait(30)
        return PlayerView([])

    monkeypatch.setattr(shop.context.queries, "player", read_slowly)
    own, other = shop.bearer("read"), shop.bearer("read")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(shop.client.get, "/v1/players/ann", headers=own)
        assert reading.wait(30)
        try:
            rejected = shop.client.get("/v1/players/bob", headers=own)
            assert_problem(rejected, 429, "too-many-reads")
            # Fast reads with the same key, and other keys, have turns of their own.
            assert shop.client.get("/v1/campaigns", headers=own).status_code == 200
            monkeypatch.setattr(shop.context.queries, "player", lambda *_: PlayerView([]))
            assert shop.client.get("/v1/players/bob", headers=other).status_code == 200
        finally:
            release.set()
        assert first.result(30).status_code == 200


def test_trust_reads_the_campaign_of_the_key_only(
    shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`read_trust_view` used to read the gauges of every campaign, and then dropped the others."""
    own, other = shop.campaign(), shop.campaign()
    read: list[list[str]] = []

    def recorded(session: Any, only: str | None = None) -> Any:
        gauges = read_campaign_gauges(session, only)
        read.append([each.id for each in gauges])
        return gauges

    monkeypatch.setattr("entice.service.operations.invariants.read_campaign_gauges", recorded)
    assert [each.id for each in read_trust_view(shop.store, own, {}).campaigns] == [own]
    assert {each.id for each in read_trust_view(shop.store, None, {}).campaigns} >= {own, other}
    assert read[0] == [own]
    assert set(read[1]) >= {own, other}


def test_a_large_page_of_events_ends_early(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = shop.campaign()
    for player in range(30):
        shop.offer(campaign, f"p{player}")
    path = f"/v1/campaigns/{campaign}/events"
    monkeypatch.setattr(queries, "MAX_PAGE_BYTES", 2000)
    found: list[int] = []
    after: int | None = 0
    while after is not None:
        page = shop.client.get(path, params={"after": after, "limit": 1000}).json()
        assert len(page["events"]) < 10
        found += [event["seq"] for event in page["events"]]
        after = page["next"]
    assert found == list(range(1, 32))


def test_a_full_queue_of_a_campaign_is_reported(
    shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, other = shop.campaign(), shop.campaign()
    monkeypatch.setattr("entice.service.storage.fair_queue.MAX_WAITING_PER_CAMPAIGN", 1)
    shop.client.post(f"/v1/campaigns/{campaign}/offers", json={"player": "warm-up"})
    with shop.store.write():  # the writer waits for the database
        writer = shop.context.writer
        waiting = [writer.submit(Expire(campaign))]
        while writer.depth:  # until the writer has taken it
            time.sleep(0.001)
        waiting.append(writer.submit(Expire(campaign)))
        answer = shop.client.post(f"/v1/campaigns/{campaign}/offers", json={"player": "p"})
        assert_problem(answer, 429, "too-many-waiting")
        assert answer.headers["retry-after"] == "1"
        waiting.append(writer.submit(Expire(other)))
    for future in waiting:
        assert future.result(10).status == 200
