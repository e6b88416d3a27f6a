"""Routes of webhooks: addresses to which the service sends the events of a campaign."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Response
from litestar.openapi.spec import Example
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from entice.api_types import CreatedWebhook, WebhookView
from entice.service import logs
from entice.service.domain.views import to_datetime
from entice.service.http import examples
from entice.service.http.read_threads import in_thread
from entice.service.http.requests import CampaignId, IdempotencyKey, ServiceRequest
from entice.service.http.routes import ADMIN_ONLY, route
from entice.service.operations.webhook_request import MAX_URL, check_url
from entice.service.storage.webhooks import Webhook, WebhookName

WebhookId = Annotated[
    str, PathParameter(description="Webhook id.", examples=[Example(value="w_51c09be7a2d3f846")])
]


class NewWebhook(msgspec.Struct, forbid_unknown_fields=True):
    """A webhook to create."""

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL)]
    """Address of the receiver: https, at a public address."""
    after: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    """Send the events with higher numbers; 0 sends all. Default: only new events."""


class WebhookChange(msgspec.Struct, forbid_unknown_fields=True):
    """The change of a webhook: whether it is paused."""

    paused: bool


@route(
    "POST",
    "/v1/campaigns/{campaign:str}/webhooks",
    roles=ADMIN_ONLY,
    responses={201: "The webhook and its secret."},
    examples={"new": {**examples.WEBHOOK, "secret": "whsec_" + 64 * "0"}},
    request={"all events": {"url": examples.WEBHOOK["url"], "after": 0}},
)
async def create_webhook(
    request: ServiceRequest,
    campaign: CampaignId,
    data: JSONBody[NewWebhook],
    idempotency_key: IdempotencyKey = None,
) -> Response[CreatedWebhook]:
    """Create a webhook.

    The service sends the campaign's events to the URL, in order, and each at least once, signed
    with the secret in the response. The first request is sent at once, even without events. A
    campaign has at most 5 webhooks. A repeat with the same idempotency key returns the webhook as
    it is now, and its secret.
    """
    context = request.context
    check_url(data.url, context.delivery.sender.networks)
    name = None
    if idempotency_key is not None:
        name = _id_of(request, idempotency_key, await request.body())
    create = context.webhooks.create
    made, replayed = await in_thread(create, campaign, data.url, data.after, name)
    if not replayed:
        logs.event("webhook-created", webhook=made.id, campaign=campaign, key=request.auth.id)
    view = msgspec.structs.asdict(_view(made))
    secret = context.players.webhook_secret(made.id)
    headers = {"Idempotency-Replayed": "true"} if replayed else {}
    return Response(CreatedWebhook(**view, secret=secret), status_code=201, headers=headers)


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/webhooks",
    roles=ADMIN_ONLY,
    responses={200: "The webhooks of the campaign."},
    examples={"one": [examples.WEBHOOK]},
)
async def list_webhooks(request: ServiceRequest, campaign: CampaignId) -> list[WebhookView]:
    """List the webhooks of a campaign.

    Returns their addresses, the last event that each has confirmed, and their last error.
    """
    found = await in_thread(request.context.webhooks.of, campaign)
    return [_view(webhook) for webhook in found]


@route(
    "PATCH",
    "/v1/campaigns/{campaign:str}/webhooks/{webhook:str}",
    roles=ADMIN_ONLY,
    responses={200: "The webhook."},
    examples={"paused": {**examples.WEBHOOK, "paused": True}},
    request={"resume": {"paused": False}},
)
async def update_webhook(
    request: ServiceRequest,
    campaign: CampaignId,
    webhook: WebhookId,
    data: JSONBody[WebhookChange],
) -> WebhookView:
    """Pause or resume a webhook.

    No event is lost while a webhook is paused. Resuming sends a request at once, even without
    events, which tests the receiver.
    """
    change = request.context.webhooks.set_paused
    return _view(await in_thread(change, campaign, webhook, data.paused))


@route(
    "DELETE",
    "/v1/campaigns/{campaign:str}/webhooks/{webhook:str}",
    roles=ADMIN_ONLY,
    responses={200: "The webhook as it was."},
    examples={"deleted": examples.WEBHOOK},
)
async def delete_webhook(
    request: ServiceRequest, campaign: CampaignId, webhook: WebhookId
) -> WebhookView:
    """Delete a webhook.

    A request that is in progress may still arrive.
    """
    found = await in_thread(request.context.webhooks.delete, campaign, webhook)
    logs.event("webhook-deleted", webhook=found.id, campaign=campaign, key=request.auth.id)
    return _view(found)


def _id_of(request: ServiceRequest, key: str, body: bytes) -> WebhookName:
    """Derive the id of a webhook from the idempotency key and the request.

    So a repeat finds the webhook without a stored response, which would contain its secret.
    """
    digest, path = request.context.players.digest, request.scope["path"]
    of_key = digest("key", path, f"{request.auth.id}\n{key}".encode())
    return WebhookName(of_key.hex()[:10], digest("POST", path, body).hex()[:6])


def _view(webhook: Webhook) -> WebhookView:
    success, error = webhook.last_success, webhook.last_error_at
    retries = webhook.failures > 0 and webhook.paused is None
    return WebhookView(
        id=webhook.id,
        campaign=webhook.campaign,
        url=webhook.url,
        created_at=to_datetime(webhook.created),
        paused=webhook.paused is not None,
        delivered=webhook.delivered,
        lag=webhook.head - webhook.delivered,
        failures=webhook.failures,
        last_success_at=None if success is None else to_datetime(success),
        last_error=webhook.last_error,
        last_error_at=None if error is None else to_datetime(error),
        next_attempt_at=to_datetime(webhook.next_attempt) if retries else None,
    )


ROUTES = (create_webhook, list_webhooks, update_webhook, delete_webhook)
