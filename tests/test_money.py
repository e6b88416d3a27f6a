"""Money: currencies and their amounts, and the cost of stars, in Python and compiled."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from typing import Any

import numba
import pytest
from currencies import CASES, IDS, Case, currencies_of_cldr
from hypothesis import given
from hypothesis import strategies as st
from plan_fixtures import forecast_of_ten, make_plan, outcome

import entice
from entice.errors import InputError
from entice.money import (
    Currency,
    amount_of,
    known_currencies,
    max_stars_for,
    read_currency,
    recorded_currency,
    stars_for,
)
from entice.service.domain.from_plan import campaigns
from entice.service.domain.spec import CampaignSpec

CODES = sorted(known_currencies())
BEFORE = frozenset({"JPY", "KRW", "VND", "CLP", "ISK", "XAF", "XOF", "PYG", "UGX"})
"""The currencies without decimals in an earlier version; all others had two decimals."""

# Currencies


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_amounts_are_read_and_written_with_the_digits_of_their_currency(case: Case) -> None:
    currency = read_currency("Plan", case.written, case.own.get("currency_digits"))
    assert currency == Currency(case.code, case.digits)
    assert currency.to_minor(case.budget) == case.budget_units
    assert currency.to_major(case.budget_units) == case.budget
    assert currency.format(case.budget_units) == case.budget_text
    assert currency.format(case.price_units) == case.price_text


def test_amounts_are_formatted_for_readers() -> None:
    yen, euro, dinar = Currency("JPY", 0), Currency("EUR", 2), Currency("KWD", 3)
    assert [yen.format(x) for x in (0, 7, 1_234_567)] == ["¥0", "¥7", "¥1,234,567"]
    assert [euro.format(x) for x in (0, 7, -1_234_567)] == ["€0.00", "€0.07", "−€12,345.67"]
    assert [dinar.format(x) for x in (7, 1_234_567)] == ["0.007 KWD", "1,234.567 KWD"]
    assert Currency("XXX", 2).format(1234) == "12.34"  # no currency, no name
    assert Currency("AUD", 2).format(1234) == "A$12.34"
    assert Currency("XAF", 0).format(1234) == "1,234 XAF"  # CLDR's FCFA is not a sign
    assert [euro.format_major(x) for x in (0, 0.5, 12, 99.5, 1234.6)] == [
        "€0", "€0.50", "€12", "€99.50", "€1,235",
    ]  # fmt: skip
    assert [yen.format_major(x) for x in (0.7, 99.4)] == ["¥1", "¥99"]
    assert [dinar.format_major(x) for x in (0.5, 99.4, 250)] == [
        "0.500 KWD", "99.400 KWD", "250 KWD",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "digits", "expected"),
    [
        ("€", None, ("EUR", 2)),
        ("$", None, ("USD", 2)),
        (" chf ", None, ("CHF", 2)),
        ("", None, ("XXX", 2)),
        ("XXX", 0, ("XXX", 0)),  # points without a name
        ("Kč", 2, None),
        ("jpy", 0, ("JPY", 0)),
        ("Gems", 8, ("GEMS", 8)),
    ],
)
def test_a_currency_is_parsed_from_codes_signs_and_names(
    written: str, digits: int | None, expected: tuple[str, int] | None
) -> None:
    if expected is None:
        with pytest.raises(InputError, match="a name of 3 to 12 letters"):
            read_currency("Plan", written, digits)
    else:
        assert read_currency("Plan", written, digits) == Currency(*expected)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"currency": "EURO"}, "got 'EURO'. Did you mean EUR? If it is your own, set currency_dig"),
        ({"currency": "POINTS"}, "got 'POINTS'. If it is your own, set currency_digits"),
        ({"currency": "kr"}, "must be an ISO 4217 code such as EUR, or a name of your own"),
        ({"currency": 3}, "must be an ISO 4217 code such as EUR"),
        ({"currency": "EUR", "currency_digits": 3}, "currency_digits must be 2 for EUR, as in CL"),
        ({"currency": "POINTS", "currency_digits": 9}, "must be a whole number from 0 to 8; got 9"),
        ({"currency": "POINTS", "currency_digits": 0.5}, "a whole number from 0 to 8; got 0.5"),
        ({"currency": "POINTS", "currency_digits": True}, "must be a number; got True"),
        ({"currency": "¥", "price_of_a_star": 0.5}, "must be a multiple of ¥1, the smallest amoun"),
        ({"price_of_a_star": 0.005}, "price_of_a_star must be a multiple of 0.01, the smallest"),
    ],
)
def test_a_plan_reports_invalid_amounts(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as wrong:
        make_plan(**given)
    assert words in str(wrong.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"currency": "JPY", "budget": 1000.5},
            "budget must be a whole number: JPY has no smaller unit; got 1000.5. "
            "Write 1000 or 1001.",
        ),
        ({"currency": "JPY", "budget": 1000.0}, "got 1000.0. Write 1000."),
        ({"currency": "EUR", "budget": 500.5}, "of €0.01 each; got 500.5. For €500.50 write 50050"),
        ({"currency": "KWD", "margin": 0.25}, "For 0.250 KWD write 250."),
        ({"currency": "HUF", "cap_per_offer": 99.9}, "For 99.90 HUF write 9990."),
        (
            {"currency": "POINTS", "currency_digits": 0, "price_of_a_star": 2.5},
            "POINTS has no smaller unit; got 2.5. Write 2 or 3.",
        ),
        ({"budget": math.nan}, "of €0.01 each; got nan."),
        ({"budget": -1.5}, "of €0.01 each; got -1.5."),
        ({"budget": 1e300}, "of €0.01 each; got 1e+300."),
        ({"currency_digits": 9}, "currency_digits must be at most 8"),
    ],
)
def test_a_campaign_reports_how_to_write_an_amount(given: dict[str, Any], words: str) -> None:
    settings = {"name": "x", "arms": ["a", "b"], "budget": 10, "price_of_a_star": 1, **given}
    with pytest.raises(InputError) as wrong:
        CampaignSpec(**settings)
    assert words in str(wrong.value)


@given(st.sampled_from(CODES), st.integers(0, 10**15))
def test_units_survive_a_round_trip_through_major_units(code: str, units: int) -> None:
    currency = read_currency("Plan", code)
    assert currency.to_minor(currency.to_major(units)) == units
    figure = currency.format(units).replace(currency.sign or f" {code}", "").replace(",", "")
    assert int(figure.replace(".", "")) == units
    assert len(figure.partition(".")[2]) == currency.digits


def of_a_plan(code: str) -> tuple[Currency, dict[str, Any]]:
    """Return the campaign of a plan with a budget of 1,234 and a price of 5, in major units."""
    found = forecast_of_ten(
        lambda i: outcome(), policies=[entice.UCB()], currency=code, budget=1234, price_of_a_star=5
    )
    return found.plan.money, campaigns(found)["UCB"]


def wrong_with_the_old_table(code: str, campaign: dict[str, Any]) -> bool:
    """Return whether the old table of decimals would have changed the budget."""
    return bool(1234 * (1 if code in BEFORE else 100) != campaign["budget"])


@pytest.mark.usefixtures("untraced")
def test_every_currency_keeps_its_amounts_from_plan_to_campaign() -> None:
    wrong = []
    for code in CODES:
        currency, campaign = of_a_plan(code)
        spec = CampaignSpec.from_plain(campaign).with_currency_digits()
        assert (spec.currency, spec.currency_digits) == (code, known_currencies()[code][1])
        assert spec.money.to_major(spec.budget) == 1234
        assert spec.money.to_major(spec.price_of_a_star) == 5
        decimals = f".{'0' * currency.digits}" if currency.digits else ""
        assert f"1,234{decimals}" in spec.money.format(spec.budget)
        if wrong_with_the_old_table(code, campaign):
            wrong.append(code)
    # The control: the old table fails for these, by a factor of 10, 100 or 10,000.
    assert len(wrong) >= 30
    assert {"KWD", "BHD", "CLF", "IQD", "RSD"} <= set(wrong)
    assert not {"EUR", "JPY", "HUF"} & set(wrong)  # the old table was right for these


def test_recorded_campaigns_keep_their_meaning() -> None:
    assert recorded_currency("POINTS", None) == Currency("POINTS", 2)  # as it was recorded
    assert recorded_currency("KWD", None) == Currency("KWD", 3)
    assert recorded_currency("KWD", 2) == Currency("KWD", 2)  # CLDR may have changed since
    settings: dict[str, Any] = {"name": "x", "arms": ["a", "b"], "budget": 1, "price_of_a_star": 1}
    before = CampaignSpec(**settings, currency="POINTS")
    assert before.money.digits == 2
    assert "currency_digits" not in before.to_plain()  # or logs would not replay
    with pytest.raises(InputError, match="If it is your own"):
        before.with_currency_digits()


def test_the_currencies_are_those_of_cldr() -> None:
    known = known_currencies()
    assert known == currencies_of_cldr(), "Run: python tests/support/currencies.py"
    assert known["EUR"] == ("€", 2)
    assert list(known) == sorted(known)


# Stars


def amount_with_ulp(stars: float, price: int, margin: int) -> int:
    """Return the result of `amount_of` at the time of the first logs."""
    if stars <= 0:
        return 0
    exact = stars * price
    whole = math.ceil(exact - max(1e-9, 8 * math.ulp(exact)))
    return whole + margin if whole > 0 else 0


def payments(seed: int, count: int) -> list[tuple[float, int, int]]:
    """Draw payments of all sizes, many at or near a whole amount, where rounding matters."""
    draw = random.Random(seed)
    drawn = []
    for _ in range(count):
        price = draw.randint(1, 10 ** draw.randint(1, 12))
        near = draw.randint(0, 10 ** draw.randint(0, 15)) / price
        stars = draw.choice([near, math.nextafter(near, 9), near * (1 + 1e-15), draw.random() * 4])
        drawn.append((min(stars, 4000.0), price, draw.randint(0, 9)))
    return drawn


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("function", [amount_of, numba.njit(amount_of)])
def test_amounts_equal_those_of_the_first_logs(function: Callable[..., int]) -> None:
    for payment in payments(seed=1, count=100_000):
        assert function(*payment) == amount_with_ulp(*payment)


def test_the_formula_for_the_last_digit_equals_ulp_for_every_double() -> None:
    draw = random.Random(2)
    doubles = [struct.unpack("d", struct.pack("Q", draw.randrange(1, 0x7FF << 52)))[0]
               for _ in range(100_000)]  # fmt: skip
    edges = [math.ldexp(1.0, power) for power in range(-1074, 1024)]
    for x in [*doubles, *edges, math.nextafter(math.inf, 0), math.nextafter(2.0**-1022, 0)]:
        assert math.ldexp(1.0, max(math.frexp(x)[1] - 53, -1074)) == math.ulp(x)


@pytest.mark.parametrize("function", [max_stars_for, stars_for])
def test_compiled_functions_equal_those_of_python(function: Callable[..., float]) -> None:
    draw, compiled = random.Random(3), numba.njit(function)
    for _, price, margin in payments(seed=4, count=20_000):
        amount = draw.randint(0, 10 ** draw.randint(1, 15))
        assert compiled(amount, price, margin) == function(amount, price, margin)
