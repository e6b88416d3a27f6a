"""Plan: the forecast, and the campaign created from it.

The form keeps its values while the page is open, so these tests open new pages.
"""

from __future__ import annotations

import re

from browser.studio_pages import Studio, Visit, small_plan
from playwright.sync_api import Route, expect

BUSY = {"title": "Busy", "status": 503, "detail": "All workers calculate. Wait a minute."}


def test_a_campaign_is_created_from_a_plan(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("plan"), new=True)
    small_plan(page, days=9)
    sentence = page.locator(".plan-sentence")
    expect(sentence).to_contain_text("runs in 10")
    expect(page.locator(".policies .policy")).to_have_count(5)
    dialog = page.get_by_role("dialog", name="Create this campaign")
    for policy, probes in (("UCB", 1), ("Equal pay", 0)):  # a probe would break equal pay
        heading = page.get_by_role("heading", name=policy, exact=True)
        page.locator(".policy", has=heading).get_by_role("button").last.click()
        expect(dialog.get_by_label("Measure the drift")).to_have_count(probes)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Create this campaign …").click()
    dialog.get_by_label("Name").fill("Cups from the browser")
    dialog.get_by_label("Items").fill("mug\nmug")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("“mug” is listed twice")
    dialog.get_by_label("Items").fill("mug\nbowl\ntea cup")
    dialog.get_by_label("Start").select_option("paused")
    held_out = dialog.get_by_label("Held out, %")
    expect(held_out).to_have_value("0")
    held_out.fill("7.5")
    dialog.get_by_role("button", name="Create").click()
    expect(page).to_have_url(re.compile("#/campaign/"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Cups from the browser")
    expect(page.get_by_text("No offers yet")).to_be_visible()
    made = studio.client.campaign(page.url.rpartition("/")[2])
    assert made.spec["arms"] == ["mug", "bowl", "tea-cup"]
    assert made.budget == 500_00
    assert made.spec["price_of_a_star"] == 2_00
    assert made.status == "paused"
    assert made.spec["holdout"] == 0.075


def test_the_budget_slider_updates_the_forecast(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("plan"), new=True)
    small_plan(page, days=8)
    outcome, first = page.locator(".budget-outcome"), page.locator(".policy-first")
    create = page.get_by_role("button", name="Create this campaign …")
    before, cost = outcome.inner_text(), first.locator(".fact-lasts").inner_text()
    slider = page.get_by_role("slider", name="Budget")
    slider.focus()
    slider.press("Home")
    # The estimate is immediate; a campaign can be created after the new forecast.
    assert outcome.inner_text() != before
    expect(create).to_be_disabled()
    expect(create).to_be_enabled()
    expect(first.locator(".fact-lasts")).not_to_have_text(cost)
    expect(outcome).to_contain_text("stops exploring on day")
    page.get_by_label("No limit").check()
    expect(first.locator(".fact-lasts")).to_contain_text("no limit")


def test_errors_say_what_to_do_next(studio: Studio, visit: Visit) -> None:
    """An error takes the place of the first forecast, and leaves a later one with its charts."""
    page = visit(studio.at("#/trust"), new=True, expecting="503")
    page.route("**/v1/plans", lambda route: route.fulfill(status=503, json=BUSY))
    page.goto(studio.address("plan"))
    error, charts = page.locator(".state-failed"), page.locator(".plan-details")
    expect(error).to_contain_text("All workers calculate")
    expect(error).to_contain_text("Or change the values below")
    expect(charts).to_be_hidden()
    assert page.locator(".plan-answer").inner_text().startswith("Busy")  # nothing empty above it
    form, answer = (
        page.locator(name).evaluate("node => node.clientWidth")
        for name in (".plan-form", ".plan-answer")
    )
    assert form == answer  # nothing empty beside it
    page.unroute("**/v1/plans")
    error.get_by_role("button", name="Try again").click()
    expect(error).to_have_count(0)
    small_plan(page, days=7)
    held: list[Route] = []
    page.route("**/v1/plans", lambda route: held.append(route))
    calculate = page.get_by_role("button", name="Calculate")
    buttons = page.get_by_role("button", name=re.compile("Create this campaign|Copy as Markdown"))
    expect(calculate).to_have_attribute("aria-busy", "false")
    page.get_by_label("Days").fill("6")
    calculate.click()
    # The old forecast is dimmed until there is a new one, and nothing is made of it.
    expect(calculate).to_have_attribute("aria-busy", "true")
    expect(charts).to_have_attribute("aria-busy", "true")
    expect(page.locator(".plan-sentence")).to_have_css("opacity", "0.4")
    assert buttons.count() >= 3
    assert all(button.is_disabled() for button in buttons.all())
    held[-1].fulfill(status=503, json=BUSY)
    expect(error).to_contain_text("those of the last values that could be calculated")
    expect(error).to_be_in_viewport()
    expect(charts).to_be_visible()
    assert all(button.is_enabled() for button in buttons.all())
    visitors = page.get_by_label("Visitors per day")
    visitors.fill("-3")
    page.get_by_role("button", name="Calculate").click()
    expect(visitors).to_be_focused()
    expect(visitors).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("Enter a whole number from 1 to")).to_be_visible()
