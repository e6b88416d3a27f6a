"""Money: what stars cost, in Python and compiled."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable

import numba
import pytest

from entice.money import amount_of, dearest_for, stars_for


def amount_with_ulp(stars: float, price: int, margin: int) -> int:
    """`amount_of` as it was when the first logs were written."""
    if stars <= 0:
        return 0
    exact = stars * price
    whole = math.ceil(exact - max(1e-9, 8 * math.ulp(exact)))
    return whole + margin if whole > 0 else 0


def payments(seed: int, count: int) -> list[tuple[float, int, int]]:
    """Payments of all sizes: many a whole amount or next to one, where rounding decides."""
    draw = random.Random(seed)
    drawn = []
    for _ in range(count):
        price = draw.randint(1, 10 ** draw.randint(1, 12))
        near = draw.randint(0, 10 ** draw.randint(0, 15)) / price
        stars = draw.choice([near, math.nextafter(near, 9), near * (1 + 1e-15), draw.random() * 4])
        drawn.append((min(stars, 4000.0), price, draw.randint(0, 9)))
    return drawn


@pytest.mark.parametrize("function", [amount_of, numba.njit(amount_of)])
def test_amounts_are_those_of_the_first_logs(function: Callable[..., int]) -> None:
    for payment in payments(seed=1, count=100_000):
        assert function(*payment) == amount_with_ulp(*payment)


def test_the_last_digit_is_the_last_digit_of_every_double() -> None:
    draw = random.Random(2)
    doubles = [struct.unpack("d", struct.pack("Q", draw.randrange(1, 0x7FF << 52)))[0]
               for _ in range(100_000)]  # fmt: skip
    edges = [math.ldexp(1.0, power) for power in range(-1074, 1024)]
    for x in [*doubles, *edges, math.nextafter(math.inf, 0), math.nextafter(2.0**-1022, 0)]:
        assert math.ldexp(1.0, max(math.frexp(x)[1] - 53, -1074)) == math.ulp(x)


@pytest.mark.parametrize("function", [dearest_for, stars_for])
def test_compiled_stars_are_those_of_python(function: Callable[..., float]) -> None:
    draw, compiled = random.Random(3), numba.njit(function)
    for _, price, margin in payments(seed=4, count=20_000):
        amount = draw.randint(0, 10 ** draw.randint(1, 15))
        assert compiled(amount, price, margin) == function(amount, price, margin)
