"""Trust: green where all holds, red where not, and a log made again."""

from __future__ import annotations

from browser.studio_pages import READY, Studio, Visit
from playwright.sync_api import Route, expect


def test_invariants_hold_and_a_log_is_replayed(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("trust"))
    expect(page.locator(".trust-good")).to_contain_text("invariants hold")
    card = page.locator(".trust-card", has=page.get_by_role("link", name="Teas of the month"))
    assert card.locator(".invariants .verdict-icon-good").count() >= 3
    expect(card.locator(".invariant-broken")).to_have_count(0)
    card.get_by_role("button", name="Replay now").click()
    events = studio.client.campaign(studio.campaign).events
    expect(card.locator(".replay-last")).to_contain_text(f"Came out the same: {events} events")
    expect(page.get_by_label("Last fault run").locator(".trial").first).to_be_visible()
    # Whoever comes later sees that it was done.
    page.reload()
    expect(card.locator(".replay-last")).to_contain_text(f"Came out the same: {events} events")


def test_what_does_not_hold_is_red(studio: Studio, visit: Visit) -> None:
    page = visit("about:blank")

    def broken(route: Route) -> None:
        told = route.fetch().json()
        told["campaigns"][0]["invariants"][0] |= {"holds": False, "detail": "Too much by €1."}
        route.fulfill(json=told)

    page.route("**/v1/trust", broken)
    page.goto(studio.address("trust"))
    page.wait_for_selector(READY["trust"])
    expect(page.locator(".trust-bad")).to_contain_text("invariants is broken")
    expect(page.locator(".invariant-broken")).to_contain_text("Too much by €1.")
