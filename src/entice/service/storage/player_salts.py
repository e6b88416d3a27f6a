"""Salts of players' hashes: without its salt, a hash cannot be linked to a player's id.

Each player of a campaign has a random salt, which enters the hash that offers and events store.
Erasing the salt erases the link, even for somebody who has the secret and the id. Campaigns from
before salts have a row with an empty `lookup` instead: their hashes have no salt.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from entice.service.domain.errors import Corrupt
from entice.service.domain.offer import digest
from entice.service.storage.store import Columns, Session, Store, Table

PLAYERS = Table(
    "players", {"lookup": "bytea", "campaign": "bigint", "salt": "bytea", "digest": "bytea"}
)
_COLUMNS = Columns(PLAYERS, ("lookup", "campaign", "salt", "digest"))
_PAGE = 2000
_WITHOUT_SALTS = b""
"""The lookup of the row that a campaign from before salts has."""


def salted(value: bytes, salts: Iterable[bytes]) -> bytes:
    """Return a hash of a value and the salts; the value itself if it has none.

    >>> from entice.service.storage.player_salts import salted
    >>> salted(b"value", [b""]), salted(b"value", [b"salt"]).hex()[:8]
    (b'value', '03d36ece')
    """
    joined = b"".join(salts)
    return blake2b(value + joined, digest_size=16).digest() if joined else value


class PlayerSalts:
    """The salts of players, as one transaction sees them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._stored: dict[tuple[int, bytes], bytes | None] = {}
        self._new: dict[tuple[int, bytes], bytes] = {}

    def prefetch(self, campaign: int, lookups: Sequence[bytes]) -> None:
        """Load the salts of several players of a campaign with one query."""
        unknown = [one for one in (*lookups, _WITHOUT_SALTS) if (campaign, one) not in self._stored]
        if not unknown:
            return
        rows = self.session.rows_where_in(_COLUMNS, "campaign = ?", (campaign,), "lookup", unknown)
        found = {(campaign, row[0]): _salt_of(row) for row in rows}
        self._stored |= dict.fromkeys(((campaign, one) for one in unknown), None) | found

    def find(self, campaign: int, lookup: bytes) -> bytes | None:
        """Return the salt of a player, empty in a campaign without salts; None if there is none."""
        if (campaign, lookup) in self._new:
            return self._new[campaign, lookup]
        if (campaign, lookup) not in self._stored:
            self.prefetch(campaign, [lookup])
        if self._stored[campaign, _WITHOUT_SALTS] is not None:
            return b""
        return self._stored[campaign, lookup]

    def draw(self, campaign: int, lookup: bytes) -> bytes:
        """Draw the salt of a player who has none."""
        salt = self._new[campaign, lookup] = secrets.token_bytes(16)
        return salt

    def erase(self, campaign: int, lookup: bytes) -> None:
        """Delete the salt of a player."""
        self._stored[campaign, lookup] = None
        if self._new.pop((campaign, lookup), None) is None:
            where = "DELETE FROM players WHERE campaign = ? AND lookup = ?"
            self.session.run(where, (campaign, lookup))

    @property
    def drawn(self) -> int:
        """The number of salts drawn."""
        return len(self._new)

    def keep_drawn(self, number: int) -> None:
        """Drop all salts but the first `number` drawn: the others' commands were rejected."""
        while len(self._new) > number:
            self._new.popitem()

    def take_rows(self, campaign: int, lookups: Iterable[bytes]) -> list[tuple[Any, ...]]:
        """Return the rows of salts that were drawn for players, which the caller writes."""
        taken = {(campaign, lookup): self._new.pop((campaign, lookup)) for lookup in lookups}
        self._stored |= taken
        rows = ((lookup, number, salt) for (number, lookup), salt in taken.items())
        return [(*row, _digest(*row)) for row in rows]

    def flush(self) -> None:
        """Write the salts drawn, inside the transaction."""
        for campaign in {campaign for campaign, _ in self._new}:
            lookups = [lookup for number, lookup in self._new if number == campaign]
            self.session.insert(PLAYERS, self.take_rows(campaign, lookups))


def damaged_salts(store: Store) -> Iterator[str]:
    """Return the lookups of salts whose rows were altered."""
    after: tuple[bytes, int] = (b"", -1)
    while True:  # in short transactions: a long one would keep SQLite from emptying its log
        with store.read() as session:
            where = "WHERE (lookup, campaign) > (?, ?) ORDER BY lookup, campaign LIMIT ?"
            rows = session.rows(f"{_COLUMNS.select} {where}", (*after, _PAGE))
        yield from (row[0].hex() for row in rows if _digest(*row[:3]) != row[3])
        if len(rows) < _PAGE:
            return
        after = rows[-1][:2]


def _salt_of(row: tuple[bytes, int, bytes, bytes]) -> bytes:
    if _digest(*row[:3]) != row[3]:
        raise Corrupt(f"The salt of player {row[0].hex()} is damaged. Restore a backup.")
    return row[2]


def _digest(lookup: bytes, campaign: int, salt: bytes) -> bytes:
    return digest(lookup, campaign.to_bytes(8), salt) if lookup else b""
