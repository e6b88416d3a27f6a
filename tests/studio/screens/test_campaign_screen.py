"""Campaign: live updates, and the buttons that pause and close it."""

from __future__ import annotations

from browser.studio_pages import Studio, Visit
from playwright.sync_api import Page, expect

PROBE_ALL = {"share": 1, "amount": 0.5}
"""Pays about half of the offers from the first one on."""


def money(minor: int) -> str:
    return f"€{minor / 100:,.2f}"


def decimals(x: float) -> str:
    return f"{x:.2f}".replace("-", "−")


def expect_amounts(page: Page, studio: Studio, campaign: str) -> None:
    """Expect the amounts that the service reports."""
    view = studio.client.campaign(campaign)
    for name in ("committed", "reserved", "free"):
        expect(page.locator(f"#amount-{name}")).to_have_text(money(getattr(view, name)))


def test_the_budget_follows_offers_without_a_reload(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="Moving", probe=PROBE_ALL)
    page = visit(studio.at(f"#/campaign/{campaign}"))
    expect(page.get_by_text("No offers yet")).to_be_visible()
    page.evaluate("() => { window.notReloaded = true; }")
    expect(page.locator("#amount-reserved")).to_have_text("€0.00")
    offers = [studio.client.offer(campaign, f"visitor {i}") for i in range(20)]
    assert studio.client.campaign(campaign).reserved > 0
    expect_amounts(page, studio, campaign)
    share = page.locator(".budget-bar-reserved").evaluate(
        "part => part.getBoundingClientRect().width"
    )
    assert share > 0
    for offer in offers[:15]:
        studio.client.accept(offer.id)
    for offer in offers[15:]:
        studio.client.decline(offer.id)
    assert studio.client.campaign(campaign).reserved == 0
    expect_amounts(page, studio, campaign)
    expect(page.locator("#amount-committed")).not_to_have_text("€0.00")
    for offer in offers[:15]:
        studio.client.rate(offer.id, 4)
    expect(page.locator(".feed-item")).to_have_count(20)
    expect(page.locator(".feed-item .badge", has_text="rated 4 ★")).to_have_count(15)
    expect(page.locator(".lead")).to_contain_text("20 offers and 15 ratings")
    assert page.evaluate("() => window.notReloaded")


def test_items_drift_and_offers_are_shown(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("campaign"))
    arms = studio.client.arms(studio.campaign)
    expect(page.locator(".item-row")).to_have_count(len(arms))
    best = max(arms, key=lambda arm: arm.shown)
    expect(page.locator(".item-row-name").first).to_have_text(best.id)
    expect(page.locator(".item-row-greedy .item-row-name")).to_have_text(
        next(arm.id for arm in arms if arm.greedy)
    )
    expect(page.locator(".item-row-value").first).to_have_text(f"{best.shown:.2f} ★")
    drift = studio.client.drift(studio.campaign)
    assert drift.slope is not None
    assert drift.bounds is not None
    assert not drift.bounds.differs
    expect(page.locator(".drift-gauge-value strong")).to_have_text(decimals(drift.slope))
    expect(page.locator(".drift-gauge")).to_contain_text("interval")
    expect(page.locator(".drift-gauge")).to_contain_text(
        f"who rates: {decimals(drift.bounds.low)} to {decimals(drift.bounds.high)}"
    )
    last = page.locator(".feed-item").first
    made = studio.client.history(last.locator("a").get_attribute("href").rpartition("/")[2])
    expect(last.locator(".feed-why")).to_have_text(made.why)
    last.locator("a").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(made.offer.arm)


def test_the_gauge_shows_the_bounds_first_where_payment_changes_who_rates(
    studio: Studio, visit: Visit
) -> None:
    """Visitors who get nothing rate only if they are satisfied, here one in two."""
    campaign = studio.new_campaign(name="Raters", probe=PROBE_ALL)
    for i in range(60):
        offer = studio.client.offer(campaign, f"visitor {i}")
        studio.client.accept(offer.id)
        if offer.payment > 0 or i % 2:
            studio.client.rate(offer.id, 5 if i % 2 else 2)
    drift = studio.client.drift(campaign)
    assert drift.bounds is not None
    assert drift.bounds.differs
    page = visit(studio.at(f"#/campaign/{campaign}"))
    text = f"{decimals(drift.bounds.low)} to {decimals(drift.bounds.high)}"
    expect(page.locator(".drift-gauge-value strong")).to_have_text(text)
    expect(page.locator(".drift-gauge")).to_contain_text("Payment changes who rates. Slope")
    expect(page.locator(".drift-gauge-needle")).to_have_count(0)


def test_closing_a_campaign_shows_its_obligations_first(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="Closing", probe=PROBE_ALL)
    offers = [studio.client.offer(campaign, f"visitor {i}") for i in range(12)]
    paid = [offer for offer in offers if offer.amount]
    studio.client.accept(paid[0].id)
    view = studio.client.campaign(campaign)
    assert view.reserved > 0
    page = visit(studio.at(f"#/campaign/{campaign}"))
    page.get_by_role("button", name="Close").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Close “Closing” permanently?")
    expect(dialog).to_contain_text(f"Reserved{money(view.reserved)}")
    expect(dialog).to_contain_text(f"Committed{money(view.committed)}")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    assert studio.client.campaign(campaign).status == "live"
    page.get_by_role("button", name="Close").click()
    dialog.get_by_role("button", name="Close permanently").click()
    expect(page.locator(".status")).to_have_text("closed")
    expect(page.locator("#amount-reserved")).to_have_text("€0.00")
    expect(page.get_by_role("button", name="Close")).to_have_count(0)
    closed = studio.client.campaign(campaign)
    assert (closed.status, closed.reserved) == ("closed", 0)
    assert closed.committed == view.committed


def test_a_campaign_is_paused_and_resumed(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="Pausing")
    page = visit(studio.at(f"#/campaign/{campaign}"))
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".status")).to_have_text("paused")
    assert studio.client.campaign(campaign).status == "paused"
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.locator(".status")).to_have_text("live")
    # Changes by other clients are shown, too.
    studio.client.change_campaign(campaign, status="shadow")
    expect(page.locator(".status")).to_have_text("shadow")
