"""Routes that accept, decline, rate and reverse offers, and that enter organic ratings."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response
from litestar.params import JSONBody
from msgspec import Meta

from entice.api_types import OfferView
from entice.service.domain.commands import Accept, Decline, EnterRatings, Organic, Rate, Reverse
from entice.service.domain.spec import MAX_MONEY
from entice.service.http import examples
from entice.service.http.offers import Segment
from entice.service.http.requests import (
    CampaignId,
    IdempotencyKey,
    OfferId,
    ServiceRequest,
    execute,
)
from entice.service.http.routes import FEEDBACK, Declare, route

MAX_BATCH = 1000

Rating = Annotated[
    float,  # many clients write every number as a float: 4.0 is 4
    Meta(
        ge=-1000,
        le=1_000_000,
        multiple_of=1,
        description="Whole number on the campaign's rating scale. 4.0 is accepted as 4.",
    ),
]


class AcceptRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The amount paid for an accepted offer."""

    amount: (
        Annotated[
            int,
            Meta(ge=0, le=MAX_MONEY, description="Amount paid, if less than the amount offered."),
        ]
        | None
    ) = None


class EmptyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object."""


class RatingRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A player's rating."""

    rating: Rating


class OrganicRating(msgspec.Struct, forbid_unknown_fields=True):
    """A rating by a player who had no offer."""

    arm: Annotated[str, Meta(min_length=1, max_length=64)]
    rating: Rating
    segment: Segment | None = None


class OrganicRatings(msgspec.Struct, forbid_unknown_fields=True):
    """Ratings by players who had no offer."""

    ratings: Annotated[list[OrganicRating], Meta(min_length=1, max_length=MAX_BATCH)]


class EnteredRatings(msgspec.Struct):
    """The number of ratings entered."""

    entered: int


def _offer_route(name: str, request: dict[str, Any], state: str) -> Declare:
    return route(
        "POST",
        f"/v1/offers/{{offer:str}}/{name}",
        roles=FEEDBACK,
        responses={200: "The offer."},
        examples={state: examples.offer(state)},
        request=request,
    )


@_offer_route("accept", {"in full": {}, "in part": {"amount": 40}}, "accepted")
async def accept_offer(
    request: ServiceRequest,
    offer: OfferId,
    data: JSONBody[AcceptRequest | None] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[OfferView]:
    """Accept an offer.

    Commits the payment. A repeated request returns the same response; a request that the offer's
    state does not allow is rejected (409).
    """
    amount = data.amount if data is not None else None
    return await execute(request, Accept(offer, amount), idempotency_key)


@_offer_route("decline", {"empty": {}}, "declined")
async def decline_offer(
    request: ServiceRequest,
    offer: OfferId,
    data: JSONBody[EmptyRequest | None] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[OfferView]:
    """Decline an offer.

    Releases the reserved payment. A repeated request returns the same response; a request that the
    offer's state does not allow is rejected (409).
    """
    return await execute(request, Decline(offer), idempotency_key)


@_offer_route("rating", {"five stars": {"rating": 5}}, "rated")
async def rate_offer(
    request: ServiceRequest,
    offer: OfferId,
    data: JSONBody[RatingRequest],
    idempotency_key: IdempotencyKey = None,
) -> Response[OfferView]:
    """Rate an accepted offer.

    A later rating replaces the earlier one. A repeated request returns the same response; a request
    that the offer's state does not allow is rejected (409).
    """
    return await execute(request, Rate(offer, int(data.rating)), idempotency_key)


@_offer_route("reverse", {"empty": {}}, "reversed")
async def reverse_offer(
    request: ServiceRequest,
    offer: OfferId,
    data: JSONBody[EmptyRequest | None] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[OfferView]:
    """Reverse an accepted offer.

    Returns the payment to the budget and removes the rating. A repeated request returns the same
    response; a request that the offer's state does not allow is rejected (409).
    """
    return await execute(request, Reverse(offer), idempotency_key)


@route(
    "POST",
    "/v1/campaigns/{campaign:str}/ratings",
    roles=FEEDBACK,
    responses={201: "The number of ratings entered."},
    examples={"two": {"entered": 2}},
    request={"two": {"ratings": [{"arm": "oolong", "rating": 4}, {"arm": "sencha", "rating": 5}]}},
)
async def enter_ratings(
    request: ServiceRequest,
    campaign: CampaignId,
    data: JSONBody[OrganicRatings],
    idempotency_key: IdempotencyKey = None,
) -> Response[EnteredRatings]:
    """Enter organic ratings.

    Enters up to 1,000 ratings by players who had no offer. Either all are entered or none. In a
    campaign with segments, each names its player's segment.
    """
    ratings = [Organic(one.arm, int(one.rating), one.segment) for one in data.ratings]
    return await execute(request, EnterRatings(campaign, ratings), idempotency_key)


ROUTES = (accept_offer, decline_offer, rate_offer, reverse_offer, enter_ratings)
