"""Every screen: accessible, on a wide screen and on a phone, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from browser.page_checks import findings, overflowing
from browser.studio_pages import (
    COMPILE_TIMEOUT,
    NARROW,
    READY,
    SMALL,
    WIDE,
    BrowserPages,
    Studio,
    StudioTabs,
    Visit,
    explore_table,
    show,
    small_plan,
)
from playwright.sync_api import Browser, Page, ViewportSize, expect

DESKTOP = ViewportSize(width=1440, height=900)


class Phone(NamedTuple):
    """A narrow and dark page that the tests of all screens share, and its errors."""

    page: Page
    errors: list[str]


@pytest.fixture(scope="module")
def phone(tabs: StudioTabs, studio: Studio) -> Iterator[Phone]:
    errors: list[str] = []
    tab = tabs.take()
    yield Phone(tab.open(studio.at("#/left"), errors.append, new=True), errors)
    tabs.give_back(tab)


@pytest.mark.parametrize("screen", READY)
def test_a_screen_is_accessible_and_fits(studio: Studio, phone: Phone, screen: str) -> None:
    page = phone.page
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    show(page, studio.address(screen))
    if screen == "plan":
        small_plan(page, days=5)
    page.wait_for_selector(READY[screen], timeout=COMPILE_TIMEOUT)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    assert overflowing(page) == []
    assert findings(page) == []
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDE)
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert findings(page) == []
    if screen in ("campaign", "compare", "offer", "plan"):
        page.set_viewport_size(NARROW)
        assert findings(page) == overflowing(page) == []
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size(DESKTOP)
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert findings(page) == overflowing(page) == []
    assert phone.errors == []


def test_on_a_phone_the_answer_and_its_control_come_first(studio: Studio, phone: Phone) -> None:
    page = phone.page
    page.set_viewport_size(NARROW)
    show(page, studio.address("plan"))
    # The forecast of an earlier visit is shown until the new one replaces it.
    page.wait_for_selector(".plan-answer:not([aria-busy])", timeout=COMPILE_TIMEOUT)

    def top(selector: str) -> float:
        box = page.locator(selector).bounding_box()
        assert box is not None
        return box["y"]

    assert top(".plan-sentence") < top("#budget") < top(".plan-form") < top(".plan-chart >> nth=0")
    # The keyboard visits the controls in the order in which they are seen.
    tops: list[float] = page.evaluate(
        """() => [...document.querySelectorAll("main :is(a, button, input, select, summary)")]
          .filter((node) => node.checkVisibility() && !node.closest(".tip"))
          .map((node) => Math.round(node.getBoundingClientRect().top / 24))"""
    )
    assert len(tops) > 20
    assert tops == sorted(tops)
    assert phone.errors == []


def test_violations_are_found(studio: Studio, chromium: Browser) -> None:
    """Controls: a field without a name, a wide box, a style that the security policy forbids."""
    pages = BrowserPages(chromium)
    page = pages.open(studio.address("trust"), viewport=NARROW)
    page.wait_for_selector(READY["trust"])
    assert findings(page) == overflowing(page) == []
    page.evaluate(
        """() => {
          const box = document.createElement("input");
          document.getElementById("screen").append(box);
          box.style.setProperty("width", "500px");
        }"""
    )
    assert findings(page) != []
    assert any("INPUT" in name for name in overflowing(page, timeout=0))
    page.evaluate("() => document.body.setAttribute('style', 'color: red')")
    pages.close()
    [error] = pages.errors
    assert "Content Security Policy" in error


def test_the_chosen_theme_is_kept(studio: Studio, visit: Visit) -> None:
    page = visit(studio.at(SMALL))
    explore_table(page)
    html, ground = page.locator("html"), "() => getComputedStyle(document.body).backgroundColor"
    expect(html).to_have_attribute("data-theme", "light")
    light = page.evaluate(ground)
    line = page.locator("#chart-regret path.js-line").last
    colour = line.evaluate("line => line.style.stroke")
    page.get_by_role("button", name="Dark colours").click()
    expect(html).to_have_attribute("data-theme", "dark")
    assert page.evaluate(ground) != light
    assert line.evaluate("line => line.style.stroke") != colour
    page.reload()
    expect(html).to_have_attribute("data-theme", "dark")
    explore_table(page)  # a page that is still loading writes its settings into the next address


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("#/nowhere", "Screen not found"),
        ("#/campaign/none", "No such campaign"),
        ("#/offer/none.1", "No such offer"),
    ],
)
def test_an_unknown_address_is_reported(studio: Studio, visit: Visit, path: str, text: str) -> None:
    page = visit(studio.at(path), expecting="404|Problem")
    state = page.locator(".state")
    expect(state).to_contain_text(text)
    expect(state.get_by_role("button", name="Try again")).to_have_count(0)
    assert findings(page) == []
