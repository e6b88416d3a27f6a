"""Campaign: its settings and their history, items, search, period, plan, estimates and reports."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from browser.chart_limits import values_outside_axes
from browser.studio_pages import NARROW, WIDE, Studio, Visit, show
from playwright.sync_api import Download, Page, Route, expect

from entice.service.http.examples import PLAN

BAND = {
    **PLAN,
    "visitors": [10, 100, 1000],
    "low": [0, 100, 1000],
    "typical": [1000, 2000, 4000],
    "high": [90_00, 100_00, 200_00],
}


@pytest.fixture(scope="module")
def planned(studio: Studio) -> str:
    """A campaign with a plan and overlap, to which offers were made."""
    probe = {"share": 1, "amount": 0.5}
    settings = {"plan": BAND, "overlap": 0.5, "pace_over": 5000, "probe": probe}
    campaign = studio.new_campaign(name="Planned", **settings)
    for i in range(60):
        offer = studio.client.offer(campaign, f"visitor {i}")
        studio.client.accept(offer.id)
        studio.client.rate(offer.id, 3 + i % 3)
    return campaign


def save_dialog(page: Page, **fields: str) -> None:
    """Fill the fields of the dialog, by label, and save it."""
    dialog = page.get_by_role("dialog")
    for label, text in fields.items():
        dialog.get_by_label(label.replace("_", " ")).fill(text)
    dialog.get_by_role("button", name="Save").click()


def test_settings_are_changed_and_their_history_is_shown(studio: Studio, visit: Visit) -> None:
    settings = {"cap_per_offer": 400, "pace_over": None, "probe": {"share": 1, "amount": 0.5}}
    campaign = studio.new_campaign(name="Changing", **settings)
    paid = (studio.client.offer(campaign, f"visitor {i}") for i in range(20))
    studio.client.accept(next(offer.id for offer in paid if offer.amount))
    page = visit(studio.at(f"#/campaign/{campaign}"), expecting="409")
    page.get_by_role("button", name="Change the budget …").click()
    expect(page.get_by_label("Budget EUR")).to_be_focused()
    save_dialog(page, Budget_EUR="750.50")
    expect(page.locator(".settings-values dd").first).to_have_text("€750.50")
    confirmation = page.locator(".budget-card > header + .confirmation")
    expect(confirmation).to_have_text("Budget is now €750.50.")
    expect(confirmation).to_have_css("position", "static")  # covers no button
    page.get_by_role("button", name="Change settings …").click()
    save_dialog(page, Cap_per_offer="", Spread_the_budget_over="2000", Random_items="12.5")
    changes = page.locator(".settings-history li")
    expect(changes).to_have_count(5)
    expect(changes.nth(3)).to_contain_text("Budget €600.00 → €750.50")
    expect(changes.nth(3)).to_contain_text("key “tests”")
    view = studio.client.campaign(campaign)
    assert view.budget == 750_50
    assert "cap_per_offer" not in view.spec
    assert (view.spec["pace_over"], view.spec["overlap"]) == (2000, 0.125)
    values = page.locator(".settings-values dd").all_inner_texts()
    assert values[:5] == ["€750.50", "none", "none", "2,000 offers", "12.5\u00a0%"]
    # An error of the service is shown in the dialog, and nothing is lost.
    page.get_by_role("button", name="Change settings …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_have_text("Nothing was changed.")
    save_dialog(page, Budget_EUR="0")
    alert = dialog.locator("#setting-budget + [role=alert]")
    used = studio.client.campaign(campaign)
    expect(alert).to_contain_text(f"At least €{(used.committed + used.reserved) / 100:.2f}: ")
    dialog.get_by_label("Budget EUR").fill("1")
    expect(alert).to_be_hidden()
    dialog.get_by_role("button", name="Cancel").click()


def test_items_are_added_and_retired(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="Items")
    page = visit(studio.at(f"#/campaign/{campaign}"))
    page.get_by_role("button", name="Add items …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Items, one per line").fill("jasmine\npu erh")
    dialog.get_by_role("button", name="Add").click()
    expect(page.locator(".item-row-name", has_text="pu-erh")).to_be_visible()
    page.get_by_role("button", name="Retire jasmine …").click()
    dialog.get_by_role("button", name="Retire").click()
    row = page.locator(".item-row", has_text="jasmine")
    expect(row).to_contain_text("retired")
    assert {arm.id: arm.retired for arm in studio.client.arms(campaign)}["jasmine"]
    expect(page.locator(".lead")).to_contain_text("7 items, 1 retired")
    restore = row.get_by_role("button", name="Restore jasmine …")
    page.set_viewport_size({"width": 1280, "height": 900})
    value, button = row.locator(".item-row-value").bounding_box(), restore.bounding_box()
    assert value is not None
    assert button is not None
    assert value["x"] + value["width"] <= button["x"]
    show(page, studio.at("#/campaigns?search=Items"))
    expect(page.locator(".campaign-row th .note")).to_have_text("UCB, 7 items, 1 retired")
    show(page, studio.at(f"#/compare/{campaign}"))
    items = page.locator(".compare-table tbody tr", has_text="Items").locator("td")
    expect(items).to_have_text("7 items, 1 retired")
    show(page, studio.at(f"#/campaign/{campaign}"))
    restore.click()
    dialog.get_by_role("button", name="Restore").click()
    expect(row).not_to_contain_text("retired")
    expect(page.locator(".settings-history")).to_contain_text("Item jasmine retired → offered")
    expect(page.locator(".settings-history")).to_contain_text("Items added: jasmine, pu-erh")


def test_a_campaign_starts_in_shadow_and_goes_live(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="Shadow", status="shadow")
    page = visit(studio.at(f"#/campaign/{campaign}"))
    page.get_by_role("button", name="Go live …").click()
    page.get_by_role("dialog").get_by_role("button", name="Go live").click()
    expect(page.locator(".status")).to_have_text("live")
    expect(page.locator(".settings-history")).to_contain_text("Status shadow → live")


def test_offers_are_found_by_number_visitor_reason_and_payment(
    studio: Studio, visit: Visit, planned: str
) -> None:
    page = visit(studio.at(f"#/campaign/{planned}"))
    found = page.locator(".offer-results .feed-item")
    status = page.locator(".offer-results [role=status]")
    page.get_by_label("Visitor id").last.fill("visitor 17")
    page.get_by_role("button", name="Search").click()
    expect(found).to_have_count(1)
    expect(found).to_contain_text("Offer 18")
    expect(page.locator(".feed-scroll")).to_be_hidden()
    page.get_by_label("Find by").select_option("offer")
    page.get_by_label("Offer number").last.fill(f"{planned}.23")
    page.keyboard.press("Enter")
    expect(found.locator("a")).to_have_attribute("href", f"#/offer/{planned}.23")
    page.get_by_label("Offer number").last.fill("61")
    page.keyboard.press("Enter")
    expect(status).to_contain_text("No offer matches. The campaign has made 60 offers")
    page.get_by_label("Offer number").last.fill("")
    page.get_by_label("Reason").select_option("overlap")
    expected = list(studio.client.list_offers(planned, reason="overlap"))
    assert 0 < len(expected) <= 30
    expect(found).to_have_count(len(expected))
    page.get_by_label("Payment").select_option("paid")
    paid = [offer for offer in expected if offer.amount]
    assert 0 < len(paid) < len(expected)
    expect(found).to_have_count(len(paid))
    page.set_viewport_size(NARROW)
    outside = """() => {
      const card = document.querySelector(".feed-card").getBoundingClientRect();
      const list = document.querySelector(".offer-results .feed").getBoundingClientRect();
      return list.left < card.left || list.right > card.right;
    }"""
    assert not page.evaluate(outside)
    page.get_by_role("button", name="Show latest").click()
    expect(page.locator(".feed-scroll")).to_be_visible()


def test_a_period_limits_the_chart_and_the_offers(
    studio: Studio, visit: Visit, planned: str
) -> None:
    page = visit(studio.at(f"#/campaign/{planned}"))
    expect(page.locator(".spending-chart.js-plotly-plot")).to_be_visible()
    found = page.locator(".offer-results .feed-item")
    page.get_by_label("Period").select_option("day")
    expect(found).to_have_count(30)
    page.get_by_role("button", name="Older offers").click()
    expect(found).to_have_count(60)
    assert values_outside_axes(page) == []
    page.get_by_label("Period").select_option("dates")
    page.get_by_label("Last day").fill(str(date.today() - timedelta(days=3)))
    expect(page.locator(".offer-results [role=status]")).to_contain_text("No offer matches")
    page.wait_for_function(
        "() => document.querySelector('.spending-chart').data"
        ".find(({ name }) => name === 'committed').y.length === 1"
    )
    assert values_outside_axes(page) == []
    page.get_by_label("Period").select_option("all")
    expect(page.locator(".feed-scroll")).to_be_visible()


def test_the_first_paint_does_not_wait_for_the_log(
    studio: Studio, visit: Visit, planned: str
) -> None:
    """What takes longer in a campaign with many offers is read after the first paint."""
    page = visit(studio.at("#/campaigns"))
    held: list[Route] = []
    for name in ("events?*", "spending?*", "settings", "drift", "effect", "stream?*"):
        page.route(f"**/campaigns/*/{name}", lambda route: held.append(route))
    page.goto(studio.at(f"#/campaign/{planned}"))
    expect(page.locator(".item-row")).to_have_count(len(studio.client.arms(planned)))
    expect(page.locator("#amount-free")).not_to_have_text("")
    expect(page.get_by_role("button", name="Change the budget …")).to_be_visible()
    for route in held:
        route.continue_()


BAND_DRAWN = """(selector) => document.querySelector(selector).data
  .filter(({ name }) => name?.includes("plan")).map(({ x, y }) => [x, y])"""


def test_the_plan_of_a_campaign_that_started_in_shadow_mode(studio: Studio, visit: Visit) -> None:
    """Its visitors are not compared with the plan, which starts when the campaign goes live."""
    campaign = studio.new_campaign(name="First in shadow", plan=BAND, status="shadow")
    for i in range(4):
        studio.client.offer(campaign, f"early {i}")
    page = visit(studio.at(f"#/campaign/{campaign}"))
    verdict = page.locator(".plan-verdict")
    expect(verdict).to_contain_text("Not started Shadow mode pays nothing")
    studio.client.change_campaign(campaign, status="live")
    studio.client.offer(campaign, "ann")
    expect(verdict).to_contain_text("Too early to tell")
    page.wait_for_selector(".spending-chart.js-plotly-plot")
    drawn = page.evaluate(BAND_DRAWN, ".spending-chart")
    assert [x for x, _ in drawn] == [[4, 14, 104]] * 2
    page.get_by_role("button", name="By date").click()
    expect(page.locator(".spending-chart")).to_have_attribute("aria-label", re.compile("by date"))
    assert values_outside_axes(page) == []
    page.get_by_role("link", name="Compare …").click()
    page.wait_for_selector(".compare-chart.js-plotly-plot")
    assert page.evaluate(BAND_DRAWN, ".compare-chart") == drawn


def test_the_plan_is_drawn_with_the_live_line_in_it(
    studio: Studio, visit: Visit, planned: str
) -> None:
    view = studio.client.campaign(planned)
    assert 1000 / 9 < view.committed < 95_00  # between the ranges of 10 and 100 visitors
    page = visit(studio.at(f"#/campaign/{planned}"))
    expect(page.locator(".plan-verdict .badge")).to_have_text("On plan")
    used = (view.committed + view.reserved) / 100
    expect(page.locator(".budget-card header")).to_contain_text(f"€{used:.2f} of €600.00 is used")
    page.wait_for_selector(".spending-chart.js-plotly-plot")
    drawn = page.evaluate(BAND_DRAWN, ".spending-chart")
    assert drawn == [
        [[0, 10, 100, 1000], [0, 90_00, 100_00, 200_00]],
        [[0, 10, 100, 1000], [0, 1000, 2000, 4000]],
    ]
    page.get_by_role("button", name="By date").click()
    expect(page.locator(".spending-chart")).to_have_attribute("aria-label", re.compile("by date"))
    assert values_outside_axes(page) == []
    page.get_by_role("link", name="Compare …").click()
    expect(page.locator(".plan-verdict .badge")).to_have_text("On plan")
    page.wait_for_selector(".compare-chart.js-plotly-plot")
    assert page.evaluate(BAND_DRAWN, ".compare-chart") == drawn
    page.get_by_label("Add a campaign").select_option(studio.campaign)
    expect(page.locator(".compare-chips li")).to_have_count(2)
    other = studio.client.campaign(studio.campaign)
    table = page.locator(".compare-table")
    expect(table.locator("tr", has_text="Offers")).to_have_text(f"Offers60{other.decisions}")
    page.wait_for_function(
        "() => document.querySelector('.compare-chart').data?.filter(({ line }) =>"
        " line.shape === 'hv').length === 2"
    )
    page.get_by_role("button", name="By day since the start").click()
    assert values_outside_axes(page) == []
    page.set_viewport_size(NARROW)
    assert table.evaluate("(one) => one.scrollWidth <= one.closest('.table-wrap').clientWidth")
    page.set_viewport_size(WIDE)
    show(page, studio.at("#/campaigns?search=Planned"))
    expect(page.locator(".campaign-row td[data-label=Status]")).to_contain_text("On plan")
    show(page, studio.at(f"#/compare/{planned},{studio.campaign}"))
    page.get_by_role("link", name="Remove Planned").click()
    expect(page.locator(".compare-chips li")).to_have_count(1)
    expect(page.locator(".plan-verdict .badge")).to_have_text("No plan")


def test_another_policy_is_estimated(studio: Studio, visit: Visit, planned: str) -> None:
    """The job itself is tested without a browser: the start of its process takes seconds."""
    page = visit(studio.at(f"#/campaign/{planned}"))
    asked: list[Any] = []

    def respond(route: Route) -> None:
        asked.append(route.request.post_data_json)
        found = {"value": 4.0, "low": 3.5, "high": 4.5, "effective": 60}
        line = {"kind": "evaluation", "policy": "uniform", "rating": found, "payment": found}
        line |= {"logged_rating": 4.1, "logged_payment": 0.2, "decisions": 60, "rated": 60}
        body = json.dumps(line | {"left_out": {"in shadow mode": 3}, "warnings": ["few"]})
        route.fulfill(status=200, content_type="application/x-ndjson", body=f"{body}\n")

    page.route("**/evaluation", respond)
    page.get_by_label("Policy to compare with").select_option("uniform")
    page.get_by_role("button", name="Estimate").click()
    result = page.locator(".evaluation table")
    expect(result).to_contain_text("Each item equally often")
    expect(result).to_contain_text("€4.00")
    expect(page.locator(".evaluation")).to_contain_text("Left out: 3 in shadow mode. Few.")
    assert asked == [{"policy": "uniform"}]
    show(page, studio.address("campaign"))  # without overlap
    expect(page.locator(".item-row").first).to_be_visible()
    expect(page.get_by_role("button", name="Estimate")).to_have_count(0)


def test_the_drift_card_is_small_without_a_probe(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="Unmeasured", probe=None)
    page = visit(studio.at(f"#/campaign/{campaign}"))
    card = page.locator(".drift-card")
    expect(card).to_contain_text("To measure it, create the next campaign with a probe")
    expect(card.locator("svg")).to_have_count(0)
    box = card.bounding_box()
    assert box is not None
    assert box["height"] < 260
    # A special term has a tip, which links to the terms; also for the keyboard.
    card.get_by_role("button", name="probe").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    expect(card.get_by_role("link", name="More about this term")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Terms")
    expect(page.locator(".terms-chosen")).to_contain_text("docs/how-to/drift-estimate.md")


def test_a_read_key_sees_no_buttons_that_would_fail(studio: Studio, visit: Visit) -> None:
    address = f"{studio.url}/#key={studio.read_key}&"
    page = visit(f"{address}/campaign/{studio.campaign}", new=True)
    expect(page.locator(".feed-item").first).to_be_visible()
    expect(page.locator(".settings-history li")).to_have_count(1)
    names = {name.split(" …")[0] for name in page.get_by_role("button").all_inner_texts()}
    assert names.isdisjoint(
        {"Pause", "Close", "Change the budget", "Change settings", "Add items", "Retire"}
    )
    expect(page.locator(".read-only")).to_contain_text("Your key cannot change a campaign")
    # What a read key may do works.
    with page.expect_download() as saved:
        page.get_by_label("Export all offers").select_option("csv")
    rows = list(csv.reader(io.StringIO(content(saved.value))))
    assert len(rows) > 120
    # Why the last paid offer cost what it did is one click away.
    paid = next(studio.client.list_offers(studio.campaign, payment="paid"))
    page.get_by_role("button", name="Last paid offer").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Offer {paid.decision}: ")
    amount = page.locator(".price-table tr", has_text="Offered").locator("td").last
    expect(amount).to_have_text(f"€{paid.amount / 100:.2f}")
    page.goto(f"{address}/compare/{studio.campaign}")
    page.wait_for_selector(".compare-chart.js-plotly-plot")
    page.goto(f"{address}/campaigns")
    expect(page.locator(".campaign-row").first).to_be_visible()
    for name in ("Plan a campaign", "Keys"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)


def content(saved: Download) -> str:
    return Path(saved.path()).read_text("utf-8")


def copied(page: Page) -> str:
    """Press "Copy as Markdown", and return what the browser gets to copy."""
    page.evaluate("() => { navigator.clipboard.writeText = async (t) => { window.copied = t; }; }")
    page.get_by_role("button", name="Copy as Markdown").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    text: str = page.evaluate("() => { delete navigator.clipboard.writeText; return copied; }")
    return text


def test_reports_and_files(studio: Studio, visit: Visit, planned: str) -> None:
    page = visit(studio.at(f"#/campaign/{planned}"))
    expect(page.locator("#spending-key")).to_contain_text("Line: committed.")
    expect(page.locator(".settings-history li")).to_have_count(1)
    text, view = copied(page), studio.client.campaign(planned)
    assert text.startswith("# Planned\n")
    assert f"| committed | €{view.committed / 100:.2f} |" in text
    assert "**On plan.**" in text
    for arm in studio.client.arms(planned):
        assert f"| {arm.id} | {arm.rated} | {arm.average:.2f} ★ |" in text
    card = page.locator(".budget-card")
    with page.expect_download() as saved:
        card.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(content(saved.value))))
    assert rows[-1]["offers"] == "60"
    assert rows[-1]["committed"] == f"{view.committed / 100:.2f}"
    with page.expect_download() as saved:
        card.get_by_role("button", name="PNG").click()
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as saved:
        page.locator(".drift-card").get_by_role("button", name="PNG").click()
    assert Path(saved.value.path()).stat().st_size > 5000
    # On paper, there are no controls.
    page.emulate_media(media="print")
    expect(page.locator(".item-row").first).to_be_visible()
    for hidden in (".top", ".campaign-tools", ".offer-search", ".budget-card > button"):
        expect(page.locator(hidden)).to_be_hidden()
    page.emulate_media(media="screen")
    show(page, studio.at(f"#/compare/{planned}"))
    page.wait_for_selector(".compare-chart.js-plotly-plot")
    text = copied(page)
    assert "| Offers | 60 |" in text
    assert "- **Planned: On plan.**" in text
