"""Money on the page: formatted as by the service, in five currencies on every screen."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from browser.studio_pages import COMPILE_TIMEOUT, NARROW, WIDE, Studio, Visit, show, small_plan
from currencies import CASES, IDS, Case
from playwright.sync_api import Page, expect

from entice.money import Currency, known_currencies, read_currency

every_currency = pytest.mark.parametrize("case", CASES, ids=IDS)


def view_of(currency: Currency) -> dict[str, Any]:
    return {"currency": currency.code, "currency_digits": currency.digits}


def call_in_page(page: Page, function: str, arguments: list[Any]) -> list[Any]:
    """Call a function of the page's money.js for each list of arguments."""
    found: list[Any] = page.evaluate(
        "async ([name, calls]) => {"
        '  const module = await import("/studio/js/money.js");'
        "  return calls.map((values) => module[name](...values));"
        "}",
        [function, arguments],
    )
    return found


def with_plain_spaces(text: str) -> str:
    """Replace non-breaking spaces."""
    return text.replace("\u00a0", " ")


def test_the_page_formats_every_currency_as_the_service_does(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("trust"))
    draw = random.Random(5)
    currencies = [read_currency("test", code) for code in known_currencies()]
    currencies += [Currency("POINTS", digits) for digits in range(9)]
    amounts = [
        0,
        1,
        7,
        99,
        100,
        12_345,
        -4_321,
        *(draw.randrange(10**12) for _ in range(8)),
        10**15,
    ]
    calls = [(units, currency) for currency in currencies for units in amounts]
    written = call_in_page(page, "money", [[units, view_of(currency)] for units, currency in calls])
    expected = [currency.format(units) for units, currency in calls]
    assert [with_plain_spaces(text) for text in written] == expected
    # Plans: no ties, which JavaScript rounds up and Python to the even digit.
    plans = [(x, currency) for currency in currencies for x in (0, 0.3, 1.26, 12, 99.71, 4137.2)]
    written = call_in_page(page, "amount", [[x, view_of(currency)] for x, currency in plans])
    assert [with_plain_spaces(text) for text in written] == [c.format_major(x) for x, c in plans]
    # Control: the browser's own digits differ, for HUF by a factor of 100.
    guessed = page.evaluate(
        "(codes) => codes.map((currency) => new Intl.NumberFormat('en', {"
        "  style: 'currency', currency }).resolvedOptions().maximumFractionDigits)",
        [currency.code for currency in currencies[: len(known_currencies())]],
    )
    differ = {c.code for c, digits in zip(currencies, guessed, strict=False) if c.digits != digits}
    assert "HUF" in differ


def test_the_page_parses_currencies_as_the_service_does(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("trust"))
    written = ["€", "EUR", " chf ", "$", "¥", "jpy", "A$", *known_currencies()]
    found = call_in_page(page, "parseCurrency", [[text] for text in written])
    assert found == [view_of(read_currency("test", text)) for text in written]
    assert call_in_page(
        page, "parseCurrency", [[""], ["points"], ["constructor"], ["kr"], ["zł"]]
    ) == [
        {"currency": "", "currency_digits": 2},
        {"currency": "POINTS", "currency_digits": None},
        {"currency": "CONSTRUCTOR", "currency_digits": None},
        None,
        None,
    ]


@every_currency
def test_a_campaign_on_its_screens(studio: Studio, visit: Visit, case: Case) -> None:
    campaign = studio.new_campaign(
        name=f"Paid in {case.code}", currency=case.code, currency_digits=case.digits,
        budget=case.budget_units, price_of_a_star=case.price_units, margin=1, cap_per_offer=None,
        pace_over=None, probe={"share": 1, "amount": 0.5},
    )  # fmt: skip
    currency = Currency(case.code, case.digits)
    offers = [studio.client.offer(campaign, f"visitor {i}") for i in range(12)]
    paid = next(offer for offer in offers if offer.amount)
    studio.client.accept(paid.id)
    view = studio.client.campaign(campaign)
    page = visit(studio.at(f"#/campaign/{campaign}"))
    lead = page.locator(".lead")
    expect(lead).to_contain_text(f"Budget {case.budget_text}, {case.price_text} per star")
    for name in ("committed", "reserved", "free"):
        text = currency.format(getattr(view, name))
        expect(page.locator(f"#amount-{name}")).to_have_text(text)
    amount = currency.format(paid.amount)
    expect(page.locator(".feed-amount", has_text=amount).first).to_be_visible()
    if not currency.sign:
        expect(page.locator(".spending-chart .ytitle")).to_have_text(case.code)
    page.get_by_role("button", name="Close").click()
    committed = currency.format(view.committed)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Committed{committed}")
    dialog.get_by_role("button", name="Cancel").click()
    page.goto(studio.at(f"#/offer/{paid.id}"))
    expect(page.locator(".offer-amount strong")).to_have_text(amount)
    price = page.locator(".price-table")
    expect(price.get_by_role("row", name="Price of a star")).to_contain_text(case.price_text)
    expect(price.locator(".price-table-total")).to_contain_text(amount)
    expect(page.locator(".timeline")).to_contain_text(f"{amount} is committed.")
    page.goto(studio.at("#/campaigns"))
    card = page.locator(".campaign-row", has_text=f"Paid in {case.code}")
    expect(card).to_contain_text(f"of {case.budget_text}")
    page.goto(studio.at("#/trust"))
    expect(page.locator(".trust-card", has_text=f"Paid in {case.code}")).to_contain_text(
        f"reserved of {case.budget_text}"
    )


