"""A PostgreSQL that stays connected but forwards nothing: 503 in time, recovery, nothing lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from postgres import Postgres, postgres
from service_fixtures import Service, assert_problem, service
from silent_proxy import SilentProxy

from entice.service.storage import postgres as module
from entice.service.storage.postgres import PostgresStore
from entice.service.storage.queries import Queries

__all__ = ["postgres"]

WITHIN = 5.0
"""Seconds within which each request must be answered."""


@pytest.fixture
def proxied(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Service, SilentProxy]]:
    """A service behind a proxy that can be silenced."""
    monkeypatch.setattr(module, "SILENT_AFTER", 0.2)
    monkeypatch.setenv("ENTICE_SECRET", "00" * 32)
    with (
        SilentProxy(postgres.new_database()) as proxy,
        service(tmp_path, url=proxy.url) as running,
    ):
        yield running, proxy
        proxy.silence("none")


def timed(call: Callable[[], httpx.Response]) -> tuple[httpx.Response, float]:
    start = time.monotonic()
    return call(), time.monotonic() - start


def test_a_silent_server_gives_503_in_time_and_the_service_recovers(
    proxied: tuple[Service, SilentProxy],
) -> None:
    shop, proxy = proxied
    campaign = shop.campaign()
    client, path = shop.client, f"/v1/campaigns/{campaign}"

    def offer(n: int) -> httpx.Response:
        headers = {"idempotency-key": f"k{n}"}
        return client.post(f"{path}/offers", json={"player": f"p{n}"}, headers=headers)

    assert offer(0).status_code == 201
    proxy.silence("both")
    calls: list[Callable[[], httpx.Response]] = [
        lambda: client.get("/readyz"), lambda: client.get(path),
        *(lambda n=n: offer(n) for n in range(1, 4)),
    ]  # fmt: skip
    with ThreadPoolExecutor(len(calls)) as threads:
        answers = list(threads.map(timed, calls))
    for answer, seconds in answers:
        assert_problem(answer, 503, "unavailable")
        assert seconds < WITHIN
    proxy.silence("none")
    start = time.monotonic()
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() - start < WITHIN
        time.sleep(0.05)
    assert [offer(n).status_code for n in range(1, 4)] == [201] * 3
    assert client.get(path).json()["decisions"] == 4


def test_an_offer_whose_commit_was_cut_is_repeated_once(
    proxied: tuple[Service, SilentProxy],
) -> None:
    shop, proxy = proxied
    campaign = shop.campaign()
    path, headers = f"/v1/campaigns/{campaign}/offers", {"idempotency-key": "one"}
    proxy.silence("commits")  # the server commits, but its answer does not arrive
    cut, seconds = timed(lambda: shop.client.post(path, json={"player": "a"}, headers=headers))
    assert_problem(cut, 503, "unavailable")
    assert seconds < WITHIN
    proxy.silence("none")
    for _ in range(100):
        again = shop.client.post(path, json={"player": "a"}, headers=headers)
        if again.status_code != 503:
            break
        time.sleep(0.05)
    assert again.status_code == 201
    assert again.headers["idempotency-replayed"] == "true"  # so it had been committed
    assert shop.client.get(f"/v1/campaigns/{campaign}").json()["decisions"] == 1


def test_a_slow_statement_is_not_a_silent_server(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_AFTER", 0.05)
    with closing(PostgresStore(postgres.new_database())) as store, store.read() as session:
        assert session.rows("SELECT 1 FROM pg_sleep(0.3)") == [(1,)]


def test_without_the_test_for_silence_a_read_would_wait_for_ever(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: psycopg's own `wait`, with keepalives and tcp_user_timeout, does not end."""
    monkeypatch.setattr(module._Connection, "wait", psycopg.Connection.wait)
    with SilentProxy(postgres.new_database()) as proxy:
        store = PostgresStore(proxy.url)
        proxy.silence("both")
        outcome: list[Any] = []

        def read() -> None:
            try:
                outcome.append(Queries(store).campaigns())
            except Exception as error:
                outcome.append(error)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(1.5)
        assert outcome == []
        proxy.silence("none")
        thread.join(10)
        assert outcome == [[]]
        store.close()
