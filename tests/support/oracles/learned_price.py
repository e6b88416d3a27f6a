"""A plain-Python oracle of the learned price: exact fractions, by definition, slow and simple."""

from collections.abc import Sequence
from fractions import Fraction

_DECIMALS = (
    "0.02", "0.0252", "0.032", "0.04", "0.05", "0.064", "0.08", "0.1", "0.126", "0.16", "0.2",
    "0.252", "0.32", "0.4", "0.5", "0.64", "0.8", "1", "1.26", "1.6", "2", "2.52", "3.2", "4",
)  # fmt: skip
PRICES = [Fraction(number) for number in _DECIMALS]
"""The prices of a scale from 1 to 5 stars, in stars."""


def position(payment: float) -> int:
    """Return the lowest price that covers a payment, up to its last digits."""
    exact = Fraction(payment) * Fraction(10**9 - 1, 10**9)
    return next((i for i, price in enumerate(PRICES) if float(price) >= exact), len(PRICES) - 1)


def isotonic(answers: Sequence[int], accepted: Sequence[int]) -> list[Fraction | None]:
    """Return the isotonic regression of shares, by its max-min formula.

    A price without answers has the share of the next lower one that has some.
    """
    known = [i for i, count in enumerate(answers) if count]

    def share(first: int, last: int) -> Fraction:
        inside = [i for i in known if first <= i <= last]
        return Fraction(sum(accepted[i] for i in inside), sum(answers[i] for i in inside))

    found: list[Fraction | None] = []
    for j in range(len(answers)):
        lower = [i for i in known if i <= j]
        if j not in known:
            found.append(found[-1] if lower else None)
            continue
        upper = [k for k in known if k >= j]
        found.append(max(min(share(i, k) for k in upper) for i in lower))
    return found


def learned(answers: Sequence[int], accepted: Sequence[int], wanted: float) -> int | None:
    """Return the cheapest price with 10 answers whose share is at least `wanted`."""
    shares = isotonic(answers, accepted)
    eligible = (i for i, count in enumerate(answers) if count >= 10)
    return next((i for i in eligible if (shares[i] or 0) >= Fraction(wanted)), None)


def possible_payments(
    gap: float, cheapest: int | None, explore: float
) -> list[tuple[float, float]]:
    """Return what may be paid for a gap, with probabilities: the usual payment, then drawn ones."""
    usual, middle = gap, position(gap)
    if cheapest is not None and float(PRICES[cheapest]) < gap:
        usual, middle = float(PRICES[cheapest]), cheapest
    prices = PRICES[max(0, middle - 3) : min(position(gap), middle + 3) + 1]
    drawn = [(min(gap, float(price)), explore / len(prices)) for price in prices]
    return [(usual, 1 - explore), *drawn]
