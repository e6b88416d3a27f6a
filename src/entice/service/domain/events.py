"""The log: what has happened to a campaign, each event chained to the one before by its hash."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

COINS: dict[str | None, int | None] = {"heads": 1, "tails": 0, None: None}
"""How the log's words for a coin are told to `entice.estimate`."""
GENESIS = bytes(32)
"""Stands for the hash before the first event."""


class _Event(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    campaign: str
    seq: int
    """1, 2, 3, … in each campaign, without a gap."""
    at: int
    """Microseconds since 1970; never less than before."""


class _AuthoredEvent(_Event, frozen=True, omit_defaults=True, kw_only=True):
    by: str | None = None
    """The id of the key that asked for it; None: without a key, or before this was recorded."""


class Created(_AuthoredEvent, frozen=True, tag="created"):
    """A campaign begins."""

    spec: dict[str, Any]
    entice: str
    """The version that wrote it."""
    rules: int = 1
    """The version of the rules that decisions follow."""


class Upgraded(_Event, frozen=True, tag="upgraded"):
    """Decisions follow a later version of the rules from here on."""

    rules: int


class Changed(_AuthoredEvent, frozen=True, tag="changed"):
    """Settings have changed; the configuration has another version from here on."""

    changes: dict[str, Any]


class ArmsAdded(_AuthoredEvent, frozen=True, tag="arms_added"):
    """Further arms have joined."""

    arms: tuple[str, ...]


class ArmRetired(_AuthoredEvent, frozen=True, tag="arm_retired"):
    """An arm is offered no more, or again."""

    arm: str
    retired: bool


class Offered(_Event, frozen=True, tag="offered", omit_defaults=True, gc=False):
    """A decision: everything that it rested on, and what came of it."""

    n: int
    """Which decision of the campaign; with the campaign's seed it gives the random numbers."""
    version: int
    """Of the configuration."""
    player: str
    arm: str
    greedy_arm: str
    payment: float
    """In stars, before rounding to money."""
    amount: int
    reason: str
    propensity: float
    """The probability with which this arm was chosen."""
    shown: tuple[float, ...]
    """What each arm displayed, in stars."""
    expires: int
    limit: int
    """The most that this offer could have cost."""
    eligible: tuple[str, ...] | None = None
    displayed: dict[str, float] | None = None
    estimated: bool = False
    """Whether the propensity was estimated, by drawing the decision again and again."""
    limited_by: str | None = None
    probe: str | None = None
    """How the coin fell, if one was thrown."""
    probe_amount: float | None = None
    shadow: bool = False


class _OfferEvent(_Event, frozen=True):
    n: int


class Accepted(_OfferEvent, frozen=True, tag="accepted"):
    """A player has taken an offer."""

    paid: int
    due: int
    """Until when the rating is awaited."""


class Declined(_OfferEvent, frozen=True, tag="declined"):
    """A player has not."""


class Expired(_OfferEvent, frozen=True, tag="expired"):
    """Nobody took an offer in time."""


class Voided(_OfferEvent, frozen=True, tag="voided"):
    """An offer was withdrawn, since its campaign was closed."""


class Rated(_OfferEvent, frozen=True, tag="rated", omit_defaults=True):
    """A rating has come: all that a policy, or an estimate of the drift, learns from it."""

    arm: str
    rating: int
    payment: float
    """What was paid for it, in stars."""
    probe: str | None = None
    """How the coin fell, unless less was paid than it said."""
    probe_amount: float | None = None


class Revised(_OfferEvent, frozen=True, tag="revised"):
    """A rating has changed."""

    arm: str
    rating: int
    before: int


class Unrated(_OfferEvent, frozen=True, tag="unrated"):
    """The rating is awaited no more."""


class Reversed(_OfferEvent, frozen=True, tag="reversed"):
    """A sale was undone, its payment and its rating with it."""

    paid: int


class OrganicRated(_Event, frozen=True, tag="organic"):
    """Somebody who was offered nothing has rated an arm."""

    arm: str
    rating: int


Event = (
    Created
    | Upgraded
    | Changed
    | ArmsAdded
    | ArmRetired
    | Offered
    | Accepted
    | Declined
    | Expired
    | Voided
    | Rated
    | Revised
    | Unrated
    | Reversed
    | OrganicRated
)

encode = msgspec.json.Encoder().encode
"""Write an event as the log keeps it."""
decode = msgspec.json.Decoder(Event).decode
"""Read one back."""


def chain_hash(before: bytes, body: bytes) -> bytes:
    """The hash of an event, which vouches for all events before it too."""
    return hashlib.sha256(before + body).digest()
