"""Money: currencies, formatted amounts, and the cost of stars.

An amount is an integer number of minor units, such as cents. The number of decimals of a currency
comes from CLDR; a currency of your own, such as POINTS, needs a stated number. `currencies.json` is
CLDR's table, so that the same version of Entice always has the same currencies, and does not need
the 33 MB of the package Babel.

`amount_of`, `max_stars_for` and `stars_for` are plain arithmetic on numbers, so that compiled code
can use them too: `numba.njit(amount_of)`. Logs are replayed with them, so their results must not
change.
"""

from __future__ import annotations

import difflib
import math
import re
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from entice.checks import as_number
from entice.errors import InputError

NO_CURRENCY = "XXX"
"""ISO 4217's code for no currency: amounts are then plain numbers."""
MAX_DIGITS = 8
UNSTATED_DIGITS = 2
"""Decimals of an unknown currency in campaigns recorded without `currency_digits`."""
_OWN_NAME = re.compile("[A-Z]{3,12}")
_ROUNDING = 1e-9
"""An excess over a whole amount up to this size, or a few ulp, counts as rounding error."""


class Currency(msgspec.Struct, frozen=True):
    """A currency: its code, and the number of decimals of its amounts."""

    code: str
    digits: int

    @property
    def sign(self) -> str:
        """The sign written before an amount; empty if the code is written after it."""
        return known_currencies().get(self.code, ("", 0))[0]

    def to_minor(self, amount: float) -> int:
        """Return an amount of major units in minor units, rounded up.

        >>> from entice.money import Currency
        >>> Currency("EUR", 2).to_minor(0.29), Currency("JPY", 0).to_minor(1000.5)
        (29, 1001)
        """
        exact = Decimal(repr(float(amount))).scaleb(self.digits)
        return math.ceil(exact - Decimal(_ROUNDING))

    def to_major(self, units: int) -> float:
        """Return an amount of minor units in major units."""
        return float(units / 10**self.digits)

    def format(self, units: int) -> str:
        """Format an amount of minor units, with all its decimals.

        >>> from entice.money import Currency
        >>> Currency("EUR", 2).format(123_456), Currency("JPY", 0).format(1_200)
        ('€1,234.56', '¥1,200')
        >>> Currency("KWD", 3).format(250_000), Currency("POINTS", 0).format(40)
        ('250.000 KWD', '40 POINTS')
        """
        whole, part = divmod(abs(units), 10**self.digits)
        figure = f"{whole:,}.{part:0{self.digits}}" if self.digits else f"{whole:,}"
        return self._signed(figure, negative=units < 0)

    def format_major(self, amount: float) -> str:
        """Format an amount of major units; without decimals if it is whole or at least 100.

        >>> from entice.money import Currency
        >>> euro, dinar = Currency("EUR", 2), Currency("KWD", 3)
        >>> euro.format_major(4200), euro.format_major(0.5), dinar.format_major(0.5)
        ('€4,200', '€0.50', '0.500 KWD')
        """
        digits = 0 if amount == round(amount) or abs(amount) >= 100 else self.digits
        return self._signed(f"{abs(amount):,.{digits}f}", negative=amount < 0)

    def _signed(self, figure: str, negative: bool) -> str:
        minus = "−" if negative else ""
        if self.code == NO_CURRENCY:
            return f"{minus}{figure}"
        if self.sign:
            return f"{minus}{self.sign}{figure}"
        return f"{minus}{figure} {self.code}"


def read_currency(where: str, written: object, digits: object = None) -> Currency:
    """Parse a currency: an ISO 4217 code, a sign, an empty string, or a name of your own.

    A name of your own needs `digits`, so that a misspelt code is not mistaken for one. `where` is
    the name of the spec in error messages.

    >>> from entice.money import read_currency
    >>> read_currency("Plan", "€"), read_currency("Plan", "kwd")
    (Currency(code='EUR', digits=2), Currency(code='KWD', digits=3))
    >>> read_currency("Plan", "points", digits=0), read_currency("Plan", "")
    (Currency(code='POINTS', digits=0), Currency(code='XXX', digits=2))
    >>> read_currency("Plan", "EURO")
    Traceback (most recent call last):
        ...
    entice.errors.InputError: Plan: currency must be an ISO 4217 code such as EUR, or a name of \
your own with currency_digits; got 'EURO'. Did you mean EUR? If it is your own, set \
currency_digits to the number of its decimals: 0 if it has no smaller unit.
    """
    code = _code(written)
    stated = None if digits is None else _stated_digits(where, digits)
    known = known_currencies().get(code)
    if known is not None:
        _, usual = known
        if stated not in (None, usual) and code != NO_CURRENCY:
            rule = f"must be {usual} for {code}, as in CLDR"
            raise InputError(f"{where}: currency_digits", rule, given=digits, todo="Leave it out.")
        return Currency(code, usual if stated is None else stated)
    if _OWN_NAME.fullmatch(code) and stated is not None:
        return Currency(code, stated)
    rule = "must be an ISO 4217 code such as EUR, or a name of your own with currency_digits"
    if stated is not None:
        rule = "must be an ISO 4217 code such as EUR, or a name of 3 to 12 letters from A to Z"
    raise InputError(f"{where}: currency", rule, given=written, todo=_advice(code, stated))


