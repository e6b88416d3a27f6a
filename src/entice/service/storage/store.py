"""Where campaigns are kept: what the service asks of a database, whichever it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from entice.errors import InputError

Row = tuple[Any, ...]


class Table(NamedTuple):
    """A table that is written and searched many rows at a time."""

    name: str
    columns: dict[str, str]
    """Names and types, as PostgreSQL has them."""


class Columns(NamedTuple):
    """Some columns of a table, and the index to search it by."""

    table: Table
    names: tuple[str, ...]
    by: str | None = None
    """Only where SQLite, left to itself, would take the wrong one."""

    @property
    def select(self) -> str:
        """The beginning of a SELECT."""
        return f"SELECT {', '.join(self.names)} FROM {self.table.name}"


EVENTS = Table("events", {"campaign": "bigint", "seq": "bigint", "body": "bytea", "hash": "bytea"})
ANSWERS = Table(
    "answers",
    {
        "scope": "text", "key": "text", "request": "bytea",
        "status": "bigint", "body": "bytea", "at": "bigint", "digest": "bytea",
    },
)  # fmt: skip
OFFERS = Table(
    "offers",
    {
        "campaign": "bigint", "n": "bigint", "player": "bytea", "state": "bigint",
        "due": "bigint", "cost": "bigint", "body": "bytea", "digest": "bytea",
    },
)  # fmt: skip


class Session(Protocol):
    """One connection inside one transaction. Placeholders are question marks."""

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Ask for rows."""

    def rows_where_in(
        self, some: Columns, where: str, params: Sequence[Any], column: str, values: Sequence[Any]
    ) -> list[Row]:
        """Ask for rows in which, besides a condition, a column has one of several values."""

    def by(self, index: str) -> str:
        """What follows a table's name to say by which index to search it.

        SQLite would rather search all offers of a campaign by its primary key.
        """

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Change rows, and return how many were changed."""

    def insert(self, table: Table, rows: Sequence[Sequence[Any]], otherwise: str = "") -> None:
        """Add many rows at once; `otherwise` is what to do where one is there already."""


class Store(Protocol):
    """A database, ready for use: opening it has migrated or refused its schema."""

    url: str
    for_update: str
    """What a SELECT ends with so that nobody else changes the row before we do."""

    driver_errors: tuple[type[Exception], ...]
    """What the database's driver raises; `write` turns it into errors of the service."""

    def read(self) -> AbstractContextManager[Session]:
        """Look at the database as it is at one moment, from any thread."""

    def write(self) -> AbstractContextManager[Session]:
        """Change it: everything that is done within, or nothing."""

    def check(self) -> None:
        """Raise `Unavailable` or `Corrupt` if the database can't be used."""

    def check_integrity(self) -> None:
        """Search the whole database for damage, and raise `Corrupt` if there is any."""

    def close(self) -> None:
        """Let go of all connections."""


def open_store(url: str) -> Store:
    """Open a database by its address, `sqlite:///entice.db` or `postgresql://…`.

    Three slashes are followed by a path from here, four by one from the root.
    """
    scheme, divider, rest = url.partition("://")
    if scheme == "sqlite" and divider and rest.startswith("/") and len(rest) > 1:
        from entice.service.storage.sqlite import SqliteStore

        return SqliteStore(Path(rest[1:]))
    if scheme in ("postgresql", "postgres") and divider:
        from entice.service.storage.postgres import PostgresStore

        return PostgresStore(url)
    raise InputError(
        "the database",
        "must be an address like sqlite:///entice.db or postgresql://user@host/name",
        given=without_password(url),
    )


def without_password(url: str) -> str:
    """Return an address that may be shown."""
    scheme, divider, rest = url.partition("://")
    rest = re.sub(r"(password=)[^&]*", r"\1…", rest)
    user, at, host = rest.rpartition("@")
    if not at or ":" not in user:
        return f"{scheme}{divider}{rest}"
    return f"{scheme}{divider}{user.partition(':')[0]}:…@{host}"
