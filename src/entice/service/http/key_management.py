"""Routes of API keys, for administrators of all campaigns."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
from litestar import Response
from litestar.openapi.spec import Example
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from entice.api_types import ApiKeyView, CreatedApiKey
from entice.service import logs
from entice.service.domain.errors import not_found
from entice.service.domain.views import to_datetime
from entice.service.http import examples
from entice.service.http.authentication import require_all_campaigns
from entice.service.http.read_threads import in_thread
from entice.service.http.requests import ServiceRequest
from entice.service.http.routes import ADMIN_ONLY, route
from entice.service.storage.api_keys import KeyView, Role

KeyId = Annotated[str, PathParameter(description="Key id.", examples=[Example(value="5f1c09ab")])]


class NewKey(msgspec.Struct, forbid_unknown_fields=True):
    """A key to create."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    """Label for the key."""
    roles: Annotated[list[Role], Meta(min_length=1, max_length=4)]
    """What the key may do: `admin` everything, `decide` make offers, `feedback` accept, decline,
    rate and reverse offers and enter ratings, `read` read everything."""
    campaign: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    """Only campaign that the key has access to. Default: all campaigns."""


@route(
    "POST",
    "/v1/keys",
    roles=ADMIN_ONLY,
    responses={201: "The key. It is shown once."},
    examples={"new": {**examples.KEY, "key": "entice_5f1c09ab_" + 43 * "x"}},
    request={
        "a shop": {"name": "Shop", "roles": ["decide", "feedback"]},
        "an administrator": {"name": "me", "roles": ["admin"]},
    },
)
async def create_key(request: ServiceRequest, data: JSONBody[NewKey]) -> Response[CreatedApiKey]:
    """Create an API key.

    The response has the key, of which only a hash is stored. A repeat of the request creates
    another key. The first key replaces the token of a service without keys, so it must be an
    administrator's, for all campaigns (409). The caller's key must not be limited to one campaign.
    """
    require_all_campaigns(request.auth)
    create = partial(request.context.keys.create, keep_admin=True)
    view, secret = await in_thread(create, ",".join(data.roles), data.campaign, data.name)
    logs.event("key-created", created=view.id, key=request.auth.id)
    shown = msgspec.structs.asdict(_view(view, request.auth.id))
    return Response(CreatedApiKey(**shown, key=secret), status_code=201)


@route(
    "GET",
    "/v1/keys",
    roles=ADMIN_ONLY,
    responses={200: "All keys."},
    examples={"one": [examples.KEY]},
)
async def list_keys(request: ServiceRequest) -> list[ApiKeyView]:
    """List all API keys.

    Returns them oldest first, including revoked ones, without the keys themselves. The caller's
    key must not be limited to one campaign.
    """
    require_all_campaigns(request.auth)
    keys = request.context.keys
    found = await in_thread(keys.list)
    altered = keys.altered()
    return [_view(view, request.auth.id, view.id in altered) for view in found]


@route(
    "DELETE",
    "/v1/keys/{key:str}",
    roles=ADMIN_ONLY,
    responses={200: "The revoked key."},
    examples={"revoked": {**examples.KEY, "revoked_at": "2026-11-18T16:20:11Z"}},
)
async def revoke_key(request: ServiceRequest, key: KeyId) -> ApiKeyView:
    """Revoke an API key.

    It is rejected within a second, also if it is the caller's own. The last administrator's key for
    all campaigns cannot be revoked here (409): nobody could create another one. The caller's key
    must not be limited to one campaign.
    """
    require_all_campaigns(request.auth)
    keys = request.context.keys
    known = await in_thread(keys.list)
    if key not in {view.id for view in known}:
        raise not_found("key", key)
    view = await in_thread(partial(keys.revoke, keep_admin=True), key)
    logs.event("key-revoked", revoked=key, key=request.auth.id)
    return _view(view, request.auth.id)


def _view(view: KeyView, caller: str, altered: bool = False) -> ApiKeyView:
    return ApiKeyView(
        id=view.id,
        name=view.name,
        roles=view.role.split(","),
        campaign=view.campaign,
        created_at=to_datetime(view.created),
        revoked_at=None if view.revoked is None else to_datetime(view.revoked),
        current=view.id == caller,
        altered=altered,
    )


ROUTES = (create_key, list_keys, revoke_key)
