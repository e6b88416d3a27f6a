"""The log of a campaign, in pages and as it grows."""

from __future__ import annotations

from typing import cast

import msgspec
from litestar.types import Receive, Scope, Send

from entice.api_types import EventPage, EventView
from entice.errors import EnticeError
from entice.service.domain.errors import Refusal
from entice.service.http import examples
from entice.service.http.authentication import READERS
from entice.service.http.context import AppContext
from entice.service.http.operation import Answered, Call, Operation, Query, Reply, while_connected
from entice.service.http.read_threads import look_up

PAGE = 1000
MOST_STREAMS = 100
_LARGEST = 2**63 - 1


class _Kind(msgspec.Struct):
    kind: str


_kind = msgspec.json.Decoder(_Kind).decode


class Stream:
    """One open stream of server-sent events."""

    def __init__(self, context: AppContext, call: Call, after: int) -> None:
        self._context = context
        self._call = call
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client leaves or the service ends."""
        context = self._context
        context.streams.open += 1
        context.metrics.streams(1)
        try:
            await while_connected(receive, self._send(send))
        finally:
            context.streams.open -= 1
            context.metrics.streams(-1)

    async def _send(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _part(send, b"retry: 2000\n\n")
        following = self._context.streams.follow(self._call.path["campaign"], self._after)
        try:
            async for events in following:
                # A key that was revoked meanwhile listens no longer.
                self._context.authenticator.readmit(self._call.headers, READERS)
                await _part(send, b"".join(map(_as_sent, events)) or b": still here\n\n")
        except EnticeError:
            pass  # the client comes back by itself, and is told then
        finally:
            await following.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def read_events(context: AppContext, call: Call) -> Reply:
    """Read the log.

    The campaign's events after a number, in order. Each carries the hash of the one before: a
    log that was tampered with can be told.
    """
    campaign, limit = call.path["campaign"], call.query["limit"]
    events = await look_up(context.queries.events, campaign, call.query["after"], limit)
    onward = events[-1].seq if len(events) == limit else None
    return Reply(msgspec.json.encode(EventPage(events, onward)))


async def stream(context: AppContext, call: Call) -> Stream:
    """Follow the log.

    Server-sent events: all that happens from now on, or after a number. A client that lost the
    connection goes on by `Last-Event-ID`, as browsers do by themselves. A comment is sent every
    15 seconds when nothing happens.
    """
    head = await look_up(context.queries.head, call.path["campaign"])
    after = _last_seen(call.headers)
    if after is None:
        after = call.query["after"]
    if context.streams.open >= MOST_STREAMS:
        detail = f"{MOST_STREAMS} streams are open, which is as many as may be. Try again later."
        raise Refusal(429, "too-many-streams", "Too many streams", detail)
    return Stream(context, call, head if after is None else after)


def _last_seen(headers: dict[bytes, bytes]) -> int | None:
    given = headers.get(b"last-event-id")
    if given is None:
        return None
    try:
        return whole(given.decode("latin-1"))
    except ValueError:
        detail = "Last-Event-ID must be the id of an event, a whole number."
        raise Refusal(400, "bad-request", "Bad Last-Event-ID", detail) from None


def whole(text: str, least: int = 0, most: int = _LARGEST) -> int:
    """Read a whole number of a query."""
    if text.isascii() and text.isdigit() and len(text) <= 19 and least <= int(text) <= most:
        return int(text)
    raise ValueError(f"a whole number from {least} to {most}")


def _as_sent(event: EventView) -> bytes:
    kind = _kind(cast(msgspec.Raw, event.body)).kind.encode()
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.seq, kind, msgspec.json.encode(event))


async def _part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


_AFTER = {"type": "integer", "minimum": 0, "maximum": _LARGEST}

OPERATIONS = (
    Operation(
        "GET",
        "/v1/campaigns/{campaign}/events",
        read_events,
        Answered(
            {200: "A page of events."},
            EventPage,
            {"the first": {"events": [examples.EVENT], "next": None}},
        ),
        roles=READERS,
        query=(
            Query(
                "after", "The number of the last event known.", {**_AFTER, "default": 0}, whole, 0
            ),
            Query(
                "limit",
                "How many events at most.",
                {"type": "integer", "minimum": 1, "maximum": PAGE, "default": 100},
                lambda text: whole(text, 1, PAGE),
                100,
            ),
        ),
    ),
    Operation(
        "GET",
        "/v1/campaigns/{campaign}/stream",
        stream,
        Answered(
            {200: "A message for each event: its number as id, its kind, itself as data."},
            None,
            {},
            ("text/event-stream",),
        ),
        roles=READERS,
        query=(Query("after", "The number of the last event known.", _AFTER, whole, None),),
        problems=frozenset({400, 429}),
    ),
)
