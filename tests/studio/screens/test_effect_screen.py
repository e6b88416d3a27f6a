"""The effect against the holdout: every verdict, live updates, and the reason if there is none."""

from __future__ import annotations

import itertools
import re
from typing import Any

import msgspec
import pytest
from browser.page_checks import findings, overflowing
from browser.studio_pages import NARROW, Studio, Visit, show
from playwright.sync_api import Page, Route, expect

from entice.api_types import EffectView

GROUP = {
    "visitors": 90_000, "players": 80_000, "rated": 18_000, "rating_sum": 77_400,
    "rating_squares": 347_000, "paid": 1_260_000, "rating": 4.3, "share_rated": 0.2,
    "payment": 14.0, "declined": 5_850,
}  # fmt: skip
HELD_OUT = GROUP | {
    "visitors": 10_000, "rated": 2_000, "rating": 4.1, "paid": 0, "payment": 0.0, "declined": 12,
}  # fmt: skip
BETTER = {
    "campaign": "c", "currency": "EUR", "currency_digits": 2, "holdout_share": 0.1, "paid": GROUP,
    "holdout": HELD_OUT, "difference": 0.2, "low": 0.12, "high": 0.28, "confidence": 0.95,
    "method": "confidence sequence", "cost_per_star": 70.0, "cost_low": 50.0, "cost_high": 116.7,
    "cost_note": "", "verdict": "better", "sentence": "Ratings are higher with the campaign.",
    "split": {"intended": 0.1, "observed": 0.1, "p_value": 1.0, "broken": False},
}  # fmt: skip
NO_COST = {"cost_per_star": None, "cost_low": None, "cost_high": None, "cost_note": "not certain"}
WORSE = BETTER | NO_COST | {"verdict": "worse", "difference": -0.2, "low": -0.28, "high": -0.12}
UNCLEAR = BETTER | NO_COST | {"verdict": "no_clear_difference", "low": -0.05, "high": 0.45}
BROKEN = BETTER | NO_COST | {
    "verdict": "split_broken", "sentence": "Do not trust this comparison.",
    "split": {"intended": 0.1, "observed": 0.05, "p_value": 1e-9, "broken": True},
}  # fmt: skip
NO_RATINGS = BETTER | NO_COST | {
    "verdict": "too_few_ratings", "difference": None, "low": None, "high": None,
    "holdout": HELD_OUT | {"rated": 0, "rating": None, "share_rated": 0.0},
    "split": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def campaign(studio: Studio) -> str:
    """A campaign whose probe pays many visitors, half of all held out."""
    return studio.new_campaign(name="Held out", holdout=0.5, probe={"share": 1, "amount": 0.5})


def show_effect(
    visit: Visit, studio: Studio, campaign: str, effect: dict[str, object], **options: Any
) -> Page:
    """Show a campaign's page with this effect in place of the measured one."""
    body = msgspec.json.encode(msgspec.convert(effect, EffectView))

    def respond(route: Route) -> None:
        route.fulfill(body=body, content_type="application/json")

    page = visit(studio.at("#/left"), **options)
    page.route("**/effect", respond)
    page.goto(studio.at(f"#/campaign/{campaign}"))
    return page


@pytest.mark.parametrize(
    ("effect", "badge", "difference", "cost"),
    [
        (BETTER, "Higher ratings", "+0.20 ★", "€0.70 per visitor, from €0.50 to €1.17"),
        (WORSE, "Lower ratings", "−0.20 ★", "Not certain."),
        (UNCLEAR, "No clear difference yet", "+0.20 ★", "Not certain."),
        (BROKEN, "Do not trust", "+0.20 ★", "Not certain."),
    ],
)
def test_each_verdict_is_shown(
    studio: Studio, visit: Visit, campaign: str,
    effect: dict[str, object], badge: str, difference: str, cost: str,
) -> None:  # fmt: skip
    page = show_effect(visit, studio, campaign, effect)
    card = page.get_by_role("region", name="Did it work?")
    expect(card.locator(".badge")).to_have_text(badge)
    expect(card.locator(".effect-sentence")).to_have_text(str(effect["sentence"]))
    expect(card.locator("figcaption strong")).to_have_text(difference)
    expect(card.locator("dd").first).to_have_text(cost)
    expect(card.locator(".figure-table tbody tr:first-child td").first).to_have_text("4.30 ★")
    declined = "5,850 with the campaign, 12 in the holdout"
    expect(card.locator("dd").last).to_have_text(declined)
    expect(card.locator(".figure-table tbody tr:last-child td").last).to_have_text("€0.00")
    split = "not compatible" if effect is BROKEN else "compatible"
    expect(card.locator("dd").nth(1)).to_contain_text(f"intended: {split}")


@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}])
def test_the_interval_is_drawn_where_it_is(
    studio: Studio, visit: Visit, campaign: str, options: dict[str, Any]
) -> None:
    """Positions on the axis are linear: 0 and +0.1 define the scale."""
    page = show_effect(visit, studio, campaign, BETTER, **options)
    page.wait_for_selector(".effect-plot")
    box = """(name) => {
        const box = document.querySelector(name).getBoundingClientRect();
        return [box.left, box.right];
    }"""
    zero = sum(page.evaluate(box, ".effect-zero")) / 2
    tick = page.locator(".effect-tick", has_text="+0.1").evaluate(
        "tick => tick.getBoundingClientRect().left"
    )
    star = (tick - zero) / 0.1
    low, high = page.evaluate(box, ".effect-interval")
    assert low == pytest.approx(zero + 0.12 * star, abs=2)
    assert high == pytest.approx(zero + 0.28 * star, abs=2)
    assert sum(page.evaluate(box, ".effect-dot")) / 2 == pytest.approx(zero + 0.2 * star, abs=2)
    card = page.evaluate(box, ".effect-card")
    labels = page.locator(".effect-tick > span").evaluate_all(
        "labels => labels.map((x) => x.getBoundingClientRect()).map((x) => [x.left, x.right])"
    )
    assert all(card[0] < left < right < card[1] for left, right in labels)
    assert all(one[1] < two[0] for one, two in itertools.pairwise(labels))
    assert overflowing(page) == []
    assert findings(page) == []


