"""Budget race: 64 concurrent clients at the limit of a budget, which is never exceeded."""

from __future__ import annotations

import http.client
import json
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from sizes import sized

from entice.service.storage.store import open_store
from service_faults.audit import Audit, audit, faults
from service_faults.outcome import Outcome
from service_faults.processes import Postgres, Server, call, folder, postgres, token_header

CLIENTS = 64
BATCH = 50
ARMS = [f"item-{i}" for i in range(9)]
SEGMENTS = ["new", "regular"]
CAMPAIGN = {
    "name": "Race",
    "arms": ARMS,
    "policy": {"kind": "epsilon_greedy", "c": 1e9},  # always explores, so it always pays
    "budget": 12_000,
    "price_of_a_star": 100,
    "offer_expires_after": 86_400,
    "holdout": 0.1,
    "overlap": 0.1,
    "segments": SEGMENTS,
    "price": {"kind": "learned", "explore": 0.2},
    "seed": 4,
}


class RaceClient(threading.Thread):
    """A client that uses and releases the budget as fast as it can."""

    def __init__(self, port: int, campaign: str, number: int, quota: Quota) -> None:
        super().__init__(name=f"client-{number}", daemon=True)
        self.statuses: Counter[int] = Counter()
        self.error: BaseException | None = None
        self._rng = random.Random(number)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._token = token_header(port)
        self._offers = f"/v1/campaigns/{campaign}/offers"
        self._quota = quota
        self._sent = 0

    def run(self) -> None:
        """Make offers until the quota is used up."""
        try:
            while size := self._quota.take(BATCH if self._rng.random() < 1 / 9 else 1):
                self._settle(self._decide(size))
        except BaseException as error:
            self.error = error
        finally:
            self._connection.close()

    def _decide(self, size: int) -> list[Any]:
        players = [
            {"player": f"{self.name} {self._rng.random()}", "segment": SEGMENTS[(size + i) % 2]}
            for i in range(size)
        ]
        if size == 1:
            return [self._send(self._offers, players[0])]
        offers: list[Any] = self._send(f"{self._offers}/batch", {"requests": players})["offers"]
        return offers

    def _settle(self, offers: list[Any]) -> None:
        """Release most of the money in every possible way; other clients compete for it."""
        for offer in offers:
            path, luck = f"/v1/offers/{offer['id']}", self._rng.random()
            if offer["amount"] == 0:
                continue
            if luck < 0.7:
                self._send(f"{path}/decline", {})
            elif luck < 0.999:
                self._send(f"{path}/accept", {"amount": offer["amount"] // 2})
                self._send(f"{path}/reverse", {})
            else:
                self._send(f"{path}/accept", {})

    def _send(self, path: str, sent: Any) -> Any:
        self._sent += 1
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": f"{self.name}-{self._sent}",
            **self._token,
        }
        while True:
            self._connection.request("POST", path, json.dumps(sent), headers)
            response = self._connection.getresponse()
            body = response.read()
            self.statuses[response.status] += 1
            if response.status < 300:
                return json.loads(body)
            if response.status != 503:
                raise RuntimeError(f"{path}: {response.status} {body.decode()[:300]}")
            time.sleep(0.05)


class Quota:
    """The number of decisions left."""

    def __init__(self, decisions: int) -> None:
        self._left = decisions
        self._lock = threading.Lock()

    def take(self, wanted: int) -> int:
        """Take up to `wanted` decisions."""
        with self._lock:
            taken = min(wanted, self._left)
            self._left -= taken
            return taken


class Raced(NamedTuple):
    """The result of a race."""

    audit: Audit
    requests: int
    seconds: float
    problems: list[str]

    @property
    def passed(self) -> bool:
        """Whether the budget was never exceeded and nothing else was wrong."""
        return self.audit.passed and not self.problems

    def describe(self, where: str) -> str:
        """Describe the result."""
        share = self.audit.limited / max(1, self.audit.decisions)
        return (
            f"{where}: budget exceeded after {self.audit.exceeded} of {self.audit.events:,} events "
            f"({share:.0%} of decisions at the limit, "
            f"{self.requests / self.seconds:,.0f} requests/s)"
        )


def race(url: str, where: Path, workers: int, decisions: int) -> Raced:
    """Run all clients on one campaign."""
    with Server(url, where, workers) as server:
        campaign = _prepare(server.port)
        quota = Quota(decisions)
        clients = [RaceClient(server.port, campaign, i, quota) for i in range(CLIENTS)]
        start = time.monotonic()
        for client in clients:
            client.start()
        for client in clients:
            client.join(3600)
        seconds = time.monotonic() - start
        server.stop()
    problems = [
        f"{client.name}: {client.error!r}" for client in clients if client.error is not None
    ]
    with closing(open_store(url)) as store:
        seen = audit(store, campaign)
        problems += faults(store)
    if seen.decisions != decisions:
        problems.append(f"{seen.decisions} decisions were made, not {decisions}")
    return Raced(seen, sum(r.statuses.total() for r in clients), seconds, problems)


def _prepare(port: int) -> str:
    """Create a campaign in which most arms are worse than the best, and so cost something."""
    status, body = call(port, "POST", "/v1/campaigns", json.dumps(CAMPAIGN).encode(), timeout=60)
    if status != 201:
        raise RuntimeError(body.decode())
    campaign = str(json.loads(body)["id"])
    ratings = [
        {"arm": arm, "rating": 1 + 5 * i // 9, "segment": SEGMENTS[0]} for i, arm in enumerate(ARMS)
    ]
    status, body = call(
        port, "POST", f"/v1/campaigns/{campaign}/ratings", json.dumps({"ratings": ratings}).encode()
    )
    if status != 201:
        raise RuntimeError(body.decode())
    return campaign


Spend = Callable[[random.Random], bool]
BUDGET = 6_000


def count_overspent_rounds(opened: Callable[[], Any], mark: str, rounds: int, enough: int) -> int:
    """Run the control, check-then-write, with the same number of clients.

    Returns the number of rounds, of `rounds`, in which the budget was exceeded. Stops after
    `enough` of them.
    """
    exceeded = 0
    with closing(opened()) as connection:
        connection.execute("CREATE TABLE control (spent BIGINT NOT NULL)")
        connection.execute("INSERT INTO control VALUES (0)")
        for _ in range(rounds):
            connection.execute("UPDATE control SET spent = 0")
            ready = threading.Barrier(CLIENTS)
            clients = [
                threading.Thread(
                    target=_check_then_write, args=(opened, mark, ready, i), daemon=True
                )
                for i in range(CLIENTS)
            ]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            (spent,) = connection.execute("SELECT spent FROM control").fetchone()
            exceeded += spent > BUDGET
            if exceeded == enough:
                break
    return exceeded


def _check_then_write(
    opened: Callable[[], Any], mark: str, ready: threading.Barrier, seed: int
) -> None:
    rng = random.Random(seed)
    with closing(opened()) as connection:
        ready.wait()
        while True:
            amount = rng.randint(1, 400)
            (spent,) = connection.execute("SELECT spent FROM control").fetchone()
            if spent + amount > BUDGET:
                return
            connection.execute(f"UPDATE control SET spent = spent + {mark}", (amount,))


def _controls(where: Path, server: Postgres, rounds: int, enough: int) -> tuple[int, int]:
    def sqlite() -> sqlite3.Connection:
        path = str(where / "control.db")
        connection = sqlite3.connect(path, isolation_level=None, timeout=60)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    url = server.new_database("control")
    return count_overspent_rounds(sqlite, "?", rounds, enough), count_overspent_rounds(
        lambda: psycopg.connect(url, autocommit=True), "%s", rounds, enough
    )


def run(long: bool) -> Outcome:
    """Race for 200,000 decisions, or 1,600 in the short version."""
    decisions, rounds, processes = (100_000, 20, 4) if long else (sized(800, 1_500), 3, 2)
    enough = rounds if long else sized(1, rounds)
    with folder() as where, postgres() as server:
        sqlite = race(f"sqlite:///{where / 'entice.db'}", where, 1, decisions)
        shared = race(server.new_database("race"), where, processes, decisions)
        on_sqlite, on_postgres = _controls(where, server, rounds, enough)
    problems = [*sqlite.problems, *shared.problems]
    return Outcome(
        "budget race",
        f"{CLIENTS} clients, {sqlite.audit.decisions + shared.audit.decisions:,} decisions, "
        f"{sqlite.requests + shared.requests:,} requests",
        f"{sqlite.describe('SQLite')}; {shared.describe(f'PostgreSQL with {processes} processes')}"
        + "".join(f"; {what}" for what in problems[:3]),
        f"check-then-write: budget exceeded in {on_sqlite} rounds on SQLite and {on_postgres} on "
        f"PostgreSQL, of at most {rounds}",
        sqlite.passed
        and shared.passed
        and min(race.audit.limited / race.audit.decisions for race in (sqlite, shared)) > 0.5
        and on_sqlite + on_postgres > 0,
    )
