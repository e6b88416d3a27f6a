"""The budget race: 64 clients at once, a budget that most decisions hit, and nothing overspent."""

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

from entice.service.storage.store import open_store
from service_faults.audit import Audit, audit, faults
from service_faults.outcome import Outcome
from service_faults.processes import Postgres, Server, call, folder, postgres

CLIENTS = 64
BATCH = 50
PROCESSES = 4
ARMS = [f"item-{i}" for i in range(9)]
CAMPAIGN = {
    "name": "Race",
    "arms": ARMS,
    "policy": {"kind": "epsilon_greedy", "c": 1e9},  # explores always, so it always wants to pay
    "budget": 20_000,
    "price_of_a_star": 100,
    "offer_expires_after": 86_400,
    "seed": 4,
}


class Racer(threading.Thread):
    """A client that takes from the budget and gives back, as fast as it is answered."""

    def __init__(self, port: int, campaign: str, number: int, quota: Quota) -> None:
        super().__init__(name=f"racer-{number}", daemon=True)
        self.statuses: Counter[int] = Counter()
        self.error: BaseException | None = None
        self._rng = random.Random(number)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._offers = f"/v1/campaigns/{campaign}/offers"
        self._quota = quota
        self._sent = 0

    def run(self) -> None:
        """Go on until all decisions are made."""
        try:
            while size := self._quota.take(BATCH if self._rng.random() < 1 / 9 else 1):
                self._settle(self._decide(size))
        except BaseException as error:
            self.error = error
        finally:
            self._connection.close()

    def _decide(self, size: int) -> list[Any]:
        players = [{"player": f"{self.name} {self._rng.random()}"} for _ in range(size)]
        if size == 1:
            return [self._send(self._offers, players[0])]
        offers: list[Any] = self._send(f"{self._offers}/batch", {"requests": players})["offers"]
        return offers

    def _settle(self, offers: list[Any]) -> None:
        """Give most of the money back, in all the ways there are: others race for it."""
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
    """How many decisions are left to be made."""

    def __init__(self, decisions: int) -> None:
        self._left = decisions
        self._lock = threading.Lock()

    def take(self, wanted: int) -> int:
        """Take so many, or what is left."""
        with self._lock:
            given = min(wanted, self._left)
            self._left -= given
            return given


class Raced(NamedTuple):
    """What became of a race."""

    audit: Audit
    requests: int
    seconds: float
    broken: list[str]

    @property
    def passed(self) -> bool:
        """Whether nothing was overspent, and nothing else was wrong."""
        return self.audit.sound and not self.broken

    def told(self, where: str) -> str:
        """Say it in a few words."""
        share = self.audit.limited / max(1, self.audit.decisions)
        return (
            f"{where}: overspent at {self.audit.overspent} of {self.audit.events:,} positions of "
            f"the log ({share:.0%} of decisions hit the budget, "
            f"{self.requests / self.seconds:,.0f} requests/s)"
        )


def race(url: str, where: Path, workers: int, decisions: int) -> Raced:
    """Let all clients loose on one campaign."""
    with Server(url, where, workers) as server:
        campaign = _prepare(server.port)
        quota = Quota(decisions)
        racers = [Racer(server.port, campaign, i, quota) for i in range(CLIENTS)]
        began = time.monotonic()
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(3600)
        seconds = time.monotonic() - began
        server.stop()
    broken = [f"{racer.name}: {racer.error!r}" for racer in racers if racer.error is not None]
    with closing(open_store(url)) as store:
        seen = audit(store, campaign)
        broken += faults(store)
    if seen.decisions != decisions:
        broken.append(f"{seen.decisions} decisions were made, not {decisions}")
    return Raced(seen, sum(r.statuses.total() for r in racers), seconds, broken)


def _prepare(port: int) -> str:
    """Begin a campaign in which most arms are worse than the best, and so have a price."""
    status, body = call(port, "POST", "/v1/campaigns", json.dumps(CAMPAIGN).encode(), timeout=60)
    if status != 201:
        raise RuntimeError(body.decode())
    campaign = str(json.loads(body)["id"])
    ratings = [{"arm": arm, "rating": 1 + 5 * i // 9} for i, arm in enumerate(ARMS)]
    status, body = call(
        port, "POST", f"/v1/campaigns/{campaign}/ratings", json.dumps({"ratings": ratings}).encode()
    )
    if status != 201:
        raise RuntimeError(body.decode())
    return campaign


Spend = Callable[[random.Random], bool]
BUDGET = 6_000


def naive(opened: Callable[[], Any], mark: str, rounds: int) -> int:
    """Check, then write: the same number of clients on a budget without a condition.

    Returns the number of rounds, of `rounds`, in which more was spent than there was.
    """
    overspent = 0
    with closing(opened()) as connection:
        connection.execute("CREATE TABLE naive (spent BIGINT NOT NULL)")
        connection.execute("INSERT INTO naive VALUES (0)")
        for _ in range(rounds):
            connection.execute("UPDATE naive SET spent = 0")
            ready = threading.Barrier(CLIENTS)
            clients = [
                threading.Thread(target=_naive_client, args=(opened, mark, ready, i), daemon=True)
                for i in range(CLIENTS)
            ]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            (spent,) = connection.execute("SELECT spent FROM naive").fetchone()
            overspent += spent > BUDGET
    return overspent


def _naive_client(
    opened: Callable[[], Any], mark: str, ready: threading.Barrier, seed: int
) -> None:
    rng = random.Random(seed)
    with closing(opened()) as connection:
        ready.wait()
        while True:
            amount = rng.randint(1, 400)
            (spent,) = connection.execute("SELECT spent FROM naive").fetchone()
            if spent + amount > BUDGET:
                return
            connection.execute(f"UPDATE naive SET spent = spent + {mark}", (amount,))


def _controls(where: Path, server: Postgres, rounds: int) -> tuple[int, int]:
    def sqlite() -> sqlite3.Connection:
        path = str(where / "naive.db")
        connection = sqlite3.connect(path, isolation_level=None, timeout=60)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    url = server.new_database("naive")
    return naive(sqlite, "?", rounds), naive(
        lambda: psycopg.connect(url, autocommit=True), "%s", rounds
    )


def run(long: bool) -> Outcome:
    """Race for 200,000 decisions, or 3,000 in short; the control checks, then writes."""
    decisions, rounds = (100_000, 20) if long else (1_500, 3)
    with folder() as where, postgres() as server:
        sqlite = race(f"sqlite:///{where / 'entice.db'}", where, 1, decisions)
        shared = race(server.new_database("race"), where, PROCESSES, decisions)
        on_sqlite, on_postgres = _controls(where, server, rounds)
    broken = [*sqlite.broken, *shared.broken]
    return Outcome(
        "budget race",
        f"{CLIENTS} clients, {sqlite.audit.decisions + shared.audit.decisions:,} decisions, "
        f"{sqlite.requests + shared.requests:,} requests",
        f"{sqlite.told('SQLite')}; {shared.told(f'PostgreSQL with {PROCESSES} processes')}"
        + "".join(f"; {what}" for what in broken[:3]),
        f"check, then write: overspent in {on_sqlite} of {rounds} rounds on SQLite, "
        f"{on_postgres} of {rounds} on PostgreSQL",
        sqlite.passed
        and shared.passed
        and min(race.audit.limited / race.audit.decisions for race in (sqlite, shared)) > 0.5
        and on_sqlite + on_postgres > 0,
    )
