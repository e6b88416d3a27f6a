"""Offers: an arm and a price in one call."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from entice.api_types import OfferHistory, OfferView
from entice.service.domain.commands import MakeOffer, MakeOffers
from entice.service.http import examples
from entice.service.http.context import AppContext
from entice.service.http.operation import (
    Answered,
    Body,
    Call,
    Operation,
    Reply,
    carry_out,
)
from entice.service.http.read_threads import look_up

MOST_AT_ONCE = 1000

Player = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256,
        description="Your id of the player. Only a keyed hash of it is kept.",
    ),
]
Arms = Annotated[
    list[str],
    Meta(
        min_length=1,
        max_length=1000,
        description="The arms that may be offered to this player, such as those in stock.",
    ),
]
Displayed = Annotated[
    dict[str, float],
    Meta(
        max_length=1000,
        description="What the player sees of arms, in stars, where that is not their average.",
    ),
]


class OfferRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Whom to make an offer, and from what."""

    player: Player
    eligible: Arms | None = None
    displayed: Displayed | None = None


class BatchRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Several players at once."""

    requests: Annotated[list[OfferRequest], Meta(min_length=1, max_length=MOST_AT_ONCE)]


class BatchAnswer(msgspec.Struct):
    """One answer for each request, in their order."""

    offers: list[OfferView]


async def make_offer(context: AppContext, call: Call) -> Reply:
    """Make an offer.

    Decides which arm to offer to a player and what to pay for trying it, and reserves the
    money. While an offer to a player is open, asking again returns it. `amount` is 0 where the
    player's own choice is offered; `reason` says why.
    """
    asked, campaign = call.body, call.path["campaign"]
    player = context.players.hash(campaign, asked.player)
    return await carry_out(
        context, call, MakeOffer(campaign, player, asked.eligible, asked.displayed)
    )


async def make_offers(context: AppContext, call: Call) -> Reply:
    """Make several offers.

    Decides for up to 1,000 players in one transaction, each decision knowing of those before
    it. All are made, or none.
    """
    campaign, hashed = call.path["campaign"], context.players.hash
    requests = [
        MakeOffer(campaign, hashed(campaign, asked.player), asked.eligible, asked.displayed)
        for asked in call.body.requests
    ]
    return await carry_out(context, call, MakeOffers(campaign, requests))


async def read_offer(context: AppContext, call: Call) -> Reply:
    """Read an offer.

    The offer as it stands, all that has happened to it, and the arithmetic of its price.
    """
    return Reply(msgspec.json.encode(await look_up(context.queries.offer, call.path["offer"])))


OPERATIONS = (
    Operation(
        "POST",
        "/v1/campaigns/{campaign}/offers",
        make_offer,
        Answered(
            {
                201: "A new offer.",
                200: "The offer that the player has already.",
            },
            OfferView,
            {"exploring": examples.OFFER},
            names="offer",
        ),
        roles=frozenset({"decide"}),
        body=Body(
            OfferRequest,
            {
                "plain": {"player": "customer-4711"},
                "with a shelf": {
                    "player": "customer-4711",
                    "eligible": ["oolong", "sencha"],
                    "displayed": {"oolong": 4.6},
                },
            },
        ),
    ),
    Operation(
        "POST",
        "/v1/campaigns/{campaign}/offers/batch",
        make_offers,
        Answered({201: "The offers."}, BatchAnswer, {"one": {"offers": [examples.OFFER]}}),
        roles=frozenset({"decide"}),
        body=Body(
            BatchRequest,
            {"two players": {"requests": [{"player": "ann"}, {"player": "bob"}]}},
        ),
    ),
    Operation(
        "GET",
        "/v1/offers/{offer}",
        read_offer,
        Answered({200: "The offer."}, OfferHistory, {"accepted": examples.HISTORY}),
        roles=frozenset({"read", "decide"}),
    ),
)
