"""What the service tells of campaigns, arms, offers and events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from entice.service.campaign import Books, Campaign
from entice.service.offer import SHADOW, STATES, Offer

encode = msgspec.json.Encoder().encode


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(at: int) -> datetime:
    """A time of the service's clock; as JSON it takes the form of RFC 3339.

    >>> from entice.service.views import moment
    >>> moment(1_700_000_000_123_456).isoformat()
    '2023-11-14T22:13:20.123456+00:00'
    """
    return _EPOCH + timedelta(microseconds=at)


class OfferView(msgspec.Struct, frozen=True, gc=False):
    """An offer as it stands."""

    id: str
    campaign: str
    decision: int
    state: str
    arm: str
    greedy_arm: str
    """What the player would pick without a payment."""
    amount: int
    """What the player is offered for the arm, in minor units."""
    currency: str
    payment: float
    """The same in stars, before rounding."""
    would_pay: int | None
    """In shadow mode: what would have been offered."""
    reason: str
    propensity: float
    probe: str | None
    paid: int | None
    rating: int | None
    offered_at: datetime
    expires_at: datetime


class CampaignView(msgspec.Struct, frozen=True):
    """A campaign as it stands."""

    id: str
    name: str
    status: str
    currency: str
    budget: int
    reserved: int
    """For offers that are open."""
    committed: int
    """Paid."""
    free: int
    decisions: int
    ratings: int
    in_flight: int
    events: int
    """The number of the last event."""
    version: int
    """Of the configuration."""
    created_at: datetime
    changed_at: datetime
    spec: dict[str, Any]


class ArmView(msgspec.Struct, frozen=True):
    """An arm as it stands."""

    id: str
    retired: bool
    rated: int
    average: float | None
    """Of its ratings, in stars."""
    shown: float
    """What players see, in stars."""
    in_flight: int
    greedy: bool
    """Whether it is the one that a player would pick."""


class OfferHistory(msgspec.Struct, frozen=True):
    """An offer, how its price came about, and everything that happened to it."""

    offer: OfferView
    arithmetic: dict[str, Any]
    history: list[dict[str, Any]]


class EventView(msgspec.Struct, frozen=True):
    """An event of the log."""

    seq: int
    at: datetime
    hash: str
    body: msgspec.Raw
    """As it was written: the hash is that of the hash before and of these bytes."""


def offer_view(campaign: Campaign, offer: Offer) -> OfferView:
    """Tell of an offer."""
    books = campaign.books
    shadow = offer.state == SHADOW
    return OfferView(
        f"{books.campaign}.{offer.n}", books.campaign, offer.n, STATES[offer.state],
        books.arms[offer.arm], books.arms[offer.greedy],
        0 if shadow else offer.amount, campaign.spec.currency, offer.payment,
        offer.amount if shadow else None, offer.reason, offer.propensity, offer.probe,
        offer.paid, offer.rating, moment(offer.offered_at), moment(offer.expires),
    )  # fmt: skip


def campaign_view(books: Books) -> CampaignView:
    """Tell of a campaign."""
    return CampaignView(
        books.campaign, books.spec["name"], books.status, books.spec["currency"],
        books.budget, books.reserved, books.committed, books.free,
        books.decisions, sum(books.pulls), sum(books.in_flight), books.seq, books.version,
        moment(books.created), moment(books.at),
        {**books.spec, "arms": books.arms, "status": books.status},
    )  # fmt: skip


def arm_views(campaign: Campaign) -> list[ArmView]:
    """Tell of all arms of a campaign."""
    books, shown = campaign.books, campaign.displays()
    offered = [i for i, retired in enumerate(books.retired) if not retired]
    greedy = max(offered, key=lambda i: shown[i])
    return [
        ArmView(
            arm, books.retired[i], books.pulls[i], average, shown[i], books.in_flight[i],
            i == greedy,
        )
        for i, (arm, average) in enumerate(zip(books.arms, campaign.averages(), strict=True))
    ]  # fmt: skip
