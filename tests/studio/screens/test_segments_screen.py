"""The averages of a campaign's segments on its page, and none without segments."""

from __future__ import annotations

from browser.page_checks import findings
from browser.studio_pages import NARROW, Studio, Visit
from playwright.sync_api import expect


def test_the_page_shows_the_averages_of_each_segment(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="Segments", segments=["new", "regular"])
    stars = {"new": 5, "regular": 2}
    arm = studio.client.arms(campaign)[0].id
    page = visit(studio.at(f"#/campaign/{campaign}"), viewport=NARROW)
    table = page.locator(".by-segment table")
    expect(table).to_contain_text("0 ratings")
    studio.client.enter_ratings(campaign, [(arm, stars[s], s) for s in stars for _ in range(9)])
    expect(table).to_contain_text("9 ratings")
    row = table.locator("tr", has=page.locator("th", has_text=arm)).last
    expect(row.locator("td")).to_have_text(["5.00 ★ (9)", "2.00 ★ (9)"])
    assert findings(page) == []


def test_without_segments_there_is_no_table(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("campaign"))
    expect(page.locator(".items-card")).to_be_visible()
    expect(page.locator(".by-segment table")).to_have_count(0)
