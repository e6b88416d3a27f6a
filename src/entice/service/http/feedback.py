"""What becomes of offers: taken or not, rated, undone; and ratings that nobody paid for."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from entice.api_types import OfferView
from entice.service.domain.commands import Accept, Decline, EnterRatings, Organic, Rate, Reverse
from entice.service.domain.spec import MAX_MONEY
from entice.service.http import examples
from entice.service.http.context import AppContext
from entice.service.http.operation import Answered, Body, Call, Operation, Reply, Work, carry_out

MOST_AT_ONCE = 1000

Rating = Annotated[
    float,  # many clients write every number as a float: 4.0 is 4
    Meta(
        ge=-1000,
        le=1_000_000,
        multiple_of=1,
        description="A whole number on the campaign's grid; 4.0 is 4.",
    ),
]


class AcceptRequest(msgspec.Struct, forbid_unknown_fields=True):
    """That the player takes the offer."""

    amount: (
        Annotated[
            int,
            Meta(ge=0, le=MAX_MONEY, description="What was paid, if less than was offered."),
        ]
        | None
    ) = None


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing needs to be said."""


class RatingRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How the player rates what was bought."""

    rating: Rating


class OrganicRating(msgspec.Struct, forbid_unknown_fields=True):
    """A rating by somebody who was offered nothing."""

    arm: Annotated[str, Meta(min_length=1, max_length=64)]
    rating: Rating


class OrganicRatings(msgspec.Struct, forbid_unknown_fields=True):
    """Ratings by people who were offered nothing."""

    ratings: Annotated[list[OrganicRating], Meta(min_length=1, max_length=MOST_AT_ONCE)]


class Entered(msgspec.Struct):
    """How many ratings were entered."""

    entered: int


async def accept(context: AppContext, call: Call) -> Reply:
    """Accept an offer.

    The player takes the offer: its money is committed. Doing it again changes nothing and is
    answered alike; what the offer's state rules out is refused with 409.
    """
    return await carry_out(context, call, Accept(call.path["offer"], call.body.amount))


async def decline(context: AppContext, call: Call) -> Reply:
    """Decline an offer.

    The player does not take the offer: its money is free again. Doing it again changes nothing
    and is answered alike; what the offer's state rules out is refused with 409.
    """
    return await carry_out(context, call, Decline(call.path["offer"]))


async def rate(context: AppContext, call: Call) -> Reply:
    """Rate an accepted offer.

    Enters the player's rating. Another rating later takes the place of the first. Doing it
    again changes nothing and is answered alike; what the offer's state rules out is refused
    with 409.
    """
    return await carry_out(context, call, Rate(call.path["offer"], int(call.body.rating)))


async def reverse(context: AppContext, call: Call) -> Reply:
    """Undo an accepted offer.

    The sale is undone: its money is free again, its rating counts no more. Doing it again
    changes nothing and is answered alike; what the offer's state rules out is refused with 409.
    """
    return await carry_out(context, call, Reverse(call.path["offer"]))


async def enter_ratings(context: AppContext, call: Call) -> Reply:
    """Enter organic ratings.

    Enters up to 1,000 ratings by people who were offered nothing. All are entered, or none.
    """
    ratings = [Organic(given.arm, int(given.rating)) for given in call.body.ratings]
    return await carry_out(context, call, EnterRatings(call.path["campaign"], ratings))


def _of_offer(name: str, work: Work, body: Body, state: str) -> Operation:
    return Operation(
        "POST",
        f"/v1/offers/{{offer}}/{name}",
        work,
        Answered({200: "The offer by now."}, OfferView, {state: examples.offer(state)}),
        roles=frozenset({"feedback"}),
        body=body,
    )


_ACCEPT = Body(AcceptRequest, {"all of it": {}, "less": {"amount": 40}}, required=False)
_RATING = Body(RatingRequest, {"five stars": {"rating": 5}})
NOTHING = Body(Nothing, {"nothing": {}}, required=False)

OPERATIONS = (
    _of_offer("accept", accept, _ACCEPT, "accepted"),
    _of_offer("decline", decline, NOTHING, "declined"),
    _of_offer("rating", rate, _RATING, "rated"),
    _of_offer("reverse", reverse, NOTHING, "reversed"),
    Operation(
        "POST",
        "/v1/campaigns/{campaign}/ratings",
        enter_ratings,
        Answered({201: "They are entered."}, Entered, {"two": {"entered": 2}}),
        roles=frozenset({"feedback"}),
        body=Body(
            OrganicRatings,
            {"two": {"ratings": [{"arm": "oolong", "rating": 4}, {"arm": "sencha", "rating": 5}]}},
        ),
    ),
)
