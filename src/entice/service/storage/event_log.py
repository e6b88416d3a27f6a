"""Reading the events of a campaign from the database, page by page."""

from __future__ import annotations

from collections.abc import Iterator

from entice.service.domain import events as log
from entice.service.domain.errors import Corrupt
from entice.service.storage.store import Session

PAGE = 10_000
"""Number of events that one query reads."""


def iterate_events(
    session: Session, number: int, after: int = 0, page: int = PAGE
) -> Iterator[tuple[int, bytes, bytes]]:
    """Read the events of a campaign after a number, page by page: seq, body, hash."""
    while True:
        rows = session.rows(
            "SELECT seq, body, hash FROM events WHERE campaign = ? AND seq > ? "
            "ORDER BY seq LIMIT ?",
            (number, after, page),
        )
        yield from rows
        if len(rows) < page:
            return
        after = rows[-1][0]


def verified_events(
    session: Session, name: str, number: int, after: int = 0, page: int = PAGE
) -> Iterator[tuple[int, bytes, bytes]]:
    """Read events; raise `Corrupt` if a hash does not follow from the previous one."""
    before = log.GENESIS
    if after > 0:
        rows = session.rows(
            "SELECT hash FROM events WHERE campaign = ? AND seq = ?", (number, after)
        )
        before = rows[0][0] if rows else b""
    for seq, body, written in iterate_events(session, number, after, page):
        if log.chain_hash(before, body) != written:
            raise Corrupt(f"Event {seq} of campaign {name} is damaged. Run `entice verify`.")
        yield seq, body, written
        before = written
