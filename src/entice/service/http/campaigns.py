"""Routes of campaigns and their arms."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlencode

import msgspec
from litestar import Response
from litestar.params import JSONBody, QueryParameter
from msgspec import UNSET, Meta, UnsetType

from entice.api_types import (
    ArmView,
    CampaignPlanView,
    CampaignStatus,
    CampaignView,
    CampaignWithAlerts,
    SettingsHistory,
    SpendingView,
)
from entice.errors import InputError
from entice.service.domain.changes import FIXED_SETTINGS
from entice.service.domain.commands import AddArms, ChangeCampaign, CreateCampaign, RetireArm
from entice.service.domain.spec import (
    MAX_ARMS,
    MAX_NEW_SEED,
    ArmName,
    CampaignSpec,
    Money,
    Name,
    Share,
    UniqueItems,
)
from entice.service.http import examples
from entice.service.http.authentication import require_all_campaigns
from entice.service.http.requests import (
    ArmId,
    CampaignId,
    IdempotencyKey,
    ServiceRequest,
    Since,
    Until,
    execute,
    read_period,
)
from entice.service.http.routes import ADMIN_ONLY, READ, route
from entice.service.operations.campaign_list import Sort
from entice.service.operations.service_queries import ServiceQueries
from entice.service.storage.queries import Queries
from entice.service.storage.spending import MAX_POINTS

MAX_PAGE = 1000


class CampaignChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Settings to change. Omitted settings stay as they are; null removes a limit."""

    fixed_settings: ClassVar = FIXED_SETTINGS
    """Rejected with the reason (409)."""
    name: Name | UnsetType = UNSET
    status: CampaignStatus | UnsetType = UNSET
    budget: Money | UnsetType = UNSET
    cap_per_offer: Money | UnsetType | None = UNSET
    cap_per_player: Money | UnsetType | None = UNSET
    pace_over: Annotated[int, Meta(ge=1, le=10**12)] | UnsetType | None = UNSET
    overlap: Share | UnsetType | None = UNSET
    holdout: Share | UnsetType = UNSET
    """Cannot be changed: another value than the current one is rejected (409)."""
    holdout_feeds_averages: bool | UnsetType = UNSET
    """Cannot be changed: another value than the current one is rejected (409)."""


class NewArms(msgspec.Struct, forbid_unknown_fields=True):
    """Arms to add."""

    arms: Annotated[list[ArmName], Meta(min_length=1, max_length=MAX_ARMS), UniqueItems]


class ArmChange(msgspec.Struct, forbid_unknown_fields=True):
    """The change of an arm: whether it is retired."""

    retired: bool


@route(
    "POST",
    "/v1/campaigns",
    roles=ADMIN_ONLY,
    responses={201: "The campaign."},
    examples={"new": examples.CAMPAIGN},
    request={"teas": examples.SPEC},
    body=CampaignSpec,
    id_of="campaign",
)
async def create_campaign(
    request: ServiceRequest, data: JSONBody[dict[str, Any]], idempotency_key: IdempotencyKey = None
) -> Response[CampaignView]:
    """Create a campaign.

    Requires `name`, `arms`, `budget` and `price_of_a_star`. A currency that is not in ISO 4217
    requires `currency_digits`. The key must not be limited to one campaign.
    """
    require_all_campaigns(request.auth)
    spec = CampaignSpec.from_plain(data).with_currency_digits()
    if spec.seed is not None and spec.seed > MAX_NEW_SEED:
        rule = f"must be at most {MAX_NEW_SEED} (2^53 - 1), so that every client can represent it"
        raise InputError("seed", rule, given=spec.seed)
    return await execute(request, CreateCampaign(spec, request.key_id), idempotency_key)


