"""The record of an offer, and the interface of the repository that stores a campaign's offers."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple, Protocol

import msgspec

from entice.service.domain.events import Event

OFFERED, ACCEPTED, RATED, UNRATED = 0, 1, 2, 3
DECLINED, EXPIRED, VOIDED, REVERSED, SHADOW = 4, 5, 6, 7, 8
STATES = (
    "offered", "accepted", "rated", "unrated",
    "declined", "expired", "voided", "reversed", "shadow",
)  # fmt: skip
"""The names of the states, by number."""

NEVER = 2**62
"""`OfferRecord.due` of an offer that has no deadline."""


class OfferRecord(msgspec.Struct, array_like=True, gc=False):
    """The current state of an offer, as its row in the database stores it."""

    n: int
    """The number of the offer in its campaign, from 1."""
    player: bytes
    """A keyed hash of the player's id."""
    state: int
    due: int
    """The time at which the offer expires or, once accepted, its rating window ends."""
    cost: int
    """The amount taken from the budget: reserved while the offer is open, then the amount paid."""
    arm: int
    greedy: int
    payment: float
    """In stars."""
    amount: int
    """In minor units."""
    rating: int | None
    reason: str
    propensity: float
    probe: str | None
    probe_amount: float | None
    offered_at: int
    expires: int
    paid: int | None
    events: list[int]
    """The numbers of the offer's events, in order."""
    answered_in_shadow: bool = False
    """Whether the offer was made in shadow mode and then accepted or declined."""
    segment: int | None = None
    """The number of the player's segment, if the campaign has segments."""

    @property
    def shadow(self) -> bool:
        """Whether the offer was made in shadow mode and so pays nothing."""
        return self.state == SHADOW or self.answered_in_shadow

    def row(self) -> bytes:
        """Encode the record for the database.

        The last fields are omitted if they have their defaults, as in all rows written before they
        existed: a replay has to reproduce those byte for byte.
        """
        if self.segment is not None:
            return _encode(self)
        return _encode(msgspec.structs.astuple(self)[: -1 if self.answered_in_shadow else -2])


_encode = msgspec.msgpack.Encoder().encode
read_offer = msgspec.msgpack.Decoder(OfferRecord).decode
"""Decode the result of `OfferRecord.row`."""


def encoded_text(text: str) -> bytes:
    """Return how a row contains a text, such as a reason."""
    return _encode(text)


class CountedRating(NamedTuple):
    """A rating that counts in the averages, as a policy learns from it."""

    arm: str
    paid: float
    """In stars."""
    rating: int


class OfferRepository(Protocol):
    """The offers and the event log of one campaign."""

    def get(self, n: int) -> OfferRecord | None:
        """Return an offer by its number."""

    def put(self, offer: OfferRecord) -> None:
        """Save an offer that was made or changed."""

    def live(self, player: bytes) -> OfferRecord | None:
        """Return the open offer of a player."""

    def is_new(self, player: bytes) -> bool:
        """Return whether a player has had no offer yet.

        Called before each offer of a campaign with a holdout, and never otherwise.
        """

    def spent_on(self, player: bytes) -> int:
        """Return the total cost of a player's offers."""

    def open(self) -> list[OfferRecord]:
        """Return all open offers, oldest first."""

    def in_flight_offers(self) -> list[OfferRecord]:
        """Return all offers whose ratings may still arrive, oldest first."""

    def due(self, now: int, limit: int) -> list[OfferRecord]:
        """Return offers whose deadline has passed."""

    def counted_ratings(self) -> Iterator[CountedRating]:
        """Return all ratings that count, in the order in which they arrived."""

    def append_event(self, event: Event, body: bytes) -> None:
        """Append an event to the log."""


def digest(*parts: bytes) -> bytes:
    """Return the checksum of a row, which reveals damage when the row is read."""
    return blake2b(b"".join(parts), digest_size=8).digest()
