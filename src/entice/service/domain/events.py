"""The event log of a campaign: each event is chained to the previous one by its hash."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

COINS: dict[str | None, int | None] = {"heads": 1, "tails": 0, None: None}
"""The sides of the probe's coin in the log, and their values in `entice.estimate`."""
GENESIS = bytes(32)
"""The hash that precedes the first event."""


class _Event(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    campaign: str
    seq: int
    """1, 2, 3, … in each campaign, without gaps."""
    at: int
    """Microseconds since 1970; never decreasing within a campaign."""


class _AuthoredEvent(_Event, frozen=True, omit_defaults=True, kw_only=True):
    by: str | None = None
    """The id of the API key that requested the change; None without a key, and in older logs."""


class Created(_AuthoredEvent, frozen=True, tag="created"):
    """A campaign was created."""

    spec: dict[str, Any]
    entice: str
    """The version of Entice that created it."""
    rules: int = 1
    """The version of the rules that decisions follow."""
    plan: dict[str, Any] | None = None
    """The forecast that the campaign was created from."""


class Upgraded(_Event, frozen=True, tag="upgraded"):
    """The campaign was upgraded to a later version of the rules."""

    rules: int


class Changed(_AuthoredEvent, frozen=True, tag="changed"):
    """Settings were changed; the version of the settings increases by 1."""

    changes: dict[str, Any]


class ArmsAdded(_AuthoredEvent, frozen=True, tag="arms_added"):
    """Arms were added."""

    arms: tuple[str, ...]


class ArmRetired(_AuthoredEvent, frozen=True, tag="arm_retired"):
    """An arm was retired, or reactivated."""

    arm: str
    retired: bool


class PlayerErased(_AuthoredEvent, frozen=True, tag="player_erased"):
    """The salt of a player was deleted: no id can be linked to this hash any more."""

    player: str


class Offered(_Event, frozen=True, tag="offered", omit_defaults=True, gc=False):
    """An offer was made: the decision and its inputs."""

    n: int
    """The number of the decision; it selects the random stream, together with the seed."""
    version: int
    """The version of the settings."""
    player: str
    arm: str
    greedy_arm: str
    payment: float
    """In stars, before rounding to minor units."""
    amount: int
    reason: str
    propensity: float
    """Probability with which this arm was offered, given the player's group; 1 in the holdout."""
    shown: tuple[float, ...]
    """The rating displayed by each arm, in stars."""
    expires: int
    limit: int
    """The most that the offer could have cost."""
    eligible: tuple[str, ...] | None = None
    displayed: dict[str, float] | None = None
    estimated: bool = False
    """Whether the propensity was estimated, by repeating the decision."""
    limited_by: str | None = None
    probe: str | None = None
    """The side of the probe's coin, if one was flipped."""
    probe_amount: float | None = None
    shadow: bool = False
    gap: float | None = None
    """The displayed gap in stars, if the payment may differ from it: if an equal-pay policy pays,
    which pays at least the gap, or if the price is learned, which pays at most the gap."""
    propensities: tuple[float, ...] | None = None
    """The probability of each arm, 0 for those that could not be offered; only with overlap."""
    counts: tuple[float, ...] | None = None
    """The ratings of each arm, with those expected from offers in flight; only with overlap."""
    averages: tuple[float, ...] | None = None
    """The average rating of each arm, in stars, if it differs from `shown`; only with overlap."""
    group: str | None = None
    """The player's group, `paid` or `holdout`, if the campaign has a holdout."""
    segment: str | None = None
    """The player's segment, if the campaign has segments. `shown`, `averages` and `counts` are then
    those of the segment."""
    learned_price: float | None = None
    """The cheapest price that the wanted share of players accepts, in stars; None without a learned
    price, and while there are too few answers."""
    price_propensity: float | None = None
    """The probability of the payment, given the arm, if the price is learned."""
    price_explored: bool = False
    """Whether the payment was drawn at random, to learn how many players accept it."""


class _OfferEvent(_Event, frozen=True):
    n: int


class Accepted(_OfferEvent, frozen=True, tag="accepted"):
    """An offer was accepted."""

    paid: int
    due: int
    """The end of the rating window."""


class Declined(_OfferEvent, frozen=True, tag="declined"):
    """An offer was declined."""


class Expired(_OfferEvent, frozen=True, tag="expired"):
    """An offer expired."""


class Voided(_OfferEvent, frozen=True, tag="voided"):
    """An open offer was withdrawn: its campaign was closed, or its player erased."""


class Rated(_OfferEvent, frozen=True, tag="rated", omit_defaults=True):
    """An offer was rated. The event holds everything that policies and drift estimates need."""

    arm: str
    rating: int
    payment: float
    """The payment in stars."""
    probe: str | None = None
    """The side of the probe's coin; None if the coin did not determine the payment."""
    probe_amount: float | None = None
    in_averages: bool = True
    """Whether the rating counts in the averages, and not in the totals of the holdout alone."""


class Revised(_OfferEvent, frozen=True, tag="revised", omit_defaults=True):
    """A rating was changed."""

    arm: str
    rating: int
    before: int
    in_averages: bool = True


class Unrated(_OfferEvent, frozen=True, tag="unrated"):
    """The rating window ended without a rating."""


class Reversed(_OfferEvent, frozen=True, tag="reversed"):
    """A sale was reversed, with its payment and its rating."""

    paid: int


class OrganicRated(_Event, frozen=True, tag="organic", omit_defaults=True):
    """An arm was rated by someone who received no offer."""

    arm: str
    rating: int
    segment: str | None = None


Event = (
    Created
    | Upgraded
    | Changed
    | ArmsAdded
    | ArmRetired
    | PlayerErased
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
"""Encode an event as the log stores it."""
decode = msgspec.json.Decoder(Event).decode
"""Decode an event."""


def chain_hash(before: bytes, body: bytes) -> bytes:
    """Return the hash of an event, which also covers all events before it."""
    return hashlib.sha256(before + body).digest()
