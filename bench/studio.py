"""The delay of Explore in a real browser, from a slider's move to its results: `make bench-studio`.

With the default settings: nine arms, 20,000 rounds, three policies, 1,000 replications. First the
slider moves one step at a time; then it sweeps over several steps, measured from its last move. The
page sets performance marks at the input and after drawing (`explore:input`, `explore:first`,
`explore:last`). The time until the browser has painted must be within the limits.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page
from rich import box
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from browser.chromium import run_browser
from browser.studio_pages import READY, browser_pages
from service_fixtures import server

FIRST_LIMIT, LAST_LIMIT = 150, 3000
"""Milliseconds until the first and the last snapshot is painted."""
SWEEP, PAUSE = 8, 60
"""Steps of a sweep, and milliseconds between two steps."""

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


def main() -> None:
    """Print the delays; exit with an error if a median exceeds its limit."""
    parser = argparse.ArgumentParser(description="Delay of the studio in a browser.")
    parser.add_argument("--tries", type=int, default=9)
    found = measure(parser.parse_args().tries)
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
    load = os.getloadavg()[0]
    console.print(
        f"Nine arms, 20,000 rounds, three policies; {platform.machine()}, {os.cpu_count()} cores, "
        f"load {load:.1f}. Until painted; “Drawn” is the median of the page's own marks."
    )
    sys.exit(failed)


if __name__ == "__main__":
    main()