BOXES = """(nodes) => nodes.map((node) => {
  const range = document.createRange();
  range.selectNodeContents(node);
  const { left, right, top, bottom } = range.getBoundingClientRect();
  return { left, right, top, bottom };
})"""
"""The boxes of texts; those of their elements can be wider."""


def disjoint(one: dict[str, float], other: dict[str, float]) -> bool:
    beside = one["left"] >= other["right"] or other["left"] >= one["right"]
    return beside or one["top"] >= other["bottom"] or other["top"] >= one["bottom"]


def assert_no_overlap(page: Page, amounts: str) -> None:
    """Assert that no amount is cut off or overlaps another, in a wide window and on a phone."""
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        boxes = page.locator(amounts).evaluate_all(BOXES)
        assert len(boxes) >= 3
        assert all(box["right"] <= size["width"] for box in boxes)
        assert all(disjoint(box, other) for i, box in enumerate(boxes) for other in boxes[:i])
        # Charts are resized a little later.
        page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")


def test_long_amounts_do_not_overlap(studio: Studio, visit: Visit) -> None:
    campaign = studio.new_campaign(
        name="Long", currency="HUF", budget=123_456_789_00, price_of_a_star=800_00,
        cap_per_offer=None,
    )  # fmt: skip
    page = visit(studio.at(f"#/campaign/{campaign}"))
    expect(page.locator("#amount-free")).to_have_text("123,456,789.00 HUF")
    assert_no_overlap(page, ".budget-bar-entry dd:not(.note)")
    page.set_viewport_size(WIDE)
    show(page, studio.address("plan"))
    plan_in(page, next(case for case in CASES if case.code == "HUF"))
    assert_no_overlap(page, ".policy-facts strong")


def plan_in(page: Page, case: Case) -> None:
    """Calculate a small plan in a currency."""
    small_plan(page, days=5, Currency=case.written, Price_of_a_star=str(case.price))
    shown = case.code if case.code in ("HUF", "KWD", "POINTS") else case.written
    expect(page.locator(".plan-others")).to_contain_text(shown)


@every_currency
def test_a_plan_becomes_a_campaign(studio: Studio, visit: Visit, case: Case) -> None:
    page = visit(studio.address("plan"))
    plan_in(page, case)
    shown = re.compile(r"^[¥€]?[\d,]+(\.\d+)?( (HUF|KWD|POINTS))?$")
    for fact in page.locator(".fact-spend strong, .fact-cost strong").all_inner_texts():
        assert shown.match(with_plain_spaces(fact)), fact
        decimals = with_plain_spaces(fact).partition(".")[2].split(" ")[0]
        assert len(decimals) in (0, case.digits), fact
    page.get_by_role("button", name=re.compile(r"campaign ?: UCB$")).click()
    dialog = page.get_by_role("dialog", name="Create this campaign")
    expect(dialog.locator(".campaign-facts")).to_contain_text(f"Price of a star{case.price_text}")
    dialog.get_by_label("Name").fill(f"Planned in {case.code}")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Planned in {case.code}")
    made = studio.client.campaign(page.url.rpartition("/")[2])
    assert (made.currency, made.currency_digits) == (case.code, case.digits)
    assert made.spec["price_of_a_star"] == case.price_units
    budget = Currency(case.code, case.digits).format(made.budget)
    expect(page.locator(".lead")).to_contain_text(f"Budget {budget}, {case.price_text} per star")


def test_a_custom_currency_needs_its_decimals(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("plan"), new=True)  # its form has the example
    small_plan(page, days=4)
    decimals, currency = page.get_by_label("Decimals"), page.get_by_label("Currency")
    expect(decimals).to_be_hidden()
    currency.fill("EURO")
    currency.blur()
    expect(page.get_by_text("EURO is not an ISO 4217 code")).to_be_visible()
    expect(decimals).to_be_visible()
    decimals.fill("1")
    page.get_by_label("Price of a star").fill("2.5")
    page.get_by_role("button", name="Calculate").click()
    expect(page.locator(".plan-others")).to_contain_text("EURO", timeout=COMPILE_TIMEOUT)
    # A new currency resets the budget.
    expect(page.get_by_label("No limit")).to_be_checked()
    currency.fill("¥")
    currency.blur()
    expect(decimals).to_be_hidden()
    expect(page.get_by_text("Enter a whole number from 1 to 1,000,000,000.")).to_be_visible()
    currency.fill("no currency")
    currency.blur()
    expect(page.get_by_text("Enter a code such as EUR, a sign such as €")).to_be_visible()
