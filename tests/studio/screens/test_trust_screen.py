"""Trust: the results of the checks, and the replay of a log."""

from __future__ import annotations

from typing import Any

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


def test_fault_tests_of_other_code_say_so(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("campaigns"))

    def edit(route: Route) -> None:
        view = route.fetch().json()
        for trial in view["faults"]["trials"]:
            trial |= {"commit": "1a2b3c4", "source": view["source"], "date": "2026-11-20"}
            trial |= {"seconds": 1234} | next(
                (new for new in changes if trial["id"] in new["ids"]), {}
            )
        route.fulfill(json=view)

    changes: list[dict[str, Any]] = [
        {"ids": ["kill"], "commit": "9f8e7d6", "source": "0123456789abcdef"},
        {"ids": ["race"], "commit": None, "source": None, "seconds": None},
    ]
    page.route("**/v1/trust", edit)
    page.goto(studio.address("trust"))
    section = page.get_by_label("Fault tests")
    kill = section.locator(".trial", has_text="Kill −9 under load")
    expect(kill).to_contain_text("2026-11-20, 1,234 s")
    expect(kill).to_contain_text("Commit 9f8e7d6. The code has changed since.")
    expect(section.locator(".trial", has_text="Budget race")).to_contain_text("Commit unknown.")
    expect(section.locator(".verdict-icon-warn")).to_have_count(2)
    expect(kill.locator(".verdict-icon")).to_have_text("!")
    replay = section.locator(".trial", has_text="Replay")
    expect(replay).to_contain_text("Commit 1a2b3c4: the code that this service runs.")
    expect(section.locator(".trials-outdated")).to_contain_text("2 of them ran on other or unknown")
    # Control: all of them on the running code.
    changes.clear()
    page.reload()
    page.wait_for_selector(READY["trust"])
    expect(section).to_contain_text("All of them ran on the code that this service runs.")
    expect(section.locator(".trials-outdated, .verdict-icon-warn")).to_have_count(0)
