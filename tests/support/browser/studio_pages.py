"""What the browser's tests share: a studio to visit, and visitors who hear every complaint."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect
from service_fixtures import server

from entice.client import Client
from entice.service.storage.api_keys import Keys
from entice.service.storage.store import open_store
from entice.studio.demo.demo import SETTINGS as OF_THE_DEMO
from entice.studio.demo.visitors import VisitorSimulator

PATIENCE, COMPILING = 60_000, 120_000
"""Milliseconds until something that should happen has not: machines may be busy, or compile."""
WIDE, NARROW = ViewportSize(width=1600, height=1000), ViewportSize(width=390, height=844)
SMALL = "#/explore?policies=ucb,thompson&arms=4&horizon=500&replications=100&seed=7&l=1"
"""A set-up that takes no time."""
SETTINGS = {**OF_THE_DEMO, "rating_window": 86_400}
"""The demo's campaign, but nothing happens to it by itself while one looks."""
READY = {
    "explore": "body[data-explore=done] .single-run:not(.outdated) .single-run-row",
    "plan": "#budget",
    "campaigns": ".campaign-card",
    "campaign": ".campaign-grid:has(.feed-item):has(.item-row):has(.drift-gauge)",
    "offer": ".hash-chain .link",
    "paper": ".paper-table",
    "trust": ".trust-verdict",
}
"""What is to be seen on each screen once it has what it shows."""


@dataclass(frozen=True)
class Studio:
    """A service with a key and a campaign that has a past."""

    url: str
    key: str
    client: Client
    campaign: str
    offer: str

    def at(self, path: str) -> str:
        """The address of a screen, such as `#/trust`, that brings the key along."""
        return f"{self.url}/#key={self.key}&{path.removeprefix('#')}"

    def address(self, screen: str) -> str:
        """The address of a screen by its name."""
        paths = {
            "explore": SMALL,
            "campaign": f"#/campaign/{self.campaign}",
            "offer": f"#/offer/{self.offer}",
        }
        return self.at(paths.get(screen, f"#/{screen}"))

    def new_campaign(self, **changes: Any) -> str:
        """Begin a campaign for one test alone."""
        return self.client.create_campaign(**{**SETTINGS, **changes}).id


@contextlib.contextmanager
def studio(folder: Path, visitors: int) -> Iterator[Studio]:
    """Run a service in which so many simulated shoppers have come to a tea shop, and left."""
    with contextlib.closing(open_store(f"sqlite:///{folder / 'entice.db'}")) as store:
        _, key = Keys(store).create("admin", None, "tests")
    with server(folder) as running, Client(running.url, key) as client:
        campaign = client.create_campaign(**SETTINGS)
        crowd = VisitorSimulator(client, seed=7)
        for _ in range(visitors):
            crowd.step([campaign])
        yield Studio(running.url, key, client, campaign.id, _paid_and_rated(client, campaign.id))


def _paid_and_rated(client: Client, campaign: str) -> str:
    """The last offer to which all has happened that can."""
    rated = [event.body["n"] for event in client.events(campaign) if event.body["kind"] == "rated"]
    offers = (f"{campaign}.{n}" for n in reversed(rated))
    return next(o for o in offers if client.history(o)["offer"]["paid"])


class Visitors:
    """Open pages, each in a browser context of its own, and hear all that they complain of."""

    def __init__(self, chromium: Browser) -> None:
        self.heard: list[str] = []
        self._chromium = chromium
        self._contexts: list[BrowserContext] = []

    def visit(self, address: str, *, expecting: str | None = None, **options: Any) -> Page:
        """Open an address; complaints that match `expecting` are part of the test.

        Options are those of a browser context.
        """
        settings = {"viewport": WIDE, "locale": "en-GB", "reduced_motion": "reduce", **options}
        context = self._chromium.new_context(**settings)
        context.set_default_timeout(COMPILING)
        self._contexts.append(context)

        def hear(complaint: str) -> None:
            if expecting is None or not re.search(expecting, complaint):
                self.heard.append(complaint)

        # Violations of the content security policy are errors of the console, too.
        context.on("console", lambda said: hear(said.text) if said.type == "error" else None)
        context.on("weberror", lambda error: hear(str(error.error)))
        page = context.new_page()
        page.goto(address)
        return page

    def leave(self) -> None:
        """Close all pages."""
        for context in self._contexts:
            context.close()


Visit = Callable[..., Page]
"""`Visitors.visit`"""


@contextlib.contextmanager
def visiting(chromium: Browser) -> Iterator[Visit]:
    """Visit pages; in the end none may have complained."""
    expect.set_options(timeout=PATIENCE)
    visitors = Visitors(chromium)
    try:
        yield visitors.visit
    finally:
        visitors.leave()
    assert not visitors.heard, "\n".join(visitors.heard)


def small_plan(page: Page, days: int) -> None:
    """Ask for a plan that takes no time, and wait for it."""
    page.get_by_text("More", exact=True).click()
    page.get_by_role("spinbutton", name="Runs").fill("40")
    page.get_by_label("Visitors a day").fill("100")
    page.get_by_label("Days").fill(str(days))
    page.get_by_role("button", name="Work it out").click()
    answered = "From 40 runs of each policy, seed 7."
    expect(page.locator(".plan-status")).to_have_text(answered, timeout=2 * COMPILING)
    page.wait_for_selector(".plan-parts:not([aria-busy])")


def table_of(page: Page) -> list[str]:
    """The numbers that Explore has found, when it has found all."""
    page.wait_for_selector("body[data-explore=done]")
    return page.locator(".card.table tbody tr").all_inner_texts()


def curve_of(page: Page, chart: str = "chart-regret") -> list[str]:
    """The lines of a chart as they are drawn."""
    lines: list[str] = page.locator(f"#{chart} .scatterlayer path.js-line").evaluate_all(
        "lines => lines.map((line) => line.getAttribute('d'))"
    )
    return lines
