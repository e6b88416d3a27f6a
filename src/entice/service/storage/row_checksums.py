"""Keyed checksums of the rows that no event log covers: API keys and stored responses.

Without the secret of the database, nobody can alter such a row and make its checksum fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from entice.service import logs
from entice.service.domain.offer import digest
from entice.service.storage.store import Row, Session, Store

KEY = "id, name, role, campaign, created, revoked, hash"
"""The columns of an API key, in the order of a checksum."""
RESPONSE = "scope, key, request, status, body, at"
"""The columns of a stored response, in the order of a checksum."""
PAGE = 2000


class Checksums(Protocol):
    """Checksums of rows, given the values of `KEY` or `RESPONSE`."""

    def of_key(self, row: Row) -> bytes:
        """Return the checksum of an API key."""

    def of_response(self, row: Row) -> bytes:
        """Return the checksum of a stored response."""


class RowChecksums:
    """Checksums with a secret."""

    def __init__(self, secret: bytes) -> None:
        self._hasher = blake2b(key=secret, digest_size=16, person=b"entice row")

    def of_key(self, row: Row) -> bytes:
        """Return the checksum of an API key."""
        return self._of("key", row)

    def of_response(self, row: Row) -> bytes:
        """Return the checksum of a stored response."""
        return self._of("response", row)

    def _of(self, kind: str, row: Row) -> bytes:
        hasher = self._hasher.copy()
        hasher.update(msgspec.msgpack.encode((kind, *row)))
        return hasher.digest()


class _PlainChecksums:
    """The checksums of schema 1, without a secret."""

    def of_key(self, row: Row) -> bytes:
        *view, secret = row
        names = KEY.split(", ")[:-1]
        return digest(msgspec.json.encode(dict(zip(names, view, strict=True))), secret)

    def of_response(self, row: Row) -> bytes:
        scope, key, request, status, body, at = row
        return digest(f"{scope}\0{key}\0{status}\0{at}\0".encode(), request, body)


def current_checksums(session: Session, keyed: RowChecksums | None) -> Checksums | None:
    """Return the checksums that a database has; None if they are keyed and the secret is unknown.

    A database of schema 1 has plain ones until the service first opens it with its secret.
    """
    return _PlainChecksums() if _is_unsealed(session) else keyed


def seal_rows(store: Store, keyed: RowChecksums) -> None:
    """Replace the checksums of schema 1 by keyed ones, once. Damaged rows stay damaged."""
    with store.read() as session:
        if not _is_unsealed(session):
            return
    plain, sealed = _PlainChecksums(), 0
    with store.write() as session:
        if session.run("DELETE FROM meta WHERE name = 'unsealed'") == 0:
            return  # another process was first
        for *row, checksum in session.rows(f"SELECT {KEY}, digest FROM keys"):
            if plain.of_key(tuple(row)) == checksum:
                new = keyed.of_key(tuple(row))
                sealed += session.run("UPDATE keys SET digest = ? WHERE id = ?", (new, row[0]))
        after: tuple[Any, Any] = ("", "")
        while rows := session.rows(
            f"SELECT {RESPONSE}, digest FROM answers WHERE (scope, key) > (?, ?) "
            "ORDER BY scope, key LIMIT ?",
            (*after, PAGE),
        ):
            for *row, checksum in rows:
                if plain.of_response(tuple(row)) == checksum:
                    sealed += session.run(
                        "UPDATE answers SET digest = ? WHERE scope = ? AND key = ?",
                        (keyed.of_response(tuple(row)), row[0], row[1]),
                    )
            after = rows[-1][0], rows[-1][1]
    if sealed:  # expected once, after an upgrade from schema 1
        logs.event("checksums-keyed", rows=sealed)


def _is_unsealed(session: Session) -> bool:
    return bool(session.rows("SELECT 1 FROM meta WHERE name = 'unsealed'"))


def stored_responses(store: Store, start: int = 0, end: int = 2**62) -> Iterator[tuple[Row, bytes]]:
    """Read the stored responses of a time, oldest first, each with its checksum.

    Each page is read in its own transaction: one long transaction would keep SQLite from emptying
    its write-ahead log.
    """
    after: Row = (start, "", "")
    while True:
        with store.read() as session:
            rows = session.rows(
                f"SELECT {RESPONSE}, digest FROM answers WHERE (at, scope, key) > (?, ?, ?) "
                "AND at >= ? AND at < ? ORDER BY at, scope, key LIMIT ?",
                (*after, after[0], end, PAGE),
            )
        for *row, checksum in rows:
            yield tuple(row), checksum
        if len(rows) < PAGE:
            return
        scope, key, *_, at, _ = rows[-1]
        after = (at, scope, key)
