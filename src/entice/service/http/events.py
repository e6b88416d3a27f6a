"""Routes of a campaign's event log: in pages, and as a stream."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated, cast

import msgspec
from litestar import Response
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream

from entice.api_types import EventPage, EventView
from entice.errors import EnticeError
from entice.service.http import examples
from entice.service.http.connections import peer_of
from entice.service.http.read_threads import in_thread
from entice.service.http.requests import CampaignId, ServiceRequest
from entice.service.http.routes import READ, route
from entice.service.storage.queries import Queries

MAX_PAGE = 1000
_MAX_SEQ = 2**63 - 1


class _Kind(msgspec.Struct):
    kind: str


_kind = msgspec.json.Decoder(_Kind).decode


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/events",
    roles=READ,
    responses={200: "A page of events."},
    examples={"one": {"events": [examples.EVENT], "next": None}},
)
async def list_events(
    request: ServiceRequest,
    campaign: CampaignId,
    after: Annotated[
        int,
        QueryParameter(ge=0, le=_MAX_SEQ, description="Return events with higher numbers only."),
    ] = 0,
    limit: Annotated[
        int, QueryParameter(ge=1, le=MAX_PAGE, description="Maximum number of events.")
    ] = 100,
) -> Response[EventPage]:
    """List the events of a campaign.

    Returns events in order. Each event has a hash of the previous hash and its own body, which
    makes changes to the log detectable. A page of more than 1 MiB ends early: to continue, pass
    `next` as `after` until it is null.
    """
    return await request.respond_with(Queries.event_page, campaign, after, limit)


@route(
    "GET",
    "/v1/campaigns/{campaign:str}/stream",
    roles=READ,
    responses={200: "Server-sent events. The data of each message is an event of the log."},
    response=EventView,
    media_types=("text/event-stream",),
    problems=(429,),
)
async def stream_events(
    request: ServiceRequest,
    campaign: CampaignId,
    after: Annotated[
        int | None,
        QueryParameter(
            ge=0, le=_MAX_SEQ, description="Start after this event. Default: the last one."
        ),
    ] = None,
    last_event_id: Annotated[
        int | None,
        HeaderParameter(
            name="Last-Event-ID",
            ge=0,
            le=_MAX_SEQ,
            description="Resume after this event. Browsers send it when they reconnect.",
        ),
    ] = None,
) -> Stream:
    """Stream the events of a campaign.

    Sends each event as a server-sent event: its number as `id`, its kind as `event`, and the event
    as `data`. A comment is sent after 15 seconds without events.
    """
    context = request.context
    head = await in_thread(context.queries.head, campaign)
    start = after if last_event_id is None else last_event_id
    with contextlib.ExitStack() as held:
        held.enter_context(context.streams.quota.take(request.auth.id, campaign))
        messages = _messages(request, campaign, head if start is None else start, held.pop_all())
    await anext(messages)
    headers = {"X-Accel-Buffering": "no"}
    return Stream(messages, media_type="text/event-stream", headers=headers)


async def _messages(
    request: ServiceRequest, campaign: str, after: int, held: contextlib.ExitStack
) -> AsyncGenerator[bytes, None]:
    context = request.context

    def check_key() -> None:
        context.authenticator.check_again(request.raw_headers, READ)

    events_after = context.streams.follow(campaign, after, peer_of(request.scope), check_key)
    with held:
        yield b""  # `stream_events` runs the generator up to here, so that `held` is closed.
        context.metrics.count_streams(1)
        try:
            yield b"retry: 2000\n\n"
            async for events in events_after:
                yield b"".join(map(_message, events)) or b": no new events\n\n"
        except EnticeError:
            pass  # The client reconnects, and that request returns the error.
        finally:
            context.metrics.count_streams(-1)
            await events_after.aclose()


def _message(event: EventView) -> bytes:
    kind = _kind(cast(msgspec.Raw, event.body)).kind.encode()
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.seq, kind, msgspec.json.encode(event))


ROUTES = (list_events, stream_events)
