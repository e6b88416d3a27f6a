"""Views of campaigns, arms and offers, as the API returns them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import cast

import msgspec

from entice.api_types import (
    ArmView,
    CampaignStatus,
    CampaignView,
    OfferReason,
    OfferState,
    OfferView,
    ProbeSide,
    SegmentView,
)
from entice.service.domain.campaign import Campaign
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.offer import OfferRecord

encode = msgspec.json.Encoder().encode
_STATES = tuple(OfferState)
_Z = 1.96  # the normal distribution's 97.5 % quantile
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(at: int) -> datetime:
    """Return a time of the service's clock, in microseconds, as a datetime (RFC 3339 in JSON).

    >>> from entice.service.domain.views import to_datetime
    >>> to_datetime(1_700_000_000_123_456).isoformat()
    '2023-11-14T22:13:20.123456+00:00'
    """
    return _EPOCH + timedelta(microseconds=at)


def offer_view(campaign: Campaign, offer: OfferRecord) -> OfferView:
    """Return the view of an offer."""
    state, money = campaign.state, campaign.spec.money
    shadow = offer.shadow
    return OfferView(
        f"{state.campaign}.{offer.n}", state.campaign, offer.n, _STATES[offer.state],
        state.arms[offer.arm], state.arms[offer.greedy],
        0 if shadow else offer.amount, money.code, money.digits, offer.payment,
        offer.amount if shadow else None, cast(OfferReason, offer.reason), offer.propensity,
        cast(ProbeSide | None, offer.probe),
        offer.paid, offer.rating, to_datetime(offer.offered_at), to_datetime(offer.expires),
        campaign.spec.disclosure if offer.amount and not shadow else None,
        None if offer.segment is None else campaign.spec.segments[offer.segment],
    )  # fmt: skip


def campaign_view(state: CampaignState, segments: list[SegmentView] | None = None) -> CampaignView:
    """Return the view of a campaign, with the views of its segments."""
    money = state.money
    return CampaignView(
        state.campaign, state.spec["name"], cast(CampaignStatus, state.status),
        money.code, money.digits,
        state.budget, state.reserved, state.committed, state.free, state.paced,
        state.decisions, sum(state.pulls), sum(state.in_flight), state.expectation.share,
        state.seq, state.version,
        to_datetime(state.created), to_datetime(state.at),
        {**state.spec, "arms": state.arms, "status": state.status}, segments or [],
        sum(state.retired),
    )  # fmt: skip


def arm_views(campaign: Campaign) -> list[ArmView]:
    """Return the views of all arms of a campaign."""
    state, spec, shown = campaign.state, campaign.spec, campaign.displayed_stars()
    scale = spec.lowest_rating, spec.highest_rating
    offered = [i for i, retired in enumerate(state.retired) if not retired]
    greedy = max(offered, key=lambda i: shown[i])
    expected = campaign.expected()
    overdue = set(state.without_first_rating(expected))
    return [
        ArmView(
            arm, state.retired[i], state.pulls[i], average,
            *wilson_interval(state.totals[i], state.pulls[i], *scale),
            shown[i], state.in_flight[i], expected.ratings[i],
            state.offered[i] if state.offered else 0, i in overdue, i == greedy,
        )
        for i, (arm, average) in enumerate(zip(state.arms, campaign.averages(), strict=True))
    ]  # fmt: skip


def wilson_interval(total: int, ratings: int, lowest: int, highest: int) -> tuple[float, float]:
    """Return a 95 % confidence interval of an arm's average, from the sum of its ratings.

    This is Wilson's interval of a proportion. It is conservative: ratings vary at most as much as
    if each were the lowest or the highest.

    >>> from entice.service.domain.views import wilson_interval
    >>> [round(end, 2) for end in wilson_interval(120, 30, 1, 5)], wilson_interval(0, 0, 1, 5)
    ([3.29, 4.48], (1.0, 5.0))
    """
    if ratings == 0:
        return float(lowest), float(highest)
    width = highest - lowest
    share = (total / ratings - lowest) / width
    shrinkage = _Z * _Z / ratings
    middle = (share + shrinkage / 2) / (1 + shrinkage)
    half_width = math.sqrt(shrinkage * (share * (1 - share) + shrinkage / 4)) / (1 + shrinkage)
    return (
        lowest + width * max(0.0, middle - half_width),
        lowest + width * min(1.0, middle + half_width),
    )
