"""A studio with a campaign, and browser pages that record their errors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect
from service_fixtures import server

from entice.client import Client
from entice.service.storage.api_keys import Keys
from entice.service.storage.store import open_store
from entice.studio.demo.demo import SETTINGS as DEMO_SETTINGS
from entice.studio.demo.visitors import VisitorSimulator

TIMEOUT = 120_000
"""Milliseconds of every wait; generous, since the machine may be busy."""
COMPILE_TIMEOUT = 2 * TIMEOUT
"""Milliseconds to wait for results that may have to be compiled."""
WIDE, NARROW = ViewportSize(width=1600, height=1000), ViewportSize(width=390, height=844)
SMALL = "#/explore?policies=ucb,thompson&arms=4&horizon=500&replications=100&seed=7&l=1"
"""Settings that run fast."""
SETTINGS = {**DEMO_SETTINGS, "rating_window": 86_400}
"""The demo's campaign, with a rating window that does not end during a test."""
READY = {
    "explore": "body[data-explore=done] .single-run:not(.outdated) .single-run-row",
    "plan": "#budget",
    "campaigns": ".campaign-row",
    "campaign": ".campaign-grid:has(.feed-item):has(.item-row):has(.drift-gauge)",
    "offer": ".hash-chain .link",
    "compare": ".compare-chart.js-plotly-plot",
    "terms": ".terms",
    "paper": ".paper-table",
    "trust": ".trust-verdict",
    "keys": ".key-table tbody tr",
}
"""A selector for each screen that matches once its data is shown."""


@dataclass(frozen=True)
class Studio:
    """A service with a key, and a campaign with past visitors."""

    url: str
    key: str
    read_key: str
    client: Client
    campaign: str
    offer: str

    def at(self, path: str) -> str:
        """Return the address of a path, such as `#/trust`, with the key."""
        return f"{self.url}/#key={self.key}&{path.removeprefix('#')}"

    def address(self, screen: str) -> str:
        """Return the address of a screen by its name."""
        paths = {
            "explore": SMALL,
            "campaign": f"#/campaign/{self.campaign}",
            "offer": f"#/offer/{self.offer}",
            "compare": f"#/compare/{self.campaign}",
        }
        return self.at(paths.get(screen, f"#/{screen}"))

    def new_campaign(self, **changes: Any) -> str:
        """Create a campaign for a single test."""
        return self.client.create_campaign(**{**SETTINGS, **changes}).id


@contextlib.contextmanager
def run_studio(folder: Path, visitors: int, *, new: bool = False) -> Iterator[Studio]:
    """Run a `server` with a campaign that simulated visitors have visited."""
    with contextlib.closing(open_store(f"sqlite:///{folder / 'entice.db'}")) as store:
        _, key = Keys(store).create("admin", None, "tests")
        _, read_key = Keys(store).create("read", None, "reader")
    with (
        server(folder, new=new) as running,
        Client(running.url, key) as client,
    ):
        campaign = client.create_campaign(**SETTINGS)
        simulator = VisitorSimulator(client, seed=7)
        for _ in range(visitors):
            simulator.step([campaign])
        offer = _paid_and_rated(client, campaign.id)
        yield Studio(running.url, key, read_key, client, campaign.id, offer)


def _paid_and_rated(client: Client, campaign: str) -> str:
    """Return the last offer that was paid and rated."""
    rated = [event.body["n"] for event in client.events(campaign) if event.body["kind"] == "rated"]
    offers = (f"{campaign}.{n}" for n in reversed(rated))
    return next(o for o in offers if client.history(o).offer.paid)


class StudioTab:
    """A page of the studio that one test after another uses.

    A new page has a process of its own, which loads Plotly: 2.0 s of CPU until a campaign is drawn.
    The same page takes 0.6 s if it is loaded again, and 0.3 s for another screen of it. It is
    loaded again if a test needs a new page, or if the test before it has left anything behind but
    the loaded scripts.
    """

    def __init__(self, chromium: Browser) -> None:
        self._record: Callable[[str], None] = lambda error: None
        self._page = new_page(chromium, lambda error: self._record(error))
        self._loaded = ""
        """The server whose page is loaded, or an empty string."""
        self._new = False

    def open(
        self,
        address: str,
        record: Callable[[str], None],
        *,
        new: bool = False,
        viewport: ViewportSize = WIDE,
        color_scheme: Literal["light", "dark"] = "light",
    ) -> Page:
        """Show an address, and report errors to `record`."""
        server, _, fragment = address.partition("#")
        self._new = new or not fragment.startswith("key=")
        if self._new or self._loaded != server:
            self._unload()
        self._record, self._loaded = record, server
        self._page.set_viewport_size(viewport)
        self._page.emulate_media(color_scheme=color_scheme)
        self._page.goto(address)
        return self._page

    def leave(self) -> None:
        """Leave the screen; unload the page if it was a new one, or the test has changed it."""
        page, untouched = self._page, False
        if self._new:  # its server may have ended, or its key may be another one
            self._record = lambda error: None
        for other in page.context.pages:
            if other != page:
                other.close()
        try:
            page.unroute_all(behavior="wait")
            page.mouse.move(0, 0)
            if not self._new:
                leave_screen(page)
                untouched = page.evaluate(
                    "() => localStorage.length === 0 && !document.querySelector('dialog')"
                )
        finally:
            if not untouched:
                self._unload()

    def _unload(self) -> None:
        """Clear what the page has stored, the key included, and unload it."""
        if self._loaded:
            self._page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        self._page.goto("about:blank")
        self._loaded = ""

    def close(self) -> None:
        """Close the page."""
        self._page.context.close()


