"""The spending chart of a campaign: its whole history, by offer and by date."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, NamedTuple

import pytest
from browser.chart_limits import values_outside_axes
from browser.studio_pages import Studio, Visit, leave_screen, show
from playwright.sync_api import Page, Route, expect

PROBE_ALL = {"share": 1, "amount": 0.5}
"""Pays about half of the offers from the first one on."""


class State(NamedTuple):
    """A campaign after one event."""

    at: datetime
    offers: int
    committed: int


def states(studio: Studio, campaign: str) -> list[State]:
    """Return the state after each event, from the log."""
    found, offers, committed = [], 0, 0
    for event in studio.client.events(campaign, page=1000):
        kind = event.body["kind"]
        offers += kind == "offered"
        committed += {"accepted": 1, "reversed": -1}.get(kind, 0) * event.body.get("paid", 0)
        found.append(State(event.at, offers, committed))
    return found


def curve(page: Page) -> list[tuple[Any, int]]:
    """Return the points of the drawn line, in minor units."""
    drawn: list[list[Any]] = page.locator(".spending-chart").evaluate(
        "node => { const { x, y } = node.data.find(({ name }) => name === 'committed');"
        " return [x, y]; }"
    )
    return list(zip(*drawn, strict=True))


def wait_for(page: Page, committed: int) -> None:
    """Wait until the curve ends at an amount and the whole history is loaded."""
    page.wait_for_function(
        """(committed) => {
          const node = document.querySelector(".spending-chart");
          const line = (node?.data ?? []).find(({ name }) => name === "committed");
          return line?.y.at(-1) === committed;
        }""",
        arg=committed,
    )
    expect(page.locator("#spending-key")).to_contain_text("Line: committed.")


@pytest.fixture(scope="module")
def old_campaign(studio: Studio) -> str:
    """A campaign with 4,000 events after its last spending."""
    campaign = studio.new_campaign(name="Old", probe=PROBE_ALL, pace_over=None)
    offers = studio.client.offers(campaign, [f"early {i}" for i in range(400)])
    paid = [offer for offer in offers if offer.amount][:60]
    for offer in paid:
        studio.client.accept(offer.id)
    for offer in paid[:20]:
        studio.client.reverse(offer.id)
    for _ in range(4):
        studio.client.enter_ratings(campaign, [("assam", 3)] * 1000)
    studio.client.offers(campaign, [f"late {i}" for i in range(100)])
    return campaign


def test_the_whole_history_is_drawn(studio: Studio, visit: Visit, old_campaign: str) -> None:
    expected = states(studio, old_campaign)
    assert len(expected) > 4400
    page = visit(studio.at(f"#/campaign/{old_campaign}"))
    wait_for(page, expected[-1].committed)
    points = curve(page)
    assert points[0] == (0, 0)
    assert points[-1] == (500, expected[-1].committed)
    last = {state.offers: state.committed for state in expected}
    assert all(last[n] == amount for n, amount in points)
    assert values_outside_axes(page) == []

    page.get_by_role("button", name="By date").click()
    expect(page.locator(".spending-chart")).to_have_attribute("aria-label", re.compile("by date"))
    wait_for(page, expected[-1].committed)
    points = curve(page)
    at = {
        state.at.replace(tzinfo=None).isoformat(timespec="milliseconds"): state
        for state in expected
    }
    # Browsers know milliseconds; several events may share one.
    amounts = {state.committed for state in expected}
    assert all(when in at and amount in amounts for when, amount in points)
    # Before the reversals, the curve was above its end.
    assert max(amount for _, amount in points) > expected[-1].committed
    assert len({amount for _, amount in points}) > 10
    assert values_outside_axes(page) == []


def test_the_curve_follows_new_events(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="Followed", probe=PROBE_ALL, pace_over=200)
    page = visit(studio.at(f"#/campaign/{campaign}"))
    offers = studio.client.offers(campaign, [f"visitor {i}" for i in range(30)])
    paid = [offer for offer in offers if offer.amount]
    for offer in paid[:6]:
        studio.client.accept(offer.id)
    wait_for(page, studio.client.campaign(campaign).committed)
    expect(page.locator(".budget-bar")).to_have_text("limit by now")
    expect(page.locator(".budget-card")).to_contain_text("The pace allows at most €")
    studio.client.rate(paid[0].id, 5)
    studio.client.reverse(paid[0].id)
    less = studio.client.campaign(campaign).committed
    assert less == sum(offer.amount for offer in paid[1:6])
    wait_for(page, less)
    studio.client.decline(paid[7].id)
    studio.client.change_campaign(campaign, budget=30_000)
    history = studio.client.spending(campaign, "offer")
    assert (history.budget[0], history.budget[-1]) == (60_000, 30_000)
    # The pace is drawn with its past limit and with the new one, which is half of that.
    page.wait_for_function(
        """([first, last]) => {
          const { data } = document.querySelector(".spending-chart");
          const { x, y } = data.find(({ line }) => line?.dash === "dash");
          const near = (n, limit) => x.some((at, i) => at === n && Math.abs(y[i] - limit) <= 1);
          return near(0, first) && near(30, last);
        }""",
        arg=[history.paced[0], history.paced[-1]],
    )
    assert values_outside_axes(page) == []
    page.get_by_role("button", name="By date").click()
    wait_for(page, less)
    assert values_outside_axes(page) == []


def test_events_that_come_while_the_page_is_loaded_are_counted(
    studio: Studio, visit: Visit
) -> None:
    """The page reads the campaign before its log; these events come in between."""
    campaign = studio.new_campaign(name="Loading", probe=PROBE_ALL, pace_over=200)
    page = visit(studio.at("#/campaigns"))

    def respond(route: Route) -> None:
        offers = studio.client.offers(campaign, [f"visitor {i}" for i in range(30)])
        studio.client.accept(next(offer.id for offer in offers if offer.amount))
        route.continue_()

    page.route("**/events?*", respond, times=1)
    page.goto(studio.at(f"#/campaign/{campaign}"))
    expect(page.locator(".spending-chart.js-plotly-plot")).to_be_visible()
    wait_for(page, studio.client.campaign(campaign).committed)


def test_the_screen_can_be_left_while_the_chart_is_read(
    studio: Studio, visit: Visit, old_campaign: str
) -> None:
    """The request is cancelled. `visit` fails if the page reports that as an error."""
    page = visit(studio.at(f"#/campaign/{old_campaign}"))
    expect(page.locator(".spending-chart.js-plotly-plot")).to_be_visible()
    waiting: list[Route] = []
    page.route("**/spending?by=date*", lambda route: waiting.append(route))
    with page.expect_request("**/spending?by=date*"):
        page.get_by_role("button", name="By date").click()
    leave_screen(page)
    page.unroute("**/spending?by=date*")
    assert len(waiting) == 1


def test_ticks_are_whole_minor_units(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="New", probe=None, pace_over=None)
    page = visit(studio.at(f"#/campaign/{campaign}"))
    expect(page.get_by_text("The spending chart starts with the first offer.")).to_be_visible()
    expect(page.get_by_role("button", name="By date")).to_be_hidden()
    no_plan = "No plan Create a campaign from a plan to compare them."
    expect(page.locator(".plan-verdict")).to_have_text(no_plan)
    assert studio.client.offer(campaign, "visitor 1").amount == 0
    wait_for(page, 0)
    page.get_by_role("button", name="Last paid offer").click()
    expect(page.locator(".offer-results [role=status]")).to_have_text("No paid offer yet.")
    ticks = page.locator(".spending-chart .ytick text").all_text_contents()
    assert ticks == ["€0.00", "€0.50", "€1.00", "€1.50", "€2.00"]
    # With the smallest price, no tick is a fraction of a cent.
    small = studio.new_campaign(name="Small", probe=None, pace_over=None, price_of_a_star=1)
    studio.client.offer(small, "visitor 1")
    show(page, studio.at(f"#/campaign/{small}"))
    wait_for(page, 0)
    assert page.locator(".spending-chart .ytick text").all_text_contents() == ["€0.00", "€0.01"]


def test_a_history_that_is_still_loading_is_marked(
    studio: Studio, visit: Visit, old_campaign: str
) -> None:
    expected = states(studio, old_campaign)
    page = visit(studio.at("#/campaigns"))
    held: list[Route] = []

    def respond(route: Route) -> None:
        """Return half of the history to the first request, and hold the others."""
        if held or "by=offer" not in route.request.url:
            held.append(route)
            return
        held.append(route)
        history = json.loads(route.fetch().text())
        half = len(history["at"]) // 2
        for name in ("at", "offers", "committed", "reserved", "budget", "paced"):
            history[name] = history[name][:half]
        history["through"] = history["events"] // 4
        route.fulfill(status=200, content_type="application/json", body=json.dumps(history))

    page.route("**/spending?*", respond)
    page.goto(studio.at(f"#/campaign/{old_campaign}"))
    expect(page.locator("#spending-key")).to_have_text(
        "Loading the history: 25 %. Dotted: not loaded yet."
    )
    page.wait_for_selector(".spending-chart.js-plotly-plot")
    assert values_outside_axes(page) == []
    page.wait_for_function("() => true")
    assert len(held) == 2  # it requests the rest
    held[1].continue_()
    wait_for(page, expected[-1].committed)
    assert values_outside_axes(page) == []