def recorded_currency(code: str, digits: int | None) -> Currency:
    """Return the currency of a recorded campaign, with its recorded digits.

    Campaigns recorded without digits have those of CLDR, or two if CLDR does not know the currency.
    """
    if digits is not None:
        return Currency(code, digits)
    return Currency(code, known_currencies().get(code, ("", UNSTATED_DIGITS))[1])


@lru_cache(1)
def known_currencies() -> dict[str, tuple[str, int]]:
    """Return the sign and the number of decimals of each currency in CLDR, by its code.

    The sign is empty for currencies that CLDR writes in letters in English, such as CHF.
    """
    table = Path(__file__).with_name("currencies.json").read_bytes()
    return msgspec.json.decode(table, type=dict[str, tuple[str, int]])


def explain_minor_units(currency: Currency, given: float) -> tuple[str, str | None]:
    """Return the rule for an amount with decimals, and how to write the amount.

    >>> from entice.money import Currency, explain_minor_units
    >>> explain_minor_units(Currency("JPY", 0), 1000.5)
    ('must be a whole number: JPY has no smaller unit', 'Write 1000 or 1001.')
    >>> explain_minor_units(Currency("KWD", 3), 250.5)
    ('must be a whole number of minor units, of 0.001 KWD each', 'For 250.500 KWD write 250500.')
    """
    sensible = 0 <= given < 10**12
    if currency.digits == 0:
        rule = f"must be a whole number: {currency.code} has no smaller unit"
        choices = dict.fromkeys((math.floor(given), math.ceil(given))) if sensible else ()
        return rule, f"Write {' or '.join(map(str, choices))}." if sensible else None
    rule = f"must be a whole number of minor units, of {currency.format(1)} each"
    if not sensible:
        return rule, None
    units = currency.to_minor(given)
    return rule, f"For {currency.format(units)} write {units}."


def amount_of(stars: float, price_of_a_star: int, margin: int) -> int:
    """Return the cost of a payment in stars, in minor units, rounded up.

    >>> from entice.money import amount_of
    >>> amount_of(0.25, price_of_a_star=200, margin=5)
    55
    >>> amount_of(0.251, price_of_a_star=200, margin=0)  # 50.2, rounded up
    51
    >>> amount_of(0.0, price_of_a_star=200, margin=5)  # no payment, no margin
    0
    """
    if stars <= 0:
        return 0
    exact = stars * price_of_a_star
    # math.ulp(exact), written with functions that Numba supports.
    last_digit = math.ldexp(1.0, max(math.frexp(exact)[1] - 53, -1074))
    whole = math.ceil(exact - max(_ROUNDING, 8 * last_digit))
    return whole + margin if whole > 0 else 0


def max_stars_for(amount: int, price_of_a_star: int, margin: int) -> float:
    """Return the largest payment in stars whose cost, rounded up, is at most an amount.

    Half of the rounding tolerance of `amount_of` is added, so that a payment of exactly that cost
    is not rejected for its last digit. The other half is left for later rounding errors.

    >>> from entice.money import amount_of, max_stars_for
    >>> 3.2 - 3.0 <= 1 / 5, 3.2 - 3.0 <= max_stars_for(1, price_of_a_star=5, margin=0)
    (False, True)
    >>> amount_of(max_stars_for(10**12, 7, 5), 7, 5)
    1000000000000
    """
    return (max(0, amount - margin) + _ROUNDING / 2) / price_of_a_star


def stars_for(amount: int, price_of_a_star: int, margin: int) -> float:
    """Return the value of an amount in stars."""
    return max(0, amount - margin) / price_of_a_star


def _code(written: object) -> str:
    """Return the code of a currency; the text in capital letters if it is not a known sign."""
    if not isinstance(written, str):
        return ""
    text = written.strip()
    if not text:
        return NO_CURRENCY
    signs = {sign: code for code, (sign, _) in known_currencies().items() if sign}
    return signs.get(text, text.upper())


def _stated_digits(where: str, given: Any) -> int:
    name, rule = f"{where}: currency_digits", f"must be a whole number from 0 to {MAX_DIGITS}"
    value = as_number(name, given)
    if value != int(value) or not 0 <= value <= MAX_DIGITS:
        raise InputError(name, rule, given=given)
    return int(value)


def _advice(code: str, stated: int | None) -> str | None:
    alike = [known for known in known_currencies() if known[0] == code[:1]]
    near = difflib.get_close_matches(code, alike, n=1, cutoff=0.7)
    guess = [f"Did you mean {near[0]}?"] if near else []
    if stated is None and _OWN_NAME.fullmatch(code):
        guess.append(
            "If it is your own, set currency_digits to the number of its decimals: 0 if it has no "
            "smaller unit."
        )
    return " ".join(guess) or None
