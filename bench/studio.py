"""Waiting times of the studio in a real browser: `make bench-studio`.

Explore, from a slider's move to its results, with the default settings: nine arms, 20,000 rounds,
three policies, 1,000 replications. First the slider moves one step at a time; then it sweeps over
several steps, measured from its last move. The page sets performance marks at the input and after
drawing (`explore:input`, `explore:first`, `explore:last`). The time until the browser has painted
must be within the limits.

Campaigns, from the navigation to the first paint of the list and of a campaign: a large database is
compared with a small one in the same run, in turns, because only their ratio is the same on every
machine. `--quick` makes the large database smaller, and is not a measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from playwright.sync_api import Browser, Page
from rich import box
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from browser.chromium import run_browser
from browser.studio_pages import READY, browser_pages
from service_fixtures import server

from entice.service.domain.clock import Clock
from entice.service.domain.commands import CreateCampaign, MakeOffer, MakeOffers
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.store import open_store
from entice.service.storage.writer import Writer
from entice.studio.demo.demo import SETTINGS

FIRST_LIMIT, LAST_LIMIT = 150, 3000
"""Milliseconds until the first and the last snapshot is painted."""
SWEEP, PAUSE = 8, 60
"""Steps of a sweep, and milliseconds between two steps."""

RATIO_LIMIT = 1.5
"""How many times as long the first paint may take with the large database."""
BATCH, IN_PROGRESS = 1000, 8
"""Offers of a command, and commands that wait for the writer."""
FIRST_PAINTS = {"list": ".campaign-row", "campaign": ".item-row"}
"""What each screen shows first, once it has data."""

# A frame is painted when the next task after it runs.
RECORD_PAINTS = """() => {
  window.painted = {};
  new PerformanceObserver((list) => {
    for (const { name, startTime } of list.getEntries())
      requestAnimationFrame(() => setTimeout(() => {
        window.painted[name] = { drawn: startTime, painted: performance.now() };
      }));
  }).observe({ type: "mark" });
}"""
MARKS = """() => ({
  ...window.painted,
  input: performance.getEntriesByName("explore:input").at(-1).startTime,
})"""


RECORD_FIRST = """(() => {
  const observer = new MutationObserver(() => {
    if (!document.querySelector("%s")) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.firstPaint = performance.now(); }));
  });
  observer.observe(document, { childList: true, subtree: true });
})()"""


class Size(NamedTuple):
    """The size of a database."""

    campaigns: int
    offers: int
    """Of the last campaign. The others have none."""


SMALL, LARGE, QUICK = Size(10, 1_000), Size(1_000, 1_000_000), Size(100, 20_000)


class Delay(NamedTuple):
    """Milliseconds since the slider's last move."""

    first_drawn: float
    first: float
    last_drawn: float
    last: float


def move(page: Page, steps: int, direction: str) -> Delay:
    """Move the slider and wait for the last snapshot."""
    page.evaluate("() => { performance.clearMarks(); window.painted = {}; }")
    slider = page.get_by_label("Strength")
    for step in range(steps):
        if step:
            page.wait_for_timeout(PAUSE)
        slider.press(direction)
    page.wait_for_selector("body[data-explore=done]")
    while "explore:last" not in page.evaluate("() => window.painted"):
        page.wait_for_timeout(20)
    found = page.evaluate(MARKS)
    first, last, start = found["explore:first"], found["explore:last"], found["input"]
    times = (first["drawn"], first["painted"], last["drawn"], last["painted"])
    return Delay(*(time - start for time in times))


def repeat(page: Page, count: int, steps: int) -> Iterator[Delay]:
    """Move the slider alternately right and left."""
    for i in range(count):
        yield move(page, steps, "ArrowLeft" if i % 2 else "ArrowRight")
        page.wait_for_selector(READY["explore"])  # until the single run is loaded, too


def measure(count: int) -> dict[str, list[Delay]]:
    """Measure on a temporary service."""
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder), new=True) as running,
        run_browser() as chromium,
        browser_pages(chromium) as visit,
    ):
        page = visit(f"{running.url}/#key={running.token}&/explore")
        page.wait_for_selector(READY["explore"])
        page.wait_for_timeout(3000)  # the idle worker compiles more
        page.evaluate(RECORD_PAINTS)
        page.get_by_label("Strength").focus()
        list(repeat(page, 2, 1))
        return {
            "one step": list(repeat(page, count, 1)),
            f"sweep of {SWEEP} steps": list(repeat(page, count, SWEEP)),
        }


