"""How long one waits for the studio's pictures: `make bench-studio`.

In a real browser, on Explore as it opens: the paper's nine arms, 20,000 rounds, three policies,
1,000 replications. A slider is moved by one step and all is waited for, again and again; then it
is swept over several steps, and what counts is the time since its last move. The page marks when
it hears of a move and when it has drawn (`explore:input`, `explore:first`, `explore:last`). The
time until the browser has painted that is measured besides, and is what must be within the limits.
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

FIRST, LAST = 150, 3000
"""Milliseconds that the first picture and the last one may take."""
SWEEP, PAUSE = 8, 60
"""Steps of a sweep, and the milliseconds between two."""

# A frame is on the screen when the next task after it runs.
WATCH = """() => {
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


class Wait(NamedTuple):
    """Milliseconds since the slider's last move."""

    first_drawn: float
    first: float
    last_drawn: float
    last: float


def move(page: Page, steps: int, direction: str) -> Wait:
    """Move the slider and wait for the last picture."""
    page.evaluate("() => { performance.clearMarks(); window.painted = {}; }")
    slider = page.get_by_label("How strong")
    for step in range(steps):
        if step:
            page.wait_for_timeout(PAUSE)
        slider.press(direction)
    page.wait_for_selector("body[data-explore=done]")
    while "explore:last" not in page.evaluate("() => window.painted"):
        page.wait_for_timeout(20)
    found = page.evaluate(MARKS)
    first, last, begun = found["explore:first"], found["explore:last"], found["input"]
    times = (first["drawn"], first["painted"], last["drawn"], last["painted"])
    return Wait(*(time - begun for time in times))


def tries(page: Page, count: int, steps: int) -> Iterator[Wait]:
    """Move it to and fro."""
    for i in range(count):
        yield move(page, steps, "ArrowLeft" if i % 2 else "ArrowRight")
        page.wait_for_selector(READY["explore"])  # the race of the items is run, too


def measure(count: int) -> dict[str, list[Wait]]:
    """Visit the studio on a service of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder)) as running,
        run_browser() as chromium,
        browser_pages(chromium) as visit,
    ):
        page = visit(f"{running.url}/#/explore")
        page.wait_for_selector(READY["explore"])
        page.wait_for_timeout(3000)  # the simulation process makes more ready while nobody asks
        page.evaluate(WATCH)
        page.get_by_label("How strong").focus()
        list(tries(page, 2, 1))
        return {
            "a single step": list(tries(page, count, 1)),
            f"a sweep of {SWEEP} steps": list(tries(page, count, SWEEP)),
        }


def main() -> None:
    """Measure and say; fail where a median is beyond its limit."""
    parser = argparse.ArgumentParser(description="Waiting times of the studio, in a browser.")
    parser.add_argument("--tries", type=int, default=9)
    found = measure(parser.parse_args().tries)
    console = Console(highlight=False, soft_wrap=True, width=100)
    table = Table("After", "Picture", "Limit", "Median", "Worst", "Drawn", "", box=box.SIMPLE)
    failed = False
    for how, waits in found.items():
        for name, limit, drawn, painted in (
            ("first", FIRST, [w.first_drawn for w in waits], [w.first for w in waits]),
            ("1,000 runs", LAST, [w.last_drawn for w in waits], [w.last for w in waits]),
        ):
            median = statistics.median(painted)
            failed |= median > limit
            table.add_row(
                how, name, f"{limit} ms", f"{median:.0f} ms", f"{max(painted):.0f} ms",
                f"{statistics.median(drawn):.0f} ms", "✓" if median <= limit else "✗ too late",
            )  # fmt: skip
    console.print(table)
    load = os.getloadavg()[0]
    console.print(
        f"Nine arms, 20,000 rounds, three policies; {platform.machine()}, {os.cpu_count()} cores, "
        f"load {load:.1f}. Until it was painted; “drawn” is the median of the page's own marks."
    )
    sys.exit(failed)


if __name__ == "__main__":
    main()
