"""How much the live service bears: `make load`.

A server on SQLite in a temporary folder, every answer after a durable commit, and a generator of
requests in a process of its own on the same machine. What is compared takes turns in one run, so
that a slow moment of the machine hits both, and the median of the turns' ratios counts:

- single offers, against a handler that does nothing behind the same server and middleware;
- decisions of the batch endpoint, 100 in a request, against single offers;
- reads of a campaign with a million offers, against those of a young one. The young one has just
  enough events for a page, so that both answer with pages of one length.

The generator keeps one request under way on each of its connections. It is as lean as Python
allows (no HTTP library, requests made by joining bytes); its own share of a core is printed, since
a generator that is busy all the time measures itself. `--quick` takes some 20 seconds, with
smaller campaigns, and is no evidence of anything but that the bench works.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from load_generator import Generator, Players, Turn, Wire, again, request_of
from rich import box
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
CONNECTIONS = 64
BATCH = 100
PAGE = 100
ARMS = 9
LEAST_OF_EMPTY, LEAST_OF_BATCH, MOST_OF_YOUNG = 0.5, 5.0, 1.5
MOST_GROWTH = 64.0
"""Bytes for each offer; the smallest Python object that could be kept of one is larger."""


@dataclass(frozen=True)
class Settings:
    """How long the bench takes over each of its questions."""

    turns: int = 7
    seconds: float = 3.0
    memory_offers: int = 200_000
    large: int = 1_000_000
    queries: int = 2_000


QUICK = Settings(turns=3, seconds=0.6, memory_offers=10_000, large=20_000, queries=300)


class Server:
    """`entice serve` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._log = (folder / "server.log").open("wb")
        options = ["--db", f"sqlite:///{folder}/load.db", "--port", str(self.port)]
        self._process = subprocess.Popen(
            [sys.executable, HERE / "load_server.py", *options],
            stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until it is ready."""
        end = time.monotonic() + 120
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                told = Path(self._log.name).read_text()
                raise RuntimeError(f"The server did not start:\n{told}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            self.ask("GET", "/readyz")
        except (OSError, RuntimeError):
            return False
        return True

    def ask(self, method: str, path: str, **body: Any) -> Any:
        """Ask one thing, over a connection of its own."""
        wire = Wire(self.port)
        with wire.socket:
            wire.send(request_of(method, path, json.dumps(body).encode() if body else b""))
            while (answer := wire.receive()) is None:
                pass
        return json.loads(answer)

    def campaign(self, name: str) -> str:
        """Create a campaign whose budget lasts."""
        arms = [f"item-{i}" for i in range(ARMS)]
        made = self.ask(
            "POST", "/v1/campaigns",
            name=name, arms=arms, budget=10**14, price_of_a_star=200, seed=7,
        )  # fmt: skip
        return str(made["id"])

    def settle(self) -> None:
        """Wait until nothing goes on inside, such as compiling a new campaign's policy."""
        busy = -1.0
        while (now := self.busy()) > busy + 0.02:
            busy = now
            time.sleep(0.5)

    def memory(self) -> int:
        """Bytes that the server's processes keep for themselves, without pages of mapped files."""
        return sum(_anonymous(pid) for pid in _family(self._process.pid))

    def busy(self) -> float:
        """CPU seconds that the server's processes have used."""
        return sum(_cpu(pid) for pid in _family(self._process.pid))

    def stop(self) -> None:
        """Stop the server, and wait until it has."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _family(int(child))


def _anonymous(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Found:
    """A row of the table."""

    what: str
    value: str
    mark: str = ""
    passed: bool | None = None
    """None where nothing was promised."""
    plain: Any = None


def middle(turns: list[Turn]) -> float:
    """The median rate of some turns."""
    return statistics.median(turn.rate for turn in turns)


def ratios(above: list[Turn], below: list[Turn], factor: float = 1.0) -> list[float]:
    """Ratios of the rates of turns that took turns."""
    return [factor * a.rate / b.rate for a, b in zip(above, below, strict=True)]


def throughput(server: Server, settings: Settings, players: Players) -> Iterator[Found]:
    """Let an empty handler, single offers, batches and whole lives take turns."""
    campaign = server.campaign("throughput")
    work = {
        "empty": again(request_of("POST", "/bench/empty", b'{"player":"player 0"}')),
        "single": players.offers(campaign),
        "batch": players.batches(campaign, BATCH),
        "life": players.lives(campaign),
    }
    generator = Generator(server.port, CONNECTIONS)
    turns: dict[str, list[Turn]] = {name: [] for name in work}
    for name in work:  # nobody's turn: compile, open, fill caches
        generator.turn(work[name], seconds=settings.seconds / 3)
    server.settle()
    for _ in range(settings.turns):
        for name in work:
            before = server.busy()
            turn = generator.turn(work[name], seconds=settings.seconds)
            turn.served = server.busy() - before
            turns[name].append(turn)
    generator.close()

    def shown(rates: list[float]) -> str:
        low, high = min(rates), max(rates)
        return f"{statistics.median(rates):.2f}  ({low:.2f} to {high:.2f})"

    singles = turns["single"]
    yield Found("empty handler", f"{middle(turns['empty']):,.0f} /s", plain=middle(turns["empty"]))
    yield Found("single offers", f"{middle(singles):,.0f} /s", plain=middle(singles))
    found = ratios(singles, turns["empty"])
    passed = statistics.median(found) >= LEAST_OF_EMPTY
    yield Found("  to empty", shown(found), f"≥ {LEAST_OF_EMPTY}", passed, found)
    rate = BATCH * middle(turns["batch"])
    yield Found(f"decisions in batches of {BATCH}", f"{rate:,.0f} /s", plain=rate)
    found = ratios(turns["batch"], singles, BATCH)
    passed = statistics.median(found) >= LEAST_OF_BATCH
    yield Found("  to single", shown(found), f"≥ {LEAST_OF_BATCH:g}", passed, found)
    rate = middle(turns["life"]) / 3
    yield Found("lives: offer, accept, rating", f"{rate:,.0f} /s", plain=rate)
    yield Found(f"latency with {CONNECTIONS} connections", "")
    for name, what in (("empty", "of the empty handler"), ("single", "of single offers")):
        both = Turn(latencies=[s for turn in turns[name] for s in turn.latencies])
        p50, p99 = both.quantile(0.5), both.quantile(0.99)
        told = f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        yield Found(f"  {what}", told, plain={"p50": p50, "p99": p99})
    spent = {
        name: 1e6 * sum(t.served for t in taken) / sum(len(t.latencies) for t in taken)
        for name, taken in turns.items()
    }
    spent["batch"] /= BATCH
    told = ", ".join(f"{name} {micros:.0f}" for name, micros in spent.items())
    yield Found("server's CPU µs a request, or decision", told, plain=spent)
    busy = {
        name: sum(t.busy for t in taken) / sum(t.seconds for t in taken)
        for name, taken in turns.items()
    }
    told = ", ".join(f"{name} {share:.0%}" for name, share in busy.items())
    yield Found("generator's share of a core", told, plain=busy)


def memory(server: Server, settings: Settings, players: Players) -> Iterator[Found]:
    """Watch the server's memory over many single offers."""
    campaign = server.campaign("memory")
    generator = Generator(server.port, CONNECTIONS)
    steps = 40
    offers, kept = [], []
    for step in range(steps):
        generator.turn(players.offers(campaign), most=settings.memory_offers // steps)
        offers.append((step + 1) * (settings.memory_offers // steps))
        kept.append(server.memory())
    generator.close()
    late = steps // 4  # until then caches fill
    slope = float(np.polyfit(offers[late:], kept[late:], 1)[0])
    told = f"{slope:+.1f} bytes an offer; {kept[0] / 1e6:.0f} → {kept[-1] / 1e6:.0f} MB"
    what = f"memory over {settings.memory_offers:,} offers"
    yield Found(what, told, f"< {MOST_GROWTH:g} bytes", slope < MOST_GROWTH, kept)


def queries(server: Server, settings: Settings, players: Players) -> Iterator[Found]:
    """Compare reads of a very large campaign with those of a young one."""
    empty, young, large = (server.campaign(name) for name in ("empty", "young", "large"))
    filler = Generator(server.port, 4)
    filler.turn(players.batches(young, PAGE), most=2)
    started = time.perf_counter()
    filler.turn(players.batches(large, 1000), most=settings.large // 1000)
    filled = settings.large / (time.perf_counter() - started)
    filler.close()
    yield Found(f"filling with {settings.large:,} offers", f"{filled:,.0f} /s", plain=filled)
    last = server.ask("GET", f"/v1/campaigns/{large}")["events"]

    def page(campaign: str, after: int) -> str:
        return f"/v1/campaigns/{campaign}/events?after={after}&limit={PAGE}"

    campaign, events = "GET campaign", f"GET {PAGE} events"
    asked = {
        f"{campaign}, large": (f"/v1/campaigns/{large}", f"/v1/campaigns/{empty}"),
        f"{events}, large, first": (page(large, 0), page(young, 0)),
        f"{events}, large, middle": (page(large, last // 2), page(young, 0)),
        f"{events}, large, last": (page(large, last - PAGE), page(young, 0)),
        "GET arms, large": (f"/v1/campaigns/{large}/arms", f"/v1/campaigns/{empty}/arms"),
    }
    generator = Generator(server.port, 1)
    for what, paths in asked.items():
        took: tuple[list[float], list[float]] = ([], [])
        for turn in range(20):
            for path, latencies in zip(paths, took, strict=True):
                one = generator.turn(
                    again(request_of("GET", path)), most=max(1, settings.queries // 20)
                )
                if turn:  # the first one fills caches
                    latencies += one.latencies
        ours, theirs = (statistics.median(latencies) for latencies in took)
        ratio = ours / theirs
        told = f"{ratio:.2f}  ({ours * 1e3:.2f} ms to {theirs * 1e3:.2f} ms)"
        yield Found(what, told, f"≤ {MOST_OF_YOUNG:g}", ratio <= MOST_OF_YOUNG, ratio)
    generator.close()


def main() -> int:
    """Print the table, write it down, and say by the exit status whether all promises are kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="20 seconds, and no evidence")
    parser.add_argument(
        "--json", type=Path, default=HERE / "load.json", help="where the same goes as JSON"
    )
    parser.add_argument(
        "--folder", type=Path, help="on the disk to be measured; by default that of temporary files"
    )
    options = parser.parse_args()
    settings = QUICK if options.quick else Settings()
    console = Console(highlight=False)
    console.width = max(console.width, 100)
    title = f"The service under load, SQLite, {platform.processor() or platform.machine()}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("", "measured", "promised", ""):
        table.add_column(heading)
    rows: list[Found] = []
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        console.status("Starting a server") as status,
    ):
        server = Server(Path(folder))
        try:
            server.wait()
            players = Players()
            for part in (throughput, memory, queries):
                status.update(f"Measuring {part.__name__}")
                rows += part(server, settings, players)
        finally:
            server.stop()
    for row in rows:
        mark = "" if row.passed is None else "[green]kept[/]" if row.passed else "[red]broken[/]"
        table.add_row(row.what, row.value, row.mark, mark)
    console.print(table)
    plain = {row.what.strip(): {"value": row.plain, "passed": row.passed} for row in rows}
    options.json.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0 if all(row.passed is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
