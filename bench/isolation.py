"""Isolation of campaigns in the live service: latency of one under attacks by another.

Campaign B makes offers, accepts and rates them at a fixed rate. Meanwhile a client with a key of
campaign A sends the requests that take the service longest. Turns with and without an attack
alternate in one run, so that a slow moment of the machine affects both. Latencies are measured from
the time at which a request was due, so that a stall counts for every request that it delays.

The server, the attacker and B share the machine; the attacker's process has a low priority, because
real clients have their own. It waits as `Retry-After` says when its requests are rejected.
`--quick` takes about a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from entice import DriftCorrectedThompson, Probe, ThompsonSampling
from entice.service.domain.clock import Clock
from entice.service.domain.commands import (
    Accept,
    CreateCampaign,
    EnterRatings,
    MakeOffer,
    MakeOffers,
    Organic,
    Rate,
)
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.api_keys import Keys
from entice.service.storage.store import open_store
from entice.service.storage.writer import Writer

MAX_RATIO = 3.0
RATE = 100.0
"""Requests of campaign B per second."""
READY_TIMEOUT = 120.0
MAX_IDLE = 5.0
"""Seconds after which an idle connection is not used again; the server closes it after 10."""


class Fixture(msgspec.Struct):
    """The campaigns and keys in the database."""

    port: int
    keys: dict[str, str]
    """The key of each campaign of A."""
    small: str
    """A campaign with 9 arms, a probe, and a log of offers and ratings."""
    large: str
    """A campaign with 1,000 arms."""
    learning: str
    """A campaign of a policy that relearns all ratings when one is changed."""
    rated: int
    """The number of rated offers of `learning`."""


@dataclass(frozen=True)
class Attack:
    """Requests of campaign A: how many at a time, and their method, path and body."""

    name: str
    campaign: str
    """The field of `Fixture` with the campaign that is attacked from."""
    connections: int
    requests: Callable[[Fixture, Iterator[int]], tuple[str, str, Any]]


def _batch(campaign: str, numbers: Iterator[int]) -> tuple[str, str, Any]:
    requests = [{"player": f"a{next(numbers)}"} for _ in range(1000)]
    return "POST", f"/v1/campaigns/{campaign}/offers/batch", {"requests": requests}


def _rerate(fixture: Fixture, numbers: Iterator[int]) -> tuple[str, str, Any]:
    number = next(numbers)
    n = 1 + number % fixture.rated
    rating = 1 + (number // fixture.rated + number) % 5
    return "POST", f"/v1/offers/{fixture.learning}.{n}/rating", {"rating": rating}


def _get(path: str) -> Callable[[Fixture, Iterator[int]], tuple[str, str, Any]]:
    def request(fixture: Fixture, numbers: Iterator[int]) -> tuple[str, str, Any]:
        number = next(numbers)
        return "GET", path.format(f=fixture, n=number, page=number % 4 * 1000), None

    return request


ATTACKS = (
    Attack("changed ratings, policy relearns", "learning", 8, _rerate),
    Attack("batches of 1,000 offers, 1,000 arms", "large", 2, lambda f, n: _batch(f.large, n)),
    Attack("batches of 1,000 offers, 9 arms", "small", 4, lambda f, n: _batch(f.small, n)),
    Attack(
        "batches of 1,000 ratings",
        "small",
        4,
        lambda f, n: (
            "POST",
            f"/v1/campaigns/{f.small}/ratings",
            {"ratings": [{"arm": f"item-{next(n) % 9}", "rating": 3} for _ in range(1000)]},
        ),
    ),
    Attack(
        "single offers, 9 arms",
        "small",
        32,
        lambda f, n: ("POST", f"/v1/campaigns/{f.small}/offers", {"player": f"a{next(n)}"}),
    ),
    Attack(
        "single offers, 1,000 arms",
        "large",
        8,
        lambda f, n: ("POST", f"/v1/campaigns/{f.large}/offers", {"player": f"a{next(n)}"}),
    ),
    Attack("GET trust", "small", 8, _get("/v1/trust")),
    Attack(
        "GET 1,000 events, 9 arms",
        "small",
        8,
        _get("/v1/campaigns/{f.small}/events?limit=1000&after={page}"),
    ),
    Attack(
        "GET 1,000 events, 1,000 arms",
        "large",
        8,
        _get("/v1/campaigns/{f.large}/events?limit=1000&after=10001"),
    ),
    Attack(
        "GET offers, filtered",
        "small",
        8,
        _get("/v1/campaigns/{f.small}/offers?limit=1000&arm=item-8&state=voided"),
    ),
    Attack("GET drift", "small", 8, _get("/v1/campaigns/{f.small}/drift")),
    Attack("GET spending", "small", 8, _get("/v1/campaigns/{f.small}/spending?points=1000")),
    Attack("GET arms, 1,000 arms", "large", 8, _get("/v1/campaigns/{f.large}/arms")),
    Attack("GET one offer, 1,000 arms", "large", 8, _get("/v1/offers/{f.large}.1")),
)  # fmt: skip


def build_database(folder: Path, events: int) -> tuple[Fixture, str, str]:
    """Create the campaigns and keys; return them, the campaign B and its key."""
    store = open_store(f"sqlite:///{folder}/isolation.db")
    writer = Writer(store, Clock())
    writer.start()

    def do(command: Any) -> Any:
        return json.loads(writer.submit(command).result(600).body)

    def create(name: str, arms: int = 9, **options: Any) -> str:
        names = [f"item-{i}" for i in range(arms)]
        options = {"budget": 10**14, "price_of_a_star": 200, "seed": 7, **options}
        return str(do(CreateCampaign(CampaignSpec(name=name, arms=names, **options)))["id"])

    def rate_offers(campaign: str, visitors: int) -> None:
        for first in range(0, visitors, 100):
            players = [n.to_bytes(16) for n in range(first, first + 100)]
            do(MakeOffers(campaign, [MakeOffer(campaign, player) for player in players]))
            for n in range(first + 1, first + 101):
                writer.submit(Accept(f"{campaign}.{n}"))
            last = [
                writer.submit(Rate(f"{campaign}.{n}", 1 + n % 5))
                for n in range(first + 1, first + 101)
            ]
            last[-1].result(600)

    probe = Probe(0.5, 0.5)
    small = create("A, small", probe=probe)
    large = create("A, large", arms=1000, policy=ThompsonSampling())
    learning = create("A, learning", policy=DriftCorrectedThompson())
    rated = events // 300 * 100
    rate_offers(small, rated)
    rate_offers(learning, rated)
    for _ in range(10):
        ratings = [Organic(f"item-{i}", 3) for i in range(1000)]
        do(EnterRatings(large, ratings))
    for first in range(0, 1000, 100):
        requests = [MakeOffer(large, n.to_bytes(16)) for n in range(first, first + 100)]
        do(MakeOffers(large, requests))
    other = create("B")
    writer.stop()
    keys = Keys(store)
    secrets = {
        campaign: keys.create("decide,feedback,read", campaign, "bench")[1]
        for campaign in (small, large, learning, other)
    }
    store.close()
    return Fixture(0, secrets, small, large, learning, rated), other, secrets[other]


# HTTP


def encode_request(method: str, path: str, body: Any, key: str) -> bytes:
    """Return an HTTP/1.1 request."""
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
    if method != "GET":
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return head.encode() + b"\r\n" + content


class Client:
    """A keep-alive connection."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used = 0.0

    async def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes, float]:
        """Send a request; return its status, its body and the seconds to wait before a retry."""
        if self._streams is None or time.monotonic() > self._used + MAX_IDLE:
            self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 26)
        reader, writer = self._streams
        writer.write(encode_request(method, path, body, self._key))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        content = await reader.readexactly(int(fields[b"content-length"]))
        self._used = time.monotonic()
        return int(head[9:12]), content, float(fields.get(b"retry-after", b"0"))

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()


