"""Clients that do not read, or do not send: the service answers, and its memory is bounded."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from hostile_clients import HostileClients, established

from entice.service.storage.api_keys import Keys
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.store import open_store
from service_faults.outcome import Outcome
from service_faults.processes import LOST, UNLIMITED, Server, call, folder

PATHS = ("/studio/plotly.min.js", "/openapi.json")
ARMS = [f"item-{i}" for i in range(1000)]
HEALTH_WITHIN = 10.0
"""Seconds. An attempt that takes longer counts as no answer."""
STOP_WITHIN = 10.0
"""Seconds from SIGTERM to the end."""
MAX_MEMORY = 512
"""Megabytes that an attack may take."""


class Attack(NamedTuple):
    """What was measured during an attack."""

    connections: int
    slowest: float
    """Of the requests of /healthz, in seconds."""
    before: int
    most: int
    after: int
    """Memory of the worker process in MB: before, at most during, and after the attack."""
    recovered: float | None
    """Seconds until the service had closed all connections."""

    @property
    def survived(self) -> bool:
        """Return whether the service answered, recovered and took little memory."""
        return (
            self.slowest < HEALTH_WITHIN
            and self.recovered is not None
            and self.most - self.before < MAX_MEMORY
        )


def run(long: bool) -> Outcome:
    """Attack the service with unread pages, unread streams and half-sent bodies; stop it."""
    count = 1500 if long else 1100
    with folder() as place:
        server = Server(f"sqlite:///{place}/entice.db", place)
        with server:
            keys, campaign = prepare(server)
            offers = f"/v1/campaigns/{campaign}/offers"
            stream = f"/v1/campaigns/{campaign}/stream?after=0"
            body = '{"player": "' + "x" * 900_000
            attacks = [
                attack(server, count, lambda c, i: c.send("GET", PATHS[i % 2], key=keys[0])),
                attack(server, count, lambda c, i: c.send("POST", offers, key=keys[0], body=body)),
                attack(server, 100, lambda c, i: c.send("GET", stream, key=keys[i % 2])),
            ]
            with HostileClients(server.url) as clients:
                clients.send("GET", PATHS[0])
                clients.send("GET", stream, key=keys[0])
                clients.send("GET", f"/v1/campaigns/{campaign}/export?format=jsonl", key=keys[0])
                clients.send("POST", offers, key=keys[0], body="{")
                time.sleep(1)
                code, stopped = server.terminate()
        bare = Server(f"sqlite:///{place}/control.db", place, kind=UNLIMITED)
        with bare:
            control = attack(bare, 1100, lambda c, i: c.send("GET", PATHS[0]), seconds=30)
        with bare, HostileClients(bare.url) as clients:
            clients.send("GET", PATHS[0])
            time.sleep(1)
            _, bare_stopped = bare.terminate()
    pages, bodies, streams = attacks
    return Outcome(
        "clients that do not read or send",
        f"{count:,} connections that do not read a page, {count:,} with half of a body, 100 streams"
        " that are not read; SIGTERM with one of each, and an export",
        f"/healthz within {max(a.slowest for a in attacks):.1f} s; memory "
        + ", ".join(f"{a.before} → {a.most} → {a.after} MB" for a in attacks)
        + f" (before, at most, after); all closed after {seconds_of(pages)}, {seconds_of(bodies)} "
        f"and {seconds_of(streams)}; stopped within {stopped:.1f} s, exit code {code}",
        f"without limits, 1,100 unread connections: no answer of /healthz within "
        f"{HEALTH_WITHIN:.0f} s; SIGTERM with one: stopped after {bare_stopped:.0f} s",
        all(a.survived for a in attacks)
        and code == 0
        and stopped < STOP_WITHIN < bare_stopped
        and not control.survived,
    )


def seconds_of(attack: Attack) -> str:
    """Return the time to recover."""
    return "never" if attack.recovered is None else f"{attack.recovered:.0f} s"


def prepare(server: Server) -> tuple[list[str], str]:
    """Create two keys, and a campaign with a log of 3 MB."""
    with closing(open_store(server.db)) as store:
        own = Keys(store, PlayerHasher(server.secret))
        keys = [own.create("admin", None, name)[1] for name in ("one", "two")]
    time.sleep(1.5)  # the service caches keys
    settings = {
        "name": "Large", "arms": ARMS, "budget": 10**6, "price_of_a_star": 100,
        "holdout": 0.1, "overlap": 0.1, "segments": ["new", "regular"],
        "price": {"kind": "learned"},
    }  # fmt: skip
    _, made = call(server.port, "POST", "/v1/campaigns", json.dumps(settings).encode(), key=keys[0])
    campaign: str = json.loads(made)["id"]
    players = [{"player": f"player {i}", "segment": "new"} for i in range(600)]
    requests = json.dumps({"requests": players}).encode()
    path = f"/v1/campaigns/{campaign}/offers/batch"
    assert call(server.port, "POST", path, requests, key=keys[0])[0] == 201
    return keys, campaign


def attack(
    server: Server,
    count: int,
    connect: Callable[[HostileClients, int], object],
    seconds: float = 60,
) -> Attack:
    """Open connections; measure until the service has closed all, or for some seconds."""
    worker, started = server.worker(), time.monotonic()
    before = most = memory(worker)
    slowest = 0.0
    recovered: float | None = None
    with HostileClients(server.url) as clients:
        clients.timeout = 1.0  # a body is sent only as far as the service reads it

        def connect_all() -> None:
            for i in range(count):
                with suppress(OSError):
                    connect(clients, i)

        connecting = threading.Thread(target=connect_all)
        connecting.start()
        while recovered is None and time.monotonic() - started < seconds:
            asked = time.monotonic()
            try:
                call(server.port, "GET", "/healthz", timeout=HEALTH_WITHIN)
            except LOST:
                time.sleep(max(0.0, HEALTH_WITHIN - (time.monotonic() - asked)))
            slowest = max(slowest, time.monotonic() - asked)
            most = max(most, memory(worker))
            if not connecting.is_alive() and established(server.url) == 0:
                recovered = time.monotonic() - started
            time.sleep(0.2)
        connecting.join()
    time.sleep(1)
    return Attack(count, slowest, before, most, memory(worker), recovered)


def memory(process: int) -> int:
    """Return the resident memory of a process, in MB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024