class StudioTabs:
    """Pages of the studio that tests share. A test that opens several pages uses several."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._free: list[StudioTab] = []

    def take(self) -> StudioTab:
        """Return a page that no other test uses."""
        return self._free.pop() if self._free else StudioTab(self._chromium)

    def give_back(self, tab: StudioTab) -> None:
        """Leave the screen of a page, so that the next test can use it."""
        tab.leave()
        self._free.append(tab)

    def close(self) -> None:
        """Close the pages."""
        for tab in self._free:
            tab.close()


def leave_screen(page: Page) -> None:
    """Leave the current screen, so that nothing of it is taken for that of the next one."""
    page.evaluate("() => { location.hash = '#/left'; }")
    page.get_by_text("Screen not found").wait_for()


def show(page: Page, address: str) -> None:
    """Show another address of the studio in a page, without loading the page again."""
    leave_screen(page)
    page.goto(address)


def new_page(chromium: Browser, record: Callable[[str], None], **options: Any) -> Page:
    """Open an empty page in a context of its own, and report its errors to `record`."""
    settings = {"viewport": WIDE, "locale": "en-GB", "reduced_motion": "reduce", **options}
    context = chromium.new_context(**settings)
    context.set_default_timeout(TIMEOUT)
    # The console also reports violations of the content security policy.
    context.on("console", lambda line: record(line.text) if line.type == "error" else None)
    context.on("weberror", lambda error: record(str(error.error)))
    return context.new_page()


class BrowserPages:
    """The pages of a test, and the errors that they report.

    With `tabs`, they are pages that other tests use too.
    """

    def __init__(self, chromium: Browser, tabs: StudioTabs | None = None) -> None:
        self.errors: list[str] = []
        self._chromium = chromium
        self._tabs = tabs
        self._used: list[StudioTab] = []
        self._contexts: list[BrowserContext] = []

    def open(
        self, address: str, *, expecting: str | None = None, new: bool = False, **options: Any
    ) -> Page:
        """Open an address.

        Parameters
        ----------
        address
            The address.
        expecting
            A pattern of errors to ignore.
        new
            Whether the page must be loaded for this test. A page without a key in the address
            always is.
        **options
            `viewport` and `color_scheme`.
        """

        def record(error: str) -> None:
            if expecting is None or not re.search(expecting, error):
                self.errors.append(error)

        if self._tabs is not None:
            self._used.append(self._tabs.take())
            return self._used[-1].open(address, record, new=new, **options)
        page = new_page(self._chromium, record, **options)
        self._contexts.append(page.context)
        page.goto(address)
        return page

    def close(self) -> None:
        """Close all pages, or leave their screens."""
        for context in self._contexts:
            context.close()
        for tab in self._used:
            if self._tabs is not None:
                self._tabs.give_back(tab)


Visit = Callable[..., Page]
"""`BrowserPages.open`"""


@contextlib.contextmanager
def browser_pages(chromium: Browser, tabs: StudioTabs | None = None) -> Iterator[Visit]:
    """Yield a function that opens pages; afterwards, fail if a page has reported an error."""
    expect.set_options(timeout=TIMEOUT)
    pages = BrowserPages(chromium, tabs)
    try:
        yield pages.open
    finally:
        pages.close()
    assert not pages.errors, "\n".join(pages.errors)


def small_plan(page: Page, days: int, **fields: str) -> None:
    """Calculate a plan that runs fast, with other fields by their labels."""
    page.get_by_text("More", exact=True).click()
    page.get_by_role("spinbutton", name="Runs").fill("40")
    page.get_by_label("Visitors per day").fill("100")
    page.get_by_label("Days").fill(str(days))
    for label, text in fields.items():
        page.get_by_label(label.replace("_", " ")).fill(text)
    page.get_by_role("button", name="Calculate").click()
    finished = "Based on 40 runs of each policy, seed 7."
    expect(page.locator(".plan-status")).to_have_text(finished, timeout=COMPILE_TIMEOUT)
    page.wait_for_selector(".plan-answer:not([aria-busy])")


def explore_table(page: Page) -> list[str]:
    """Return the rows of Explore's table once all runs are done."""
    page.wait_for_selector("body[data-explore=done]")
    return page.locator(".card.table tbody tr").all_inner_texts()


def drawn_lines(page: Page, chart: str = "chart-regret") -> list[str]:
    """Return the paths of a chart's lines."""
    lines: list[str] = page.locator(f"#{chart} .scatterlayer path.js-line").evaluate_all(
        "lines => lines.map((line) => line.getAttribute('d'))"
    )
    return lines
