"""Routes that make offers and read them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import msgspec
from litestar import Response
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta

from entice.api_types import OfferHistory, OfferPage, OfferReason, OfferState, OfferView
from entice.service.domain.commands import MakeOffer, MakeOffers
from entice.service.http import examples
from entice.service.http.requests import (
    CampaignId,
    IdempotencyKey,
    OfferId,
    ServiceRequest,
    Since,
    Until,
    execute,
    read_period,
)
from entice.service.http.routes import DECIDE, READ, route
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.queries import Queries

MAX_BATCH = 1000
HASHED_AT_ONCE = 250
"""Number of players of a batch whose ids are hashed before other requests get a turn: 0.3 ms."""
MAX_PAGE = 1000

Player = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256,
        description="Your id for the player. The service stores only a keyed hash of it.",
    ),
]
Arms = Annotated[
    list[str],
    Meta(
        min_length=1,
        max_length=1000,
        description="Arms that may be offered to this player, such as those in stock. Default: "
        "all arms.",
    ),
]
Displayed = Annotated[
    dict[str, float],
    Meta(
        max_length=1000,
        description="Values displayed to this player, in stars, for arms that do not display "
        "their average.",
    ),
]


Segment = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="Segment of this player. Required if the campaign has segments.",
    ),
]


class OfferRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A player, and the arms to choose from."""

    player: Player
    eligible: Arms | None = None
    displayed: Displayed | None = None
    segment: Segment | None = None


class BatchRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Requests for offers to several players."""

    requests: Annotated[list[OfferRequest], Meta(min_length=1, max_length=MAX_BATCH)]


class OfferBatch(msgspec.Struct):
    """One offer for each request, in the same order."""

    offers: list[OfferView]


@route(
    "POST",
    "/v1/campaigns/{campaign:str}/offers",
    roles=DECIDE,
    responses={201: "The new offer.", 200: "The player's open offer."},
    examples={"explore": examples.OFFER},
    request={
        "any arm": {"player": "player-4711"},
        "some arms": {
            "player": "player-4711",
            "eligible": ["oolong", "sencha"],
            "displayed": {"oolong": 4.6},
        },
        "in a campaign with segments": {"player": "player-4711", "segment": "regular"},
    },
    id_of="offer",
)
async def make_offer(
    request: ServiceRequest,
    campaign: CampaignId,
    data: JSONBody[OfferRequest],
    idempotency_key: IdempotencyKey = None,
) -> Response[OfferView]:
    """Make an offer.

    Chooses an arm for a player and the payment for choosing it, and reserves the payment in the
    budget. While a player has an open offer, the request returns that offer. `amount` is 0 if the
    arm is the player's own choice, unless the probe adds a payment. `reason` says why.
    """
    command = _command(request.context.players, campaign, data)
    return await execute(request, command, idempotency_key)


@route(
    "POST",
    "/v1/campaigns/{campaign:str}/offers/batch",
    roles=DECIDE,
    responses={201: "The offers."},
    examples={"one": {"offers": [examples.OFFER]}},
    request={"two players": {"requests": [{"player": "ann"}, {"player": "bob"}]}},
)
async def make_offers(
    request: ServiceRequest,
    campaign: CampaignId,
    data: JSONBody[BatchRequest],
    idempotency_key: IdempotencyKey = None,
) -> Response[OfferBatch]:
    """Make several offers.

    Decides for up to 1,000 players. Each decision takes the earlier ones into account. If a request
    is invalid, no offer is made. If the service or its database fails before the response, some
    offers may have been made: repeat the request, which returns them and makes the others.
    """
    commands: list[MakeOffer] = []
    for first in range(0, len(data.requests), HASHED_AT_ONCE):
        some = data.requests[first : first + HASHED_AT_ONCE]
        commands += [_command(request.context.players, campaign, one) for one in some]
        await asyncio.sleep(0)
    return await execute(request, MakeOffers(campaign, commands), idempotency_key)


def _command(players: PlayerHasher, campaign: str, request: OfferRequest) -> MakeOffer:
    player = players.hash(campaign, request.player)
    lookup = players.lookup(campaign, request.player)
    shown, segment = request.displayed, request.segment
    return MakeOffer(campaign, player, request.eligible, shown, lookup, segment)


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/offers",
    roles=READ,
    responses={200: "A page of offers."},
    examples={"one": {"offers": [examples.OFFER], "next": 312}},
)
async def list_offers(
    request: ServiceRequest,
    campaign: CampaignId,
    offer_state: Annotated[  # Litestar reserves the name `state`
        OfferState | None,
        QueryParameter(name="state", description="Return offers in this state only."),
    ] = None,
    reason: Annotated[
        OfferReason | None, QueryParameter(description="Return offers with this reason only.")
    ] = None,
    arm: Annotated[
        str | None,
        QueryParameter(min_length=1, max_length=64, description="Return offers of this arm only."),
    ] = None,
    player: Annotated[
        str | None,
        QueryParameter(
            min_length=1,
            max_length=256,
            description="Your id for a player: return offers to this player only.",
        ),
    ] = None,
    payment: Annotated[
        Literal["paid", "unpaid"] | None,
        QueryParameter(
            description="Return only offers with a payment, whether accepted or not, or only those "
            "without."
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    before: Annotated[
        int | None,
        QueryParameter(ge=1, le=2**53 - 1, description="Return offers with lower numbers only."),
    ] = None,
    limit: Annotated[
        int, QueryParameter(ge=1, le=MAX_PAGE, description="Maximum number of offers.")
    ] = 100,
) -> Response[OfferPage]:
    """List the offers of a campaign.

    Returns offers, newest first. One request searches at most 100,000 offers, 10,000 if it filters
    by `arm` or `payment`, so a page of a filtered list may have fewer than `limit` offers, or none.
    To continue, pass `next` as `before` until it is null.
    """
    hashed = None
    if player is not None:
        players = request.context.players
        hashed = players.hash(campaign, player), players.lookup(campaign, player)
    period = read_period(since, until)
    paid = None if payment is None else payment == "paid"
    arguments = (campaign, before, limit, offer_state, reason, arm, hashed, period, paid)
    return await request.respond_with(Queries.offers, *arguments, slow=True)


@route(
    "GET",
    "/v1/offers/{offer:str}",
    roles=READ | DECIDE,
    responses={200: "The offer."},
    examples={"accepted": examples.HISTORY},
)
async def get_offer(request: ServiceRequest, offer: OfferId) -> Response[OfferHistory]:
    """Retrieve an offer.

    Returns the offer, its events, and the calculation of its amount.
    """
    return await request.respond_with(Queries.offer, offer)


ROUTES = (make_offer, make_offers, list_offers, get_offer)