@route(
    "GET",
    "/v1/campaigns",
    roles=READ,
    responses={
        200: "The campaigns. If there are more, the header `Link` has the next page. The header "
        "`Entice-Total` has the number of campaigns on all pages."
    },
    examples={"one": [examples.CAMPAIGN_WITH_ALERTS]},
)
async def list_campaigns(
    request: ServiceRequest,
    limit: Annotated[
        int, QueryParameter(ge=1, le=MAX_PAGE, description="Maximum number of campaigns.")
    ] = MAX_PAGE,
    after: Annotated[
        str | None,
        QueryParameter(
            min_length=1,
            max_length=100,
            description="Id of the last campaign of the previous page.",
        ),
    ] = None,
    status: Annotated[
        CampaignStatus | None, QueryParameter(description="Return campaigns of this status only.")
    ] = None,
    search: Annotated[
        str,
        QueryParameter(
            max_length=200, description="Words that all occur in the campaign's name or id."
        ),
    ] = "",
    sort: Annotated[
        Sort,
        QueryParameter(
            description="Order: by creation, last event, name, status, used share of the budget, "
            "share of accepted offers that are rated, or number of alerts. A minus sign reverses "
            "it."
        ),
    ] = "created",
) -> Response[list[CampaignWithAlerts]]:
    """List campaigns.

    Returns the campaigns that the key has access to and that match, with their alerts: the first
    1,000, or `limit`. If there are more, the response has a header `Link: <...>; rel="next"`.
    """
    read = partial(
        request.context.campaigns.page,
        search=search, status=status, sort=sort, after=after, limit=limit,
    )  # fmt: skip
    found = await request.read(read, request.auth.campaign)
    headers = {"Entice-Total": str(found.total)}
    if found.more:
        chosen = {"limit": limit, "after": found.campaigns[-1].id}
        given = {"status": status or "", "search": search, "sort": sort}
        default = {"status": "", "search": "", "sort": "created"}
        chosen |= {name: value for name, value in given.items() if value != default[name]}
        headers["Link"] = f'</v1/campaigns?{urlencode(chosen)}>; rel="next"'
    return Response(found.campaigns, headers=headers)


@route(
    "GET",
    "/v1/campaigns/{campaign:str}",
    roles=READ,
    responses={200: "The campaign."},
    examples={"live": examples.CAMPAIGN_WITH_ALERTS},
)
async def get_campaign(
    request: ServiceRequest, campaign: CampaignId
) -> Response[CampaignWithAlerts]:
    """Retrieve a campaign.

    Returns its money, its counts, its current settings and its alerts.
    """
    return await request.respond_with(ServiceQueries.campaign, campaign)


@route(
    "PATCH",
    "/v1/campaigns/{campaign:str}",
    roles=ADMIN_ONLY,
    responses={200: "The campaign."},
    examples={"live": examples.CAMPAIGN},
    request={
        "pause": {"status": "paused"},
        "raise the budget": {"budget": 75_000},
        "remove a cap": {"cap_per_offer": None},
    },
)
async def update_campaign(
    request: ServiceRequest,
    campaign: CampaignId,
    data: JSONBody[CampaignChange],
    idempotency_key: IdempotencyKey = None,
) -> Response[CampaignView]:
    """Update a campaign.

    Changes the status, the budget, the caps, the pace, the overlap or the name, with effect from
    the next decision. A budget below the sum spent and reserved is rejected (409). The status
    `closed` voids all open offers and is final. Other settings are fixed at creation: to change one
    is rejected with the reason (409).
    """
    changes: Any = {name: getattr(data, name) for name in data.__struct_fields__}
    command = ChangeCampaign(campaign=campaign, by=request.key_id, **changes)
    return await execute(request, command, idempotency_key)