# Campaign A


async def attack(fixture: Fixture, chosen: Attack, seconds: float, seed: int) -> dict[str, Any]:
    """Run an attack, and return its requests by status."""
    numbers = itertools.count(seed)
    counts: dict[int, int] = {}
    latencies: list[float] = []
    end = time.monotonic() + seconds
    key = fixture.keys[getattr(fixture, chosen.campaign)]

    async def send() -> None:
        client = Client(fixture.port, key)
        while time.monotonic() < end:
            started = time.monotonic()
            status, _, wait = await client.request(*chosen.requests(fixture, numbers))
            latencies.append(time.monotonic() - started)
            counts[status] = counts.get(status, 0) + 1
            await asyncio.sleep(min(wait, end - time.monotonic()) if wait else 0)
        client.close()

    await asyncio.gather(*(send() for _ in range(chosen.connections)))
    return {"counts": counts, "p50": statistics.median(latencies)}


# Campaign B


@dataclass
class Turn:
    """The latencies of campaign B in one turn, in seconds."""

    latencies: list[float] = field(default_factory=list)
    failed: int = 0

    def quantile(self, share: float) -> float:
        """Return a quantile in milliseconds."""
        return 1e3 * float(np.quantile(self.latencies, share))


class Visitors:
    """The visitors of campaign B: each gets an offer, accepts it, and rates it."""

    def __init__(self, port: int, campaign: str, key: str) -> None:
        self._port, self._campaign, self._key = port, campaign, key
        self._numbers = itertools.count()
        self._idle: list[Client] = []

    async def turn(self, seconds: float) -> Turn:
        """Send requests at a fixed rate."""
        turn, tasks = Turn(), []
        start, visits = time.monotonic(), int(seconds * RATE / 3)
        for visit in range(visits):
            due = start + visit * 3 / RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tasks.append(asyncio.create_task(self._visit(due, turn)))
        await asyncio.gather(*tasks)
        return turn

    async def _visit(self, due: float, turn: Turn) -> None:
        async with self._client() as client:
            player = f"b{next(self._numbers)}"
            path = f"/v1/campaigns/{self._campaign}/offers"
            offer = await self._timed(client, due, turn, path, {"player": player})
            if offer is None:
                return
            for step, body in (("accept", {}), ("rating", {"rating": 4})):
                due = max(due + 1 / RATE, time.monotonic())
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                path = f"/v1/offers/{offer['id']}/{step}"
                await self._timed(client, due, turn, path, body)

    async def _timed(self, client: Client, due: float, turn: Turn, path: str, body: Any) -> Any:
        status, content, _ = await client.request("POST", path, body)
        turn.latencies.append(time.monotonic() - due)
        if status >= 400:
            turn.failed += 1
            return None
        return json.loads(content)

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        client = self._idle.pop() if self._idle else Client(self._port, self._key)
        yield client
        self._idle.append(client)