def test_without_ratings_of_a_group_there_is_no_axis(
    studio: Studio, visit: Visit, campaign: str
) -> None:
    page = show_effect(visit, studio, campaign, NO_RATINGS)
    expect(page.locator(".effect-card .badge")).to_have_text("Too few ratings")
    expect(page.locator(".figure-table tbody tr:last-child td").first).to_have_text("–")
    expect(page.locator(".effect-words dd").nth(1)).to_contain_text("not checked")
    expect(page.locator(".effect-axis")).to_have_count(0)


def test_the_panel_follows_ratings_without_a_reload(
    studio: Studio, visit: Visit, campaign: str
) -> None:
    """Half of 24 visitors are held out: none, or all, have a probability of 10⁻⁷."""
    page = visit(studio.at(f"#/campaign/{campaign}"))
    expect(page.locator(".effect-card .badge")).to_have_text("Too few ratings")
    page.evaluate("() => { window.notReloaded = true; }")
    for visitor in range(24):
        offer = studio.client.offer(campaign, f"guest {visitor}")
        studio.client.accept(offer.id)
        studio.client.rate(offer.id, 3 if offer.reason == "holdout" else 4)
    effect = studio.client.effect(campaign)
    expect(page.locator(".effect-sentence")).to_have_text(effect.sentence)
    rows = page.locator(".effect-card .figure-table tbody tr")
    for i, (rating, group) in enumerate((("4.00 ★", effect.paid), ("3.00 ★", effect.holdout))):
        cells = rows.nth(i).locator("td")
        expect(cells.nth(0)).to_have_text(rating)
        expect(cells.nth(1)).to_have_text(str(group.visitors))
    assert page.evaluate("() => window.notReloaded")


def test_without_an_effect_the_reason_is_shown(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("campaign"))
    card = page.get_by_role("region", name="Did it work?")
    expect(card).to_contain_text("This can't be said: no visitors are held out.")
    expect(card).to_contain_text("docs/how-to/did-it-work.md")
    expect(card.locator(".badge")).to_have_count(0)
    unrated = studio.new_campaign(name="Unrated", holdout=0.5)
    show(page, studio.at(f"#/compare/{studio.campaign},{unrated}"))
    cells = page.locator(".compare-table tbody tr", has_text="Effect").locator("td button")
    expect(cells).to_have_count(2)
    for cell, reason in zip(cells.all(), ("has no holdout", "has too few ratings"), strict=True):
        expect(cell).to_have_accessible_name(re.compile(reason))
