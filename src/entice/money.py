"""Money: amounts of a currency, and what stars cost.

`amount_of`, `dearest_for` and `stars_for` are plain arithmetic on numbers, so that compiled code
can use them too: `numba.njit(amount_of)`. Logs are replayed with them, so their results must not
change.
"""

from __future__ import annotations

import math

WHOLE = frozenset({"JPY", "KRW", "VND", "CLP", "ISK", "XAF", "XOF", "PYG", "UGX"})
"""Currencies without a smaller unit; all others count as having hundredths."""
_ROUNDING = 1e-9
"""What is above a whole amount by no more than this, or a few last digits, is so by rounding."""


def amount_of(stars: float, price_of_a_star: int, margin: int) -> int:
    """What a payment in stars costs, in minor units, rounded up.

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


def in_words(amount: int, currency: str) -> str:
    """Write an amount of minor units for people.

    >>> from entice.money import in_words
    >>> in_words(123_456, "EUR"), in_words(1_200, "JPY")
    ('1,234.56 EUR', '1,200 JPY')
    """
    if currency in WHOLE:
        return f"{amount:,} {currency}"
    return f"{amount // 100:,}.{amount % 100:02} {currency}"


def dearest_for(amount: int, price_of_a_star: int, margin: int) -> float:
    """The largest payment in stars that costs no more than an amount, rounding included.

    Half of what `amount_of` takes for rounding is added, so that an arm which costs just that much
    is not too dear by the last digit of its price. The other half is for the digits lost since.

    >>> from entice.money import amount_of, dearest_for
    >>> 3.2 - 3.0 <= 1 / 5, 3.2 - 3.0 <= dearest_for(1, price_of_a_star=5, margin=0)
    (False, True)
    >>> amount_of(dearest_for(10**12, 7, 5), 7, 5)
    1000000000000
    """
    return (max(0, amount - margin) + _ROUNDING / 2) / price_of_a_star


def stars_for(amount: int, price_of_a_star: int, margin: int) -> float:
    """What an amount is worth in stars."""
    return max(0, amount - margin) / price_of_a_star
