"""From stars to money: the price of a star, a margin, and never a fraction of a cent too little."""

from __future__ import annotations

import math

_ROUNDING = 1e-9
"""What is above a whole amount by no more than this, or a few last digits, is so by rounding."""


def amount_of(stars: float, price_of_a_star: int, margin: int) -> int:
    """What a payment in stars costs, in minor units, rounded up.

    >>> from entice.service.money import amount_of
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
    whole = math.ceil(exact - max(_ROUNDING, 4 * math.ulp(exact)))
    return whole + margin if whole > 0 else 0


def stars_for(amount: int, price_of_a_star: int, margin: int) -> float:
    """The largest payment in stars that costs no more than an amount."""
    return max(0, amount - margin) / price_of_a_star
