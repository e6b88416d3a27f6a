"""Numbered schema migrations of each database, applied in order. Their statements never change."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

Database = Literal["sqlite", "postgres"]


def migrations(database: Database) -> list[str]:
    """Return the SQL of all migrations, in order."""
    folder = files(__package__) / database
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    assert found == [f"{i:04}.sql" for i in range(1, len(found) + 1)], found
    return [(folder / name).read_text(encoding="utf-8") for name in found]
