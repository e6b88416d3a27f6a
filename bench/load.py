"""Load test of the live service: `make load`.

A server on SQLite in a temporary folder, which responds after a durable commit, and a load
generator in another process on the same machine. The compared workloads alternate in one run, so
that a slow moment of the machine affects both, and the median of the ratios counts:

- single offers, against an empty handler behind the same server and middleware;
- decisions of the batch endpoint, 100 in a request, against single offers;
- reads of a campaign with a million offers, against those of a new one with just enough events for
  one page.

The generator keeps one request in progress on each connection, and prints its own share of a core:
a generator that is always busy measures itself. `--quick` takes about 20 seconds with smaller
campaigns, and shows only that the benchmark works.
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
from load_generator import Connection, Generator, Players, Turn, repeat, request_of
from rich import box
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
CONNECTIONS = 64
BATCH = 100
PAGE = 100
ARMS = 9
MIN_TO_EMPTY, MIN_BATCH_TO_SINGLE, MAX_TO_NEW = 0.5, 5.0, 1.5
MAX_GROWTH = 64.0
"""Bytes per offer, less than the smallest Python object that could leak."""


@dataclass(frozen=True)
class Settings:
    """The length of each measurement."""

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
        os.environ["ENTICE_STATE_DIR"] = str(folder)  # where the server keeps its token
        options = ["--db", f"sqlite:///{folder}/load.db", "--port", str(self.port)]
        self._process = subprocess.Popen(
            [sys.executable, HERE / "load_server.py", *options],
            stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until the server is ready."""
        end = time.monotonic() + 120
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                log = Path(self._log.name).read_text()
                raise RuntimeError(f"The server did not start:\n{log}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            self.request("GET", "/readyz")
        except (OSError, RuntimeError):
            return False
        return True

    def request(self, method: str, path: str, **body: Any) -> Any:
        """Send one request over a new connection, and return the JSON of the response."""
        connection = Connection(self.port)
        with connection.socket:
            connection.send(request_of(method, path, json.dumps(body).encode() if body else b""))
            while (body_received := connection.receive()) is None:
                pass
        return json.loads(body_received)

    def campaign(self, name: str) -> str:
        """Create a campaign with a budget that is never spent."""
        arms = [f"item-{i}" for i in range(ARMS)]
        made = self.request(
            "POST", "/v1/campaigns",
            name=name, arms=arms, budget=10**14, price_of_a_star=200, seed=7,
        )  # fmt: skip
        return str(made["id"])

    def settle(self) -> None:
        """Wait until the server is idle, for example after compilation."""
        busy = -1.0
        while (now := self.busy()) > busy + 0.02:
            busy = now
            time.sleep(0.5)

    def memory(self) -> int:
        """Return the anonymous memory of the server's processes, in bytes."""
        return sum(_anonymous(pid) for pid in _family(self._process.pid))

    def busy(self) -> float:
        """Return the CPU seconds of the server's processes."""
        return sum(_cpu(pid) for pid in _family(self._process.pid))

    def stop(self) -> None:
        """Stop the server."""
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
    """Return the anonymous memory of a process; pages that forked processes share count in part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Anon"))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Result:
    """A row of the table."""

    what: str
    value: str
    mark: str = ""
    passed: bool | None = None
    """None without a mark."""
    plain: Any = None


def median_rate(turns: list[Turn]) -> float:
    """Return the median rate of some turns."""
    return statistics.median(turn.rate for turn in turns)


def ratios(above: list[Turn], below: list[Turn], factor: float = 1.0) -> list[float]:
    """Return the ratios of the rates of alternating turns."""
    return [factor * a.rate / b.rate for a, b in zip(above, below, strict=True)]


def throughput(server: Server, settings: Settings, players: Players) -> Iterator[Result]:
    """Alternate an empty handler, single offers, batches and whole lifecycles."""
    campaign = server.campaign("throughput")
    work = {
        "empty": repeat(request_of("POST", "/bench/empty", b'{"player":"player 0"}')),
        "single": players.offers(campaign),
        "batch": players.batches(campaign, BATCH),
        "lifecycle": players.lifecycles(campaign),
    }
    generator = Generator(server.port, CONNECTIONS)
    turns: dict[str, list[Turn]] = {name: [] for name in work}
    for name in work:  # warm-up: compile, connect, fill caches
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
    yield Result(
        "empty handler", f"{median_rate(turns['empty']):,.0f} /s", plain=median_rate(turns["empty"])
    )
    yield Result("single offers", f"{median_rate(singles):,.0f} /s", plain=median_rate(singles))
    found = ratios(singles, turns["empty"])
    passed = statistics.median(found) >= MIN_TO_EMPTY
    yield Result("  to empty", shown(found), f"≥ {MIN_TO_EMPTY}", passed, found)
    rate = BATCH * median_rate(turns["batch"])
    yield Result(f"decisions in batches of {BATCH}", f"{rate:,.0f} /s", plain=rate)
    found = ratios(turns["batch"], singles, BATCH)
    passed = statistics.median(found) >= MIN_BATCH_TO_SINGLE
    yield Result("  to single", shown(found), f"≥ {MIN_BATCH_TO_SINGLE:g}", passed, found)
    rate = median_rate(turns["lifecycle"]) / 3
    yield Result("lifecycles: offer, accept, rating", f"{rate:,.0f} /s", plain=rate)
    yield Result(f"latency with {CONNECTIONS} connections", "")
    for name, what in (("empty", "of the empty handler"), ("single", "of single offers")):
        both = Turn(latencies=[s for turn in turns[name] for s in turn.latencies])
        p50, p99 = both.quantile(0.5), both.quantile(0.99)
        text = f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        yield Result(f"  {what}", text, plain={"p50": p50, "p99": p99})
    spent = {
        name: 1e6 * sum(t.served for t in taken) / sum(len(t.latencies) for t in taken)
        for name, taken in turns.items()
    }
    spent["batch"] /= BATCH
    text = ", ".join(f"{name} {micros:.0f}" for name, micros in spent.items())
    yield Result("server CPU µs per request or decision", text, plain=spent)
    busy = {
        name: sum(t.busy for t in taken) / sum(t.seconds for t in taken)
        for name, taken in turns.items()
    }
    text = ", ".join(f"{name} {share:.0%}" for name, share in busy.items())
    yield Result("generator's share of a core", text, plain=busy)


def memory(server: Server, settings: Settings, players: Players) -> Iterator[Result]:
    """Measure the server's memory over many single offers."""
    campaign = server.campaign("memory")
    generator = Generator(server.port, CONNECTIONS)
    steps = 40
    offers, kept = [], []
    for step in range(steps):
        generator.turn(players.offers(campaign), most=settings.memory_offers // steps)
        offers.append((step + 1) * (settings.memory_offers // steps))
        kept.append(server.memory())
    generator.close()
    late = steps // 4  # caches fill until then
    slope = float(np.polyfit(offers[late:], kept[late:], 1)[0])
    text = f"{slope:+.1f} bytes per offer; {kept[0] / 1e6:.0f} → {kept[-1] / 1e6:.0f} MB"
    what = f"memory over {settings.memory_offers:,} offers"
    yield Result(what, text, f"< {MAX_GROWTH:g} bytes", slope < MAX_GROWTH, kept)


def queries(server: Server, settings: Settings, players: Players) -> Iterator[Result]:
    """Compare reads of a very large campaign with those of a new one."""
    empty, new, large = (server.campaign(name) for name in ("empty", "new", "large"))
    filler = Generator(server.port, 4)
    filler.turn(players.batches(new, PAGE), most=2)
    started = time.perf_counter()
    filler.turn(players.batches(large, 1000), most=settings.large // 1000)
    filled = settings.large / (time.perf_counter() - started)
    filler.close()
    yield Result(f"filling with {settings.large:,} offers", f"{filled:,.0f} /s", plain=filled)
    last = server.request("GET", f"/v1/campaigns/{large}")["events"]

    def page(campaign: str, after: int) -> str:
        return f"/v1/campaigns/{campaign}/events?after={after}&limit={PAGE}"

    campaign, events = "GET campaign", f"GET {PAGE} events"
    compared = {
        f"{campaign}, large": (f"/v1/campaigns/{large}", f"/v1/campaigns/{empty}"),
        f"{events}, large, first": (page(large, 0), page(new, 0)),
        f"{events}, large, middle": (page(large, last // 2), page(new, 0)),
        f"{events}, large, last": (page(large, last - PAGE), page(new, 0)),
        "GET arms, large": (f"/v1/campaigns/{large}/arms", f"/v1/campaigns/{empty}/arms"),
    }
    generator = Generator(server.port, 1)
    for what, paths in compared.items():
        took: tuple[list[float], list[float]] = ([], [])
        for turn in range(20):
            for path, latencies in zip(paths, took, strict=True):
                one = generator.turn(
                    repeat(request_of("GET", path)), most=max(1, settings.queries // 20)
                )
                if turn:  # the first one fills caches
                    latencies += one.latencies
        ours, theirs = (statistics.median(latencies) for latencies in took)
        ratio = ours / theirs
        text = f"{ratio:.2f}  ({ours * 1e3:.2f} ms to {theirs * 1e3:.2f} ms)"
        yield Result(what, text, f"≤ {MAX_TO_NEW:g}", ratio <= MAX_TO_NEW, ratio)
    generator.close()


def main() -> int:
    """Print and save the results. The exit status is 1 if a mark is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="20 seconds; not a measurement")
    parser.add_argument(
        "--json", type=Path, default=HERE / "load.json", help="JSON file for the results"
    )
    parser.add_argument(
        "--folder", type=Path, help="folder of the database; default: a temporary folder"
    )
    options = parser.parse_args()
    settings = QUICK if options.quick else Settings()
    console = Console(highlight=False)
    console.width = max(console.width, 100)
    title = f"The service under load, SQLite, {platform.processor() or platform.machine()}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("", "measured", "mark", ""):
        table.add_column(heading)
    rows: list[Result] = []
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
        mark = "" if row.passed is None else "[green]met[/]" if row.passed else "[red]missed[/]"
        table.add_row(row.what, row.value, row.mark, mark)
    console.print(table)
    plain = {row.what.strip(): {"value": row.plain, "passed": row.passed} for row in rows}
    options.json.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0 if all(row.passed is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