def fill(folder: Path, size: Size) -> str:
    """Make a database, without HTTP; return the id of the campaign with offers.

    The offers are open, so that a campaign has as many live offers as it can have.
    """
    settings = {**SETTINGS, "budget": 10**9, "offer_expires_after": 30 * 86_400}
    spec = CampaignSpec.from_plain(settings).with_currency_digits()
    with contextlib.closing(open_store(f"sqlite:///{folder / 'entice.db'}")) as store:
        writer = Writer(store, Clock())
        writer.start()
        for i in range(size.campaigns):
            created = CreateCampaign(msgspec.structs.replace(spec, name=f"Campaign {i + 1}"))
            last = msgspec.json.decode(writer.submit(created).result().body)["id"]
        players = (n.to_bytes(16, "big") for n in range(size.offers))
        waiting = []
        while batch := [MakeOffer(last, player) for player in itertools.islice(players, BATCH)]:
            waiting.append(writer.submit(MakeOffers(last, batch)))
            if len(waiting) == IN_PROGRESS:
                waiting.pop(0).result()
        for answer in waiting:
            answer.result()
        writer.stop()
    return str(last)


def first_paint(chromium: Browser, address: str, selector: str) -> float:
    """Open a page in a new context; return the milliseconds from navigation to first paint."""
    with contextlib.closing(chromium.new_context()) as context:
        page = context.new_page()
        page.add_init_script(RECORD_FIRST % selector)
        page.goto(address)
        page.wait_for_function("() => window.firstPaint")
        return float(page.evaluate("() => window.firstPaint"))


def measure_first_paints(large: Size, tries: int) -> dict[str, tuple[list[float], list[float]]]:
    """Measure the first paint of each screen with the small and the large database, in turns."""
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in FIRST_PAINTS}
    with contextlib.ExitStack() as stack:
        addresses = []
        for size in (SMALL, large):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            campaign = fill(folder, size)
            running = stack.enter_context(server(folder, new=True))
            start = f"{running.url}/#key={running.token}&"
            addresses.append(
                {"list": f"{start}/campaigns", "campaign": f"{start}/campaign/{campaign}"}
            )
        chromium = stack.enter_context(run_browser())
        for turn in range(tries + 1):
            for name, selector in FIRST_PAINTS.items():
                for pages, times in zip(addresses, found[name], strict=True):
                    took = first_paint(chromium, pages[name], selector)
                    if turn:  # the first one fills the caches of the services
                        times.append(took)
    return found


def print_first_paints(console: Console, large: Size, tries: int) -> bool:
    """Measure and print the first paints; return whether a ratio exceeds its limit."""
    titles = {
        "list": f"list, {large.campaigns:,} campaigns to {SMALL.campaigns:,}",
        "campaign": f"campaign, {large.offers:,} offers to {SMALL.offers:,}",
    }
    table = Table("First paint", "Limit", "Ratio", "Small", "Large", "", box=box.SIMPLE)
    failed = False
    for name, times in measure_first_paints(large, tries).items():
        small, most = (statistics.median(each) for each in times)
        failed |= most > RATIO_LIMIT * small
        table.add_row(
            titles[name], f"{RATIO_LIMIT}", f"{most / small:.2f}", f"{small:.0f} ms",
            f"{most:.0f} ms", "✓" if most <= RATIO_LIMIT * small else "✗ too slow",
        )  # fmt: skip
    console.print(table)
    return failed


def main() -> None:
    """Print the delays; exit with an error if a median exceeds its limit."""
    parser = argparse.ArgumentParser(description="Waiting times of the studio in a browser.")
    parser.add_argument("--tries", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="3 tries, and a smaller database")
    options = parser.parse_args()
    tries = 3 if options.quick else options.tries
    found = measure(tries)
    console = Console(highlight=False, soft_wrap=True, width=100)
    table = Table("Move", "Snapshot", "Limit", "Median", "Worst", "Drawn", "", box=box.SIMPLE)
    failed = False
    for move_name, delays in found.items():
        for name, limit, drawn, painted in (
            ("first", FIRST_LIMIT, [d.first_drawn for d in delays], [d.first for d in delays]),
            ("1,000 runs", LAST_LIMIT, [d.last_drawn for d in delays], [d.last for d in delays]),
        ):
            median = statistics.median(painted)
            failed |= median > limit
            table.add_row(
                move_name, name, f"{limit} ms", f"{median:.0f} ms", f"{max(painted):.0f} ms",
                f"{statistics.median(drawn):.0f} ms", "✓" if median <= limit else "✗ too slow",
            )  # fmt: skip
    console.print(table)
    failed |= print_first_paints(console, QUICK if options.quick else LARGE, tries)
    load = os.getloadavg()[0]
    console.print(
        f"Nine arms, 20,000 rounds, three policies; {platform.machine()}, {os.cpu_count()} cores, "
        f"load {load:.1f}. Until painted; “Drawn” is the median of the page's own marks."
    )
    sys.exit(failed)


if __name__ == "__main__":
    main()