# The run


@contextlib.contextmanager
def serving(folder: Path, log: Path) -> Iterator[int]:
    """Run `entice serve` on the database, and yield its port once it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    entice = str(Path(sys.executable).with_name("entice"))
    command = [entice, "serve", "--db", f"sqlite:///{folder}/isolation.db", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        asyncio.run(_wait_until_ready(port, process, log))
        yield port
    finally:
        process.terminate()
        process.wait(60)


async def _wait_until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + READY_TIMEOUT
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if (await Client(port, "-").request("GET", "/readyz"))[0] == 200:
                return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"The server did not start:\n{log.read_text()}")


def start_attack(fixture: Fixture, name: str, seconds: float, seed: int) -> subprocess.Popen[bytes]:
    """Start an attack in a process of its own."""
    arguments = [name, msgspec.json.encode(fixture).decode(), str(seconds), str(seed)]
    command = [sys.executable, __file__, "--attack", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def run_attack(name: str, fixture: str, seconds: str, seed: str) -> None:
    """Run an attack in this process, and print its result as JSON."""
    os.nice(10)
    chosen = next(each for each in ATTACKS if each.name == name)
    decoded = msgspec.json.decode(fixture, type=Fixture)
    print(json.dumps(asyncio.run(attack(decoded, chosen, float(seconds), int(seed)))))


async def measure(
    visitors: Visitors, fixture: Fixture, chosen: Attack, seconds: float, seed: int
) -> tuple[Turn, Turn, dict[str, Any]]:
    """Measure B without an attack, and then during one."""
    quiet = await visitors.turn(seconds)
    process = start_attack(fixture, chosen.name, seconds + 2.5, seed)
    await asyncio.sleep(2.0)  # the process starts, and the attack is under way
    attacked = await visitors.turn(seconds)
    output, _ = await asyncio.to_thread(process.communicate)
    await asyncio.sleep(0.5)
    return quiet, attacked, json.loads(output)


def main() -> int:
    """Print and save the results. The exit status is 1 if B is slowed down too much."""
    if sys.argv[1:2] == ["--attack"]:
        run_attack(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a minute; not a measurement")
    parser.add_argument("--only", default="", help="only attacks whose names contain this")
    parser.add_argument("--turns", type=int, default=3, help="turns of each attack")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of each turn")
    parser.add_argument("--events", type=int, default=18_000, help="events in the logs of A")
    parser.add_argument("--json", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    turns, seconds = (1, 1.5) if options.quick else (options.turns, options.seconds)
    chosen = [each for each in ATTACKS if options.only in each.name]
    console = Console(highlight=False)
    console.width = max(console.width, 130)
    found: dict[str, list[tuple[Turn, Turn, dict[str, Any]]]] = {a.name: [] for a in chosen}
    with tempfile.TemporaryDirectory() as name, console.status("Preparing") as status:
        folder = Path(name)
        fixture, campaign, key = build_database(folder, 900 if options.quick else options.events)
        with serving(folder, folder / "server.log") as port:
            fixture.port = port
            visitors = Visitors(port, campaign, key)

            async def run() -> None:
                await visitors.turn(2.0)  # warm-up
                for turn, each in itertools.product(range(turns), chosen):
                    status.update(f"Turn {turn + 1} of {turns}: {each.name}")
                    seed = (1 + turn * len(ATTACKS) + ATTACKS.index(each)) * 10_000_000
                    found[each.name].append(await measure(visitors, fixture, each, seconds, seed))

            try:
                asyncio.run(run())
            except BaseException:
                console.print((folder / "server.log").read_text()[-3000:], markup=False)
                raise
    return report(console, found, options.json)


def report(
    console: Console, found: dict[str, list[tuple[Turn, Turn, dict[str, Any]]]], path: Path | None
) -> int:
    """Print the table, and write the JSON file if one is given."""
    title = f"Campaign B under attacks by campaign A, {platform.processor() or platform.machine()}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("attack", "quiet p50", "p99", "attacked p50", "p99", "ratio of p99", "", "A"):
        table.add_column(heading, justify="left" if heading in ("attack", "A") else "right")
    rows, passed = {}, True
    every = [quiet for results in found.values() for quiet, _, _ in results]
    quiet_p99 = statistics.median(turn.quantile(0.99) for turn in every)
    for name, results in found.items():
        quiets, attacked, sent = zip(*results, strict=True)
        values = [
            statistics.median(turn.quantile(share) for turn in turns)
            for turns in (quiets, attacked)
            for share in (0.5, 0.99)
        ]
        ratio = values[3] / quiet_p99
        failed = sum(turn.failed for turn in attacked)
        met = ratio <= MAX_RATIO and failed == 0
        passed = passed and met
        counts: dict[str, int] = {}
        for each in sent:
            for status, count in each["counts"].items():
                counts[status] = counts.get(status, 0) + count
        text = ", ".join(f"{status}: {count}" for status, count in sorted(counts.items()))
        text += f"; p50 {1e3 * statistics.median(each['p50'] for each in sent):,.0f} ms"
        mark = "[green]met[/]" if met else "[red]missed[/]"
        if failed:
            mark += f" ({failed} of B failed)"
        table.add_row(name, *(f"{value:.1f} ms" for value in values), f"{ratio:.1f}", mark, text)
        rows[name] = {"quiet": values[:2], "attacked": values[2:], "ratio": ratio, "failed": failed}
    console.print(table)
    console.print(f"Quiet p99, median of {len(every)} turns: {quiet_p99:.1f} ms.")
    if path is not None:
        path.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
