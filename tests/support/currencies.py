"""Five currencies with 0, 2 and 3 decimals, to test every surface; and the table of CLDR.

Run as a script, this writes the table to src/entice/currencies.json.
"""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any, NamedTuple

from babel import Locale
from babel.numbers import get_currency_precision, list_currencies

TABLE = Path(__file__).parents[2] / "src" / "entice" / "currencies.json"


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


def currencies_of_cldr() -> dict[str, tuple[str, int]]:
    """Return the sign and the number of decimals of each currency, by its code."""
    symbols = Locale("en").currency_symbols
    return {
        code: (_sign(symbols.get(code, "")), get_currency_precision(code))
        for code in sorted(list_currencies())
    }


def _sign(symbol: str) -> str:
    """Return a symbol that contains a sign, such as € and A$; empty for a word, such as FCFA."""
    has_sign = any(unicodedata.category(character) == "Sc" for character in symbol)
    return symbol if has_sign and symbol != "¤" else ""


def write_table() -> None:
    rows = [
        f" {json.dumps(code)}: {json.dumps(row, ensure_ascii=False)}"
        for code, row in currencies_of_cldr().items()
    ]
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write_table()
