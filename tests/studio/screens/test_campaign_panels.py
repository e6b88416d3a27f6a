"""A campaign with every panel: how it fits, the learned price, and the pictures as files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from browser.chart_limits import values_outside_axes
from browser.page_checks import findings, overflowing
from browser.studio_pages import NARROW, Studio, Visit
from playwright.sync_api import Page, expect

from entice.service.http.examples import PLAN

SETTINGS = {
    "holdout": 0.3,
    "overlap": 0.5,
    "plan": PLAN,
    "price": {"kind": "learned", "acceptance": 0.3, "explore": 0.1},
}
ENDS = """() => [".campaign-main", ".campaign-side"].map((column) =>
  Math.round(document.querySelector(`${column} > :last-child`).getBoundingClientRect().bottom))"""


@pytest.fixture(scope="module")
def full(studio: Studio) -> str:
    """A campaign with ratings in both groups, and a learned price.

    Who is held out depends on a random key: fewer than 30 of 80 visitors in the paid group, or none
    in the other, have a probability below 10⁻⁹. The gap of every other item is a star, so that
    their answers are about one price.
    """
    campaign = studio.new_campaign(name="Every panel", **SETTINGS)
    shown = {
        arm: 5.0 if arm == "oolong" else 4.0
        for arm in studio.client.campaign(campaign).spec["arms"]
    }
    for i in range(80):
        offer = studio.client.offer(campaign, f"visitor {i}", displayed=shown)
        if offer.amount and i % 4 == 0:
            studio.client.decline(offer.id)
        else:
            studio.client.accept(offer.id)
            studio.client.rate(offer.id, 3 + i % 3)
    return campaign


def opened(studio: Studio, visit: Visit, campaign: str) -> Page:
    page = visit(studio.at(f"#/campaign/{campaign}"))
    for drawn in (
        ".acceptance-chart.js-plotly-plot",
        ".spending-chart.js-plotly-plot",
        ".effect-axis",
    ):
        page.wait_for_selector(drawn)
    return page


def test_all_panels_are_accessible_and_fit(studio: Studio, visit: Visit, full: str) -> None:
    page = opened(studio, visit, full)
    for width in (1440, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        left, right = page.evaluate(ENDS)
        assert left == right  # no column ends before the other one
    assert findings(page) == overflowing(page) == values_outside_axes(page) == []
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert findings(page) == overflowing(page) == []
    page.emulate_media(color_scheme="light")


def test_the_learned_price_is_drawn_and_saved(studio: Studio, visit: Visit, full: str) -> None:
    curve = studio.client.acceptance(full)
    assert curve.learned_price is not None
    page = opened(studio, visit, full)
    card = page.locator(".acceptance-card")
    expect(card).to_contain_text(curve.sentence.replace(" %", "\u00a0%"))
    drawn = page.evaluate(
        "() => document.querySelector('.acceptance-chart').data.map(({ y }) => y)"
    )
    assert drawn == [
        [point.estimate for point in curve.prices if point.estimate is not None],
        [point.accepted / point.answers for point in curve.prices if point.answers],
        [point.answers for point in curve.prices],
    ]
    with page.expect_download() as saved:
        card.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(saved.value.path()).read_text("utf-8"))))
    assert [int(row["answers"]) for row in rows] == drawn[2]
    for picture in ("items", "effect"):
        with page.expect_download() as saved:
            page.locator(f".{picture}-card").get_by_role("button", name="PNG").click()
        png = Path(saved.value.path()).read_bytes()
        assert png.startswith(b"\x89PNG")
        assert len(png) > 20_000
    # Without a learned price there is no such panel, and the left column is the shorter one.
    page = visit(studio.at(f"#/campaign/{studio.campaign}"))
    expect(page.locator(".item-row").first).to_be_visible()
    expect(page.locator(".acceptance-card")).to_have_count(0)
    page.set_viewport_size({"width": 1600, "height": 900})
    page.wait_for_selector(".drift-gauge-face")
    left, right = page.evaluate(ENDS)
    assert left == right
