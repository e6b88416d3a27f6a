"""Campaigns and their arms."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from entice.api_types import ArmView, CampaignView, SpendingView
from entice.money import MAX_DIGITS
from entice.policies import UCB
from entice.service.domain.commands import AddArms, ChangeCampaign, CreateCampaign, RetireArm
from entice.service.domain.spec import MAX_ARMS, MAX_MONEY, CampaignSpec, ServedPolicy, Status
from entice.service.http import examples
from entice.service.http.authentication import READERS, unbound
from entice.service.http.context import AppContext
from entice.service.http.events import whole
from entice.service.http.operation import (
    Answered,
    Body,
    Call,
    Operation,
    Query,
    Reply,
    carry_out,
    not_too_deep,
)
from entice.service.http.read_threads import look_up, look_up_slowly
from entice.service.storage.spending import MAX_POINTS, By

Money = Annotated[int, Meta(ge=0, le=MAX_MONEY)]
Digits = Annotated[int, Meta(ge=0, le=MAX_DIGITS)]
ArmId = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9._~-]{1,64}$",
        extra_json_schema={"not": {"enum": [".", ".."]}},
    ),
]
_EACH_ONCE = Meta(extra_json_schema={"uniqueItems": True})
Name = Annotated[str, Meta(min_length=1, max_length=200)]


Stars = Annotated[float, Meta(gt=0)]


class ProbeTable(msgspec.Struct, forbid_unknown_fields=True):
    """How drift is probed."""

    share: Annotated[float, Meta(gt=0, le=1)] = 0.05
    amount: Stars | Annotated[list[Stars], Meta(min_length=1)] = 0.3


class CampaignRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A campaign: what is offered, how it is explored, and what that may cost.

    Only name, arms, budget and price_of_a_star must be given. Money is in whole minor units. A
    currency that is not in ISO 4217 needs `currency_digits`, the number of its decimals.
    """

    name: Name
    arms: Annotated[list[ArmId], Meta(min_length=2, max_length=MAX_ARMS), _EACH_ONCE]
    policy: ServedPolicy = UCB()
    lowest_rating: Annotated[int, Meta(ge=-1000, le=1000)] = 1
    highest_rating: Annotated[int, Meta(le=1_000_000)] = 5
    policy_sees: Literal["stars", "zero_to_one"] = "stars"
    unrated_shows: float | None = None
    budget: Money
    currency: Annotated[str, Meta(pattern="^[A-Z]{3,12}$")] = "EUR"
    currency_digits: Digits | None = None
    price_of_a_star: Annotated[int, Meta(ge=1, le=10**12)]
    margin: Annotated[int, Meta(ge=0, le=10**12)] = 0
    cap_per_offer: Money | None = None
    cap_per_player: Money | None = None
    pace_over: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    probe: ProbeTable | None = None
    offer_expires_after: Annotated[int, Meta(ge=1, le=366 * 24 * 3600)] = 900
    rating_window: Annotated[int, Meta(ge=1, le=3660 * 24 * 3600)] = 30 * 24 * 3600
    late_ratings: bool = True
    status: Literal["live", "paused", "shadow"] = "live"
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None


class CampaignChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to change. What is left out stays as it is; null lifts a limit."""

    name: Name | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    budget: Money | UnsetType = UNSET
    cap_per_offer: Money | UnsetType | None = UNSET
    cap_per_player: Money | UnsetType | None = UNSET
    pace_over: Annotated[int, Meta(ge=1, le=10**12)] | UnsetType | None = UNSET


class NewArms(msgspec.Struct, forbid_unknown_fields=True):
    """Arms that join."""

    arms: Annotated[list[ArmId], Meta(min_length=1, max_length=MAX_ARMS), _EACH_ONCE]


class ArmChange(msgspec.Struct, forbid_unknown_fields=True):
    """Whether an arm is offered."""

    retired: bool


async def create(context: AppContext, call: Call) -> Reply:
    """Begin a campaign.

    Opens the books of a campaign. Needs a key for all campaigns.
    """
    unbound(call.caller)
    not_too_deep(call.body)
    spec = CampaignSpec.from_plain(call.body).with_currency_digits()
    return await carry_out(context, call, CreateCampaign(spec, call.key))


async def read_all(context: AppContext, call: Call) -> Reply:
    """Read all campaigns.

    All campaigns that the key opens, the oldest first.
    """
    only = call.caller.campaign
    if only is not None:
        found = [await look_up(context.queries.campaign, only)]
    else:
        found = await look_up(context.queries.campaigns)
    return Reply(msgspec.json.encode(found))


async def read_one(context: AppContext, call: Call) -> Reply:
    """Read a campaign.

    Its money, its counts and its settings as they are by now.
    """
    return Reply(
        msgspec.json.encode(await look_up(context.queries.campaign, call.path["campaign"]))
    )


async def change(context: AppContext, call: Call) -> Reply:
    """Change a campaign.

    Changes status, budget, caps, pace or name, for all decisions from here on. A budget below
    what is spent and reserved is refused with 409. `closed` voids all open offers and is final.
    """
    asked = {name: getattr(call.body, name) for name in call.body.__struct_fields__}
    command = ChangeCampaign(campaign=call.path["campaign"], by=call.key, **asked)
    return await carry_out(context, call, command)


async def add_arms(context: AppContext, call: Call) -> Reply:
    """Add arms.

    Lets further arms join. Those that are there already stay as they are.
    """
    command = AddArms(call.path["campaign"], call.body.arms, call.key)
    return await carry_out(context, call, command)


async def change_arm(context: AppContext, call: Call) -> Reply:
    """Retire an arm.

    Offers an arm no more, or again. Its ratings stay. The last arm can't be retired (409).
    """
    command = RetireArm(call.path["campaign"], call.path["arm"], call.body.retired, call.key)
    return await carry_out(context, call, command)


async def read_arms(context: AppContext, call: Call) -> Reply:
    """Read the arms.

    Averages, counts, and how many ratings are still to come.
    """
    return Reply(msgspec.json.encode(await look_up(context.queries.arms, call.path["campaign"])))


async def read_spending(context: AppContext, call: Call) -> Reply:
    """Read how the spending grew.

    What was committed, reserved and allowed over the campaign's whole history, by date or by number
    of offers, in so many points at most. Each point is exact. A long log is read in parts, one for
    each request: while `through` is less than `events`, ask again for the rest.
    """
    given = call.path["campaign"], call.query["by"], call.query["points"]
    return Reply(msgspec.json.encode(await look_up_slowly(context.queries.spending, *given)))


def _by(given: str) -> str:
    if given not in get_args(By):
        raise ValueError(" or ".join(get_args(By)))
    return given


OPERATIONS = (
    Operation(
        "POST",
        "/v1/campaigns",
        create,
        Answered(
            {201: "The campaign."}, CampaignView, {"new": examples.CAMPAIGN}, names="campaign"
        ),
        body=Body(dict[str, Any], {"teas": examples.SPEC}, schema=CampaignRequest),
    ),
    Operation(
        "GET",
        "/v1/campaigns",
        read_all,
        Answered({200: "The campaigns."}, list[CampaignView], {"one": [examples.CAMPAIGN]}),
        roles=READERS,
    ),
    Operation(
        "GET",
        "/v1/campaigns/{campaign}",
        read_one,
        Answered({200: "The campaign."}, CampaignView, {"live": examples.CAMPAIGN}),
        roles=READERS,
    ),
    Operation(
        "PATCH",
        "/v1/campaigns/{campaign}",
        change,
        Answered({200: "The campaign."}, CampaignView, {"live": examples.CAMPAIGN}),
        body=Body(
            CampaignChange,
            {
                "stop paying": {"status": "paused"},
                "more money": {"budget": 75_000},
                "no cap": {"cap_per_offer": None},
            },
        ),
    ),
    Operation(
        "POST",
        "/v1/campaigns/{campaign}/arms",
        add_arms,
        Answered({201: "All arms."}, list[ArmView], {"one of them": [examples.ARM]}),
        body=Body(NewArms, {"two": {"arms": ["gyokuro", "hojicha"]}}),
    ),
    Operation(
        "PATCH",
        "/v1/campaigns/{campaign}/arms/{arm}",
        change_arm,
        Answered({200: "The arm."}, ArmView, {"retired": {**examples.ARM, "retired": True}}),
        body=Body(ArmChange, {"retire": {"retired": True}}),
    ),
    Operation(
        "GET",
        "/v1/campaigns/{campaign}/arms",
        read_arms,
        Answered({200: "All arms."}, list[ArmView], {"one of them": [examples.ARM]}),
        roles=READERS,
    ),
    Operation(
        "GET",
        "/v1/campaigns/{campaign}/spending",
        read_spending,
        Answered({200: "The history."}, SpendingView, {"three points": examples.SPENDING}),
        roles=READERS,
        query=(
            Query(
                "by",
                "What the points are spread over: time, or offers.",
                {"type": "string", "enum": list(get_args(By)), "default": "date"},
                _by,
                "date",
            ),
            Query(
                "points",
                "How many points at most.",
                {"type": "integer", "minimum": 2, "maximum": MAX_POINTS, "default": 200},
                lambda text: whole(text, 2, MAX_POINTS),
                200,
            ),
        ),
    ),
)
