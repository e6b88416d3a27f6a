"""Campaigns: the first screen, search, sort, status, pages and warnings."""

from __future__ import annotations

import re
from pathlib import Path

from browser.studio_pages import READY, Studio, Visit, show
from playwright.sync_api import Page, Route, expect
from service_fixtures import server

from entice.client import Client


def names(page: Page) -> list[str]:
    return page.locator(".campaign-row th a").all_inner_texts()


def campaign_without_free_budget(studio: Studio, name: str) -> str:
    """Create a campaign whose budget is reserved by offers."""
    campaign = studio.new_campaign(name=name)
    studio.client.enter_ratings(campaign, [(studio.client.arms(campaign)[0].id, 5)])
    reserved = sum(offer.amount for offer in studio.client.offers(campaign, ["ann", "bob", "eve"]))
    assert reserved > 0
    studio.client.change_campaign(campaign, budget=reserved)
    return campaign


def test_a_service_with_campaigns_starts_with_them(studio: Studio, visit: Visit) -> None:
    page = visit(f"{studio.url}/#key={studio.key}", new=True)
    page.wait_for_selector(READY["campaigns"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Campaigns")
    current = page.get_by_role("navigation").locator("[aria-current]")
    expect(current).to_have_text("Campaigns")
    expect(page.get_by_role("link", name="Explore")).to_have_attribute("href", "#/explore")
    page.get_by_role("link", name="Teas of the month").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Teas of the month")
    page.get_by_role("link", name="Entice").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Campaigns")


def test_a_service_without_campaigns_has_a_welcome_and_a_first_key(
    tmp_path: Path, visit: Visit
) -> None:
    with server(tmp_path) as running:
        page = visit(f"{running.url}/#key={running.token}", new=True, expecting="401")
        entries = page.locator(".welcome")
        for name, address in (("Plan a campaign", "#/plan"), ("Explore the model", "#/explore")):
            expect(entries.get_by_role("link", name=name)).to_have_attribute("href", address)
        # The first key replaces the token, and this tab goes on with it.
        page.get_by_role("link", name="Keys").click()
        expect(page.locator(".state")).to_contain_text("No keys yet")
        page.get_by_role("button", name="Create a key").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("checkbox", name="admin")).to_be_checked()
        expect(dialog.get_by_role("checkbox", name="admin")).to_be_disabled()
        warning = dialog.locator("h2 + .dialog-problem")
        expect(warning).to_contain_text("Other tabs and the address that the service printed stop")
        dialog.get_by_label("Name").fill("me")
        dialog.get_by_role("button", name="Create").click()
        expect(dialog).to_contain_text("This tab uses it from now on.")
        key = dialog.get_by_label("Key").input_value()
        dialog.get_by_role("checkbox", name="I have stored it").check()
        dialog.get_by_role("button", name="Done").click()
        expect(dialog).to_have_count(0)
        expect(page.locator(".key-table")).to_contain_text("This tab")
        expect(page.locator(".key-table")).to_contain_text("Last admin key")
        expect(page.get_by_role("button", name="Revoke")).to_have_count(0)
        assert key not in page.content()
        with Client(running.url, key) as client:
            assert [one.name for one in client.list_keys()] == ["me"]


def test_campaigns_are_searched_sorted_and_filtered(studio: Studio, visit: Visit) -> None:
    studio.new_campaign(name="List B")
    campaign_without_free_budget(studio, "List a")
    studio.new_campaign(name="List C", status="paused")
    page = visit(studio.address("campaigns"))
    page.wait_for_selector(READY["campaigns"])
    page.get_by_label("Search").fill("list")
    expect(page.get_by_text("3 campaigns", exact=True)).to_be_visible()
    assert names(page) == ["List C", "List a", "List B"]  # the last changed first
    assert page.url.endswith("#/campaigns?search=list")
    page.get_by_role("button", name="Sort by Campaign").click()
    expect(page.locator(".campaign-row th a").first).to_have_text("List a")
    head = page.get_by_role("columnheader").first
    expect(head).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Sort by Campaign").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(page.locator(".campaign-row th a").first).to_have_text("List C")
    page.get_by_label("Sort by", exact=True).select_option("Most warnings")
    first = page.locator(".campaign-row").first
    expect(first).to_contain_text("List a")
    expect(first.locator(".badge-warn")).to_have_text("Budget used up")
    page.get_by_label("Status", exact=True).select_option("Paused")
    expect(page.get_by_text("1 campaign", exact=True)).to_be_visible()
    assert names(page) == ["List C"]
    # The address has the choice.
    address = page.url
    show(page, address)
    expect(page.get_by_label("Search")).to_have_value("list")
    expect(page.get_by_text("1 campaign", exact=True)).to_be_visible()
    page.get_by_label("Search").fill("no such campaign")
    expect(page.get_by_text("No campaign matches")).to_be_visible()
    page.get_by_role("button", name="Show all campaigns").click()
    expect(page.get_by_text("No campaign matches")).to_be_hidden()
    expect(page.get_by_label("Search")).to_have_value("")


def test_a_long_list_has_pages(studio: Studio, visit: Visit) -> None:
    """The service's pages are made short, so that few campaigns are many."""
    for i in range(5):
        studio.new_campaign(name=f"Page {i}")
    page = visit(studio.at("#/left"))

    def shorten(route: Route) -> None:
        assert "limit=25" in route.request.url
        route.continue_(url=route.request.url.replace("limit=25", "limit=2"))

    page.route("**/v1/campaigns?**", shorten)
    page.goto(studio.at("#/campaigns?search=page&sort=name"))
    pages = page.get_by_role("group", name="Pages")
    seen = []
    for i in range(3):
        expect(page.locator(".campaign-row th a").first).to_have_text(f"Page {2 * i}")
        seen += names(page)
        if i < 2:
            pages.get_by_role("button", name="Next").click()
    assert seen == [f"Page {i}" for i in range(5)]
    expect(pages.get_by_role("button", name="Next")).to_be_disabled()
    pages.get_by_role("button", name="Previous").click()
    expect(page.locator(".campaign-row th a").first).to_have_text("Page 2")


def test_the_list_follows_campaigns_without_a_reload(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="Followed in the list")
    page = visit(studio.at("#/campaigns?search=followed%20in"))
    row = page.locator(".campaign-row")
    expect(row).to_contain_text("€0.00 of €600.00")
    row.get_by_role("link").focus()
    studio.client.change_campaign(campaign, budget=70_000, status="paused")
    expect(row).to_contain_text("€0.00 of €700.00")
    expect(row.locator(".status")).to_have_text("paused")
    expect(row.get_by_role("link")).to_be_focused()


def test_the_page_of_a_campaign_says_what_needs_attention(studio: Studio, visit: Visit) -> None:
    campaign = campaign_without_free_budget(studio, "Attention")
    [alert] = studio.client.campaign(campaign).alerts
    page = visit(studio.at(f"#/campaign/{campaign}"))
    panel = page.get_by_role("status", name="Needs attention")
    expect(panel).to_contain_text(alert.message)
    expect(panel).to_contain_text(alert.todo)
    panel.get_by_role("button", name="Needs attention").click()
    page.get_by_role("link", name="More about this term").click()
    expect(page.locator(".terms-chosen")).to_contain_text("docs/reference/alerts.md")
    page.go_back()
    studio.client.change_campaign(campaign, budget=70_000)
    expect(panel).to_be_hidden()


def test_a_reader_sees_no_action_that_would_fail(studio: Studio, visit: Visit) -> None:
    reader = studio.client.create_key("Reader", "read")
    page = visit(f"{studio.url}/#key={reader.key}", new=True)
    page.wait_for_selector(READY["campaigns"])
    expect(page.get_by_role("link", name="Plan a campaign")).to_have_count(0)
    expect(page.get_by_role("link", name="Keys")).to_have_count(0)
    page.evaluate("() => { location.hash = '#/keys'; }")
    expect(page.locator(".read-only")).to_contain_text("Your key cannot see keys")
    expect(page.get_by_role("button", name=re.compile("Create|Revoke"))).to_have_count(0)
    studio.client.revoke_key(reader.id)