@route(
    "POST",
    "/v1/campaigns/{campaign:str}/arms",
    roles=ADMIN_ONLY,
    responses={201: "All arms of the campaign."},
    examples={"one of them": [examples.ARM]},
    request={"two": {"arms": ["gyokuro", "hojicha"]}},
)
async def add_arms(
    request: ServiceRequest,
    campaign: CampaignId,
    data: JSONBody[NewArms],
    idempotency_key: IdempotencyKey = None,
) -> Response[list[ArmView]]:
    """Add arms.

    Arms that the campaign already has stay as they are.
    """
    return await execute(request, AddArms(campaign, data.arms, request.key_id), idempotency_key)


@route(
    "PATCH",
    "/v1/campaigns/{campaign:str}/arms/{arm:str}",
    roles=ADMIN_ONLY,
    responses={200: "The arm."},
    examples={"retired": {**examples.ARM, "retired": True}},
    request={"retire": {"retired": True}},
)
async def update_arm(
    request: ServiceRequest,
    campaign: CampaignId,
    arm: ArmId,
    data: JSONBody[ArmChange],
    idempotency_key: IdempotencyKey = None,
) -> Response[ArmView]:
    """Retire an arm, or offer it again.

    A retired arm keeps its ratings. The last arm cannot be retired (409).
    """
    command = RetireArm(campaign, arm, data.retired, request.key_id)
    return await execute(request, command, idempotency_key)


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/arms",
    roles=READ,
    responses={200: "All arms of the campaign."},
    examples={"one of them": [examples.ARM]},
)
async def list_arms(request: ServiceRequest, campaign: CampaignId) -> Response[list[ArmView]]:
    """List the arms of a campaign.

    Returns their averages, their counts and the expected number of ratings in flight.
    """
    return await request.respond_with(Queries.arms, campaign)


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/spending",
    roles=READ,
    responses={200: "The history of spending."},
    examples={"three points": examples.SPENDING},
)
async def get_spending(
    request: ServiceRequest,
    campaign: CampaignId,
    by: Annotated[
        Literal["date", "offer"],
        QueryParameter(description="Spacing of the points: time or offers."),
    ] = "date",
    points: Annotated[
        int, QueryParameter(ge=2, le=MAX_POINTS, description="Maximum number of points.")
    ] = 200,
    since: Since = None,
    until: Until = None,
) -> Response[SpendingView]:
    """Retrieve the history of spending.

    Returns the committed, reserved and allowed amounts over the campaign's history, by date or by
    number of offers. Each point is exact. With `since` or `until`, the first point is the last one
    before that period, and the others are within it. A long log is read in parts, one per request:
    while `through` is less than `events`, repeat the request.
    """
    arguments = campaign, by, points, read_period(since, until)
    return await request.respond_with(Queries.spending, *arguments, slow=True)


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/settings",
    roles=READ,
    responses={200: "The changes of settings."},
    examples={"one change": examples.SETTINGS_HISTORY},
)
async def get_settings_history(
    request: ServiceRequest, campaign: CampaignId
) -> Response[SettingsHistory]:
    """Retrieve the history of settings.

    Returns who changed which setting, when, from which value to which, newest first, from the event
    log. A long log is read in parts, one per request: while `through` is less than `events`, repeat
    the request.
    """
    names = request.context.keys.names()
    return await request.respond_with(Queries.settings_history, campaign, names, slow=True)


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/plan",
    roles=READ,
    responses={200: "The plan, or null."},
    examples={
        "60 days": {
            "campaign": examples.CAMPAIGN_ID,
            "currency": "EUR",
            "currency_digits": 2,
            "plan": examples.PLAN,
        }
    },
)
async def get_plan(request: ServiceRequest, campaign: CampaignId) -> Response[CampaignPlanView]:
    """Retrieve the plan of a campaign.

    Returns the forecast that the campaign was created from, as `plan` of `POST /v1/campaigns`.
    """
    return await request.respond_with(Queries.plan, campaign)


ROUTES = (
    create_campaign, list_campaigns, get_campaign, update_campaign,
    add_arms, update_arm, list_arms, get_spending, get_settings_history, get_plan,
)  # fmt: skip
