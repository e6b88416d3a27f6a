"""Trust: the results of the checks, and the replay of a log."""

from __future__ import annotations

from browser.studio_pages import READY, Studio, Visit
from playwright.sync_api import Route, expect


def test_checks_pass_and_a_log_is_replayed(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("trust"))
    expect(page.locator(".trust-good")).to_contain_text("checks passed")
    card = page.locator(".trust-card", has=page.get_by_role("link", name="Teas of the month"))
    assert card.locator(".invariants .verdict-icon-good").count() >= 3
    expect(card.locator(".invariant-broken")).to_have_count(0)
    card.get_by_role("button", name="Replay now").click()
    events = studio.client.campaign(studio.campaign).events
    expect(card.locator(".replay-last")).to_contain_text(f"Passed: {events} events")
    expect(page.get_by_label("Fault tests").locator(".trial").first).to_be_visible()
    # The result is kept by the service.
    page.reload()
    expect(card.locator(".replay-last")).to_contain_text(f"Passed: {events} events")


def test_a_failed_check_is_marked(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("campaigns"))

    def fail_a_check(route: Route) -> None:
        view = route.fetch().json()
        view["campaigns"][0]["invariants"][0] |= {"holds": False, "detail": "Too much by €1."}
        route.fulfill(json=view)

    page.route("**/v1/trust", fail_a_check)
    page.goto(studio.address("trust"))
    page.wait_for_selector(READY["trust"])
    expect(page.locator(".trust-bad")).to_contain_text("failed. Pause the campaign")
    expect(page.locator(".invariant-broken")).to_contain_text("Too much by €1.")
