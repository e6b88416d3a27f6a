"""What the service tells of campaigns, arms, offers and events."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from entice.service.domain.campaign import Campaign, CampaignState
from entice.service.domain.explain import PriceCalculation
from entice.service.domain.offer import STATES, OfferRecord

encode = msgspec.json.Encoder().encode


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(at: int) -> datetime:
    """A time of the service's clock; as JSON it takes the form of RFC 3339.

    >>> from entice.service.domain.views import moment
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
    currency_digits: int
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
    currency_digits: int
    """How many decimals the currency has: amounts are whole numbers of its smallest unit."""
    budget: int
    reserved: int
    """For offers that are open."""
    committed: int
    """Paid."""
    free: int
    paced: int | None
    """What may be spent and reserved by the next offer, where `pace_over` spreads the budget."""
    decisions: int
    ratings: int
    in_flight: int
    """Offers whose ratings may still come."""
    share_who_rate: float | None
    """The share of accepted offers that are rated, by the age that offers have reached so far;
    null before the first offer."""
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
    low: float
    """What its average tends to lies between `low` and `high` in at least 95 of 100 cases."""
    high: float
    shown: float
    """What players see, in stars."""
    in_flight: int
    """Offers whose ratings may still come …"""
    expected: float
    """… and how many of those ratings are expected to come, given the offers' ages."""
    offered: int
    """Offers so far, without those declined, expired, or reversed before their rating. Counts from
    the upgrade on if the campaign is older than version 2 of the rules, with the offers in flight
    at that time."""
    overdue_first_rating: bool
    """Whether it has no rating although its offers should have brought at least three."""
    greedy: bool
    """Whether it is the one that a player would pick."""


class OfferHistory(msgspec.Struct, frozen=True):
    """An offer, how its price came about, and everything that happened to it."""

    offer: OfferView
    why: str
    """In plain words."""
    arithmetic: PriceCalculation
    history: list[dict[str, Any]]
    """Its events, each with its hash."""


class EventView(msgspec.Struct, frozen=True):
    """An event of the log."""

    seq: int
    at: datetime
    hash: str
    body: msgspec.Raw
    """As it was written: the hash is that of the hash before and of these bytes."""
    why: str | None
    """Of an offer, in plain words; null for other events."""


def offer_view(campaign: Campaign, offer: OfferRecord) -> OfferView:
    """Tell of an offer."""
    state, money = campaign.state, campaign.spec.money
    shadow = offer.shadow
    return OfferView(
        f"{state.campaign}.{offer.n}", state.campaign, offer.n, STATES[offer.state],
        state.arms[offer.arm], state.arms[offer.greedy],
        0 if shadow else offer.amount, money.code, money.digits, offer.payment,
        offer.amount if shadow else None, offer.reason, offer.propensity, offer.probe,
        offer.paid, offer.rating, moment(offer.offered_at), moment(offer.expires),
    )  # fmt: skip


def campaign_view(state: CampaignState) -> CampaignView:
    """Tell of a campaign."""
    money = state.money
    return CampaignView(
        state.campaign, state.spec["name"], state.status, money.code, money.digits,
        state.budget, state.reserved, state.committed, state.free, state.paced,
        state.decisions, sum(state.pulls), sum(state.in_flight), state.expectation.share,
        state.seq, state.version,
        moment(state.created), moment(state.at),
        {**state.spec, "arms": state.arms, "status": state.status},
    )  # fmt: skip


def arm_views(campaign: Campaign) -> list[ArmView]:
    """Tell of all arms of a campaign."""
    state, spec, shown = campaign.state, campaign.spec, campaign.displays()
    scale = spec.lowest_rating, spec.highest_rating
    offered = [i for i, retired in enumerate(state.retired) if not retired]
    greedy = max(offered, key=lambda i: shown[i])
    expected = campaign.expected()
    overdue = set(state.without_first_rating(expected))
    return [
        ArmView(
            arm, state.retired[i], state.pulls[i], average,
            *interval(state.totals[i], state.pulls[i], *scale),
            shown[i], state.in_flight[i], expected.ratings[i],
            state.offered[i] if state.offered else 0, i in overdue, i == greedy,
        )
        for i, (arm, average) in enumerate(zip(state.arms, campaign.averages(), strict=True))
    ]  # fmt: skip


def interval(total: int, ratings: int, lowest: int, highest: int) -> tuple[float, float]:
    """Say where a true average lies, from the sum of some ratings.

    Wilson's interval of a share: ratings spread out no more than if all were the lowest or the
    highest, so it is rather too wide than too narrow.

    >>> from entice.service.domain.views import interval
    >>> [round(end, 2) for end in interval(120, 30, 1, 5)], interval(0, 0, 1, 5)
    ([3.29, 4.48], (1.0, 5.0))
    """
    if ratings == 0:
        return float(lowest), float(highest)
    width = highest - lowest
    share = (total / ratings - lowest) / width
    pull = _REACH * _REACH / ratings
    middle = (share + pull / 2) / (1 + pull)
    reach = math.sqrt(pull * (share * (1 - share) + pull / 4)) / (1 + pull)
    return (
        lowest + width * max(0.0, middle - reach),
        lowest + width * min(1.0, middle + reach),
    )


_REACH = 1.96
"""Standard errors to each side, for 95 of 100 cases."""
