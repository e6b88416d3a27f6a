"""An offer as it stands: the row that its events add up to."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from entice.api_types import OfferState

OFFERED, ACCEPTED, RATED, UNRATED = 0, 1, 2, 3
DECLINED, EXPIRED, VOIDED, REVERSED, SHADOW = 4, 5, 6, 7, 8
STATES = tuple(state.value for state in OfferState)
"""The names of the states, by their numbers."""

NEVER = 2**62
"""When an offer is due that nothing is awaited of."""


class OfferRecord(msgspec.Struct, array_like=True, gc=False):
    """What is known of one offer."""

    n: int
    player: bytes
    state: int
    due: int
    """When it expires, or its rating is awaited no more."""
    cost: int
    """What it takes from the budget as it stands: reserved while offered, then what was paid."""
    arm: int
    greedy: int
    payment: float
    """In stars."""
    amount: int
    rating: int | None
    reason: str
    propensity: float
    probe: str | None
    probe_amount: float | None
    offered_at: int
    expires: int
    paid: int | None
    events: list[int]
    """The numbers of its events, in order."""
    answered_in_shadow: bool = False
    """Whether it was decided in shadow mode, and accepted or declined since."""

    @property
    def shadow(self) -> bool:
        """Whether it was decided in shadow mode: it pays nothing."""
        return self.state == SHADOW or self.answered_in_shadow

    def row(self) -> bytes:
        """Write it for the database.

        The last field is left out where it is False, as in all rows from before it was there:
        a replay has to find them byte for byte.
        """
        if self.answered_in_shadow:
            return _encode(self)
        return _encode(msgspec.structs.astuple(self)[:-1])


_encode = msgspec.msgpack.Encoder().encode
read_offer = msgspec.msgpack.Decoder(OfferRecord).decode
"""Read what `OfferRecord.row` wrote."""


def digest(*parts: bytes) -> bytes:
    """A checksum of what a row holds: a flipped bit is found when the row is read."""
    return blake2b(b"".join(parts), digest_size=8).digest()
