"""Five currencies with 0, 2 and 3 decimals, to test every surface."""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    """A budget and a price of a star, in the form of each surface."""

    code: str
    written: str
    """The currency as written in a plan."""
    digits: int
    budget: float
    """In major units, as in plans."""
    budget_units: int
    """In minor units, as in campaigns."""
    budget_text: str
    price: float
    price_units: int
    price_text: str

    @property
    def own(self) -> dict[str, Any]:
        """The additional settings of a custom currency."""
        return {"currency_digits": self.digits} if self.code == "POINTS" else {}


CASES = (
    Case("JPY", "¥", 0, 40_000, 40_000, "¥40,000", 300, 300, "¥300"),
    Case("HUF", "huf", 2, 40_000, 4_000_000, "40,000.00 HUF", 800, 80_000, "800.00 HUF"),
    Case("KWD", "KWD", 3, 250, 250_000, "250.000 KWD", 0.575, 575, "0.575 KWD"),
    Case("EUR", "€", 2, 123.45, 12_345, "€123.45", 1.99, 199, "€1.99"),
    Case("POINTS", "points", 0, 12_500, 12_500, "12,500 POINTS", 150, 150, "150 POINTS"),
)
IDS = [case.code for case in CASES]
