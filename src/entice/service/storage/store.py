"""The storage protocol: the interface between the service and a database."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from entice.errors import InputError
from entice.extras import require

Row = tuple[Any, ...]


class Table(NamedTuple):
    """A table with bulk inserts and lookups."""

    name: str
    columns: dict[str, str]
    """Column names, each with its type in PostgreSQL."""


class Columns(NamedTuple):
    """Columns of a table to select, and the index to use."""

    table: Table
    names: tuple[str, ...]
    use_index: str | None = None
    """Only if SQLite would choose the wrong index."""

    @property
    def select(self) -> str:
        """The SELECT and FROM clauses."""
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
    """A connection inside a transaction. Placeholders are question marks."""

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run a query, and return its rows."""

    def rows_where_in(
        self,
        columns: Columns,
        where: str,
        params: Sequence[Any],
        column: str,
        values: Sequence[Any],
    ) -> list[Row]:
        """Return the rows that meet a condition and in which a column has one of several values."""

    def index_hint(self, index: str) -> str:
        """Return the SQL to write after a table's name so that a query uses an index.

        Without it, SQLite scans all offers of a campaign by the primary key. Empty for databases
        that choose the index themselves.
        """

    def contains(self, column: str) -> str:
        """Return an SQL condition: whether the bytes of a column contain those of a parameter."""

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run a statement, and return the number of rows that it changed."""

    def insert(self, table: Table, rows: Sequence[Sequence[Any]], on_conflict: str = "") -> None:
        """Insert many rows; `on_conflict` is the ON CONFLICT clause."""


class Store(Protocol):
    """An open database, whose schema is current."""

    url: str
    for_update: str
    """The clause of a SELECT that locks its rows, if the database needs one."""

    driver_errors: tuple[type[Exception], ...]
    """The driver's exceptions. Most are translated into errors of the service; violated
    constraints are not."""

    def read(self) -> AbstractContextManager[Session]:
        """Open a read-only transaction that sees one snapshot; thread-safe."""

    def write(self) -> AbstractContextManager[Session]:
        """Open a transaction that is committed on exit and rolled back on an exception."""

    def set_shared(self, shared: bool) -> None:
        """Set whether several campaigns write, so that no commit should do much work at once."""

    def check(self) -> None:
        """Raise `Unavailable` or `Corrupt` if the database cannot be used."""

    def check_integrity(self) -> None:
        """Check the whole database, and raise `Corrupt` if it is damaged."""

    def close(self) -> None:
        """Close all connections."""


def open_store(url: str) -> Store:
    """Open a database by its URL, `sqlite:///entice.db` or `postgresql://…`.

    Three slashes precede a relative path, four an absolute one.
    """
    scheme, divider, rest = url.partition("://")
    if scheme == "sqlite" and divider and rest.startswith("/") and len(rest) > 1:
        from entice.service.storage.sqlite import SqliteStore

        return SqliteStore(Path(rest[1:]))
    if scheme in ("postgresql", "postgres") and divider:
        require("postgres")
        from entice.service.storage.postgres import PostgresStore

        return PostgresStore(url)
    raise InputError(
        "the database",
        "must be a URL such as sqlite:///entice.db or postgresql://user@host/name",
        given=without_password(url),
    )


def without_password(url: str) -> str:
    """Return a URL for display, without its password, even if the URL is malformed.

    >>> without_password("postgresql://me:secret@host/name")
    'postgresql://me:…@host/name'
    >>> without_password("postgresql:/me:secret@host/name")
    'postgresql:…'
    >>> without_password("postgresql://host/name?pasword=secret")
    'postgresql://host/name?…'
    """
    scheme, divider, rest = url.partition("://")
    is_path = scheme == "sqlite" and rest.startswith("/")
    if is_path or (not divider and not re.search("[:@=]", url)):
        return url
    if not divider or not re.fullmatch(_PLAIN_URL, rest):
        return f"{re.split('[:/=]', url)[0]}:…"
    rest, question, parameters = rest.partition("?")
    if question:  # an unencoded & or = makes parts of a password names of parameters
        rest += "?…" if parameters else "?"
    user, at, host = rest.rpartition("@")
    if not at or ":" not in user:
        return f"{scheme}{divider}{rest}"
    return f"{scheme}{divider}{user.partition(':')[0]}:…@{host}"


_PLAIN_URL = r"([^:/?#@\s]*(:[^/?#@\s]*)?@)?[^:/?#@\s]*(:\d*)?(/[^@#\s]*)?(\?[^@#\s]*)?"
"""A URL after its scheme: user, password, host, port, name and parameters. One that is different
may contain a password anywhere."""
