"""Offer: its timeline, the calculation of its price, its events and their hashes."""

from __future__ import annotations

import math
import re

from browser.studio_pages import SETTINGS, Studio, Visit
from playwright.sync_api import expect


def test_timeline_price_and_hashes(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("offer"))
    view = studio.client.history(studio.offer)
    offer = view.offer
    expect(page.locator(".timeline-item h3")).to_have_text(
        [f"Offered: {offer.arm}", "Accepted", f"Rated {offer.rating} ★"]
    )
    expect(page.locator(".lead")).to_have_text(view.why)
    assert offer.disclosure == SETTINGS["disclosure"]
    expect(page.locator(".disclosure")).to_contain_text(offer.disclosure)
    # The calculation is right, line by line.
    signs = page.locator(".price-table td:first-child").all_inner_texts()
    exact = "(cells) => cells.map((cell) => (cell.querySelector('.tip') ?? cell).textContent)"
    amounts = page.locator(".price-table td:last-child").evaluate_all(exact)
    values = [float(re.sub(r"[^\d.−]", "", text).replace("−", "-")) for text in amounts]
    total = 0.0
    for sign, value in zip(signs, values, strict=True):
        match sign:
            case "":
                total = value
            case "−":
                total -= value
            case "+":
                total += value
            case "×":
                total *= value
            case "↑":
                assert value == math.ceil(round(100 * total, 6)) / 100
                total = value
            case "=":
                assert abs(total - value) < 1e-6
    assert round(100 * total) == view.arithmetic.amount == offer.amount
    hashes = {event.seq: event.hash for event in studio.client.events(studio.campaign)}
    shown = page.locator(".hash-chain .link")
    expect(shown).to_have_count(3)
    for link, event in zip(shown.all(), view.history, strict=True):
        link.get_by_text("Full hashes").click()
        expect(link.locator(".link-full code")).to_have_text(
            [hashes[event["seq"] - 1], hashes[event["seq"]]]
        )


def test_it_follows_new_events(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(name="Followed")
    offer = studio.client.offer(campaign, "visitor 1")
    page = visit(studio.at(f"#/offer/{offer.id}"))
    expect(page.locator(".timeline-item h3").first).to_have_text(f"Offered: {offer.arm}")
    studio.client.accept(offer.id)
    expect(page.locator(".timeline-item h3").nth(1)).to_have_text("Accepted")
    studio.client.rate(offer.id, 5)
    expect(page.locator(".title-line .badge")).to_have_text("rated 5 ★")
    expect(page.locator(".hash-chain .link")).to_have_count(3)
