"""The service as an ASGI application."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, ControllerRouterHandler, Receive, Scope, Send

from entice.service import logs
from entice.service.domain.errors import Refusal
from entice.service.http import (
    campaigns,
    events,
    exports,
    feedback,
    health,
    key_management,
    offers,
    players,
    problems,
    webhooks,
)
from entice.service.http.authentication import is_cross_site
from entice.service.http.connections import ClientLimits, Connections, Peer, peer_of
from entice.service.http.context import AppContext, Extension
from entice.service.http.openapi import describe
from entice.service.http.read_process import ReadProcess
from entice.service.http.requests import MAX_BODY, ServiceRequest, StrictJson
from entice.service.http.responses import EncodedResponse
from entice.service.operations.service_queries import ServiceQueries
from entice.service.operations.webhook_request import Network
from entice.service.storage.api_keys import Keys
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.store import Store
from entice.service.storage.writer import Writer

ROUTES: tuple[HTTPRouteHandler, ...] = (
    *campaigns.ROUTES,
    *offers.ROUTES,
    *feedback.ROUTES,
    *players.ROUTES,
    *events.ROUTES,
    *exports.ROUTES,
    *webhooks.ROUTES,
    *key_management.ROUTES,
    *health.ROUTES,
)

HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""Headers added to every response that lacks them. The studio's page sets its own CSP."""
CHUNK = 16 * 1024
"""Maximum size of a piece of a response that is passed to Granian, in bytes."""
_MAX_DRAINED = 16 * MAX_BODY
_CROSS_SITE = Refusal(
    403, "cross-site", "Cross-site request",
    "A page of another site sent this request. Send requests from a program or from the studio.",
)  # fmt: skip


class RequestMiddleware:
    """Numbers, times, counts and logs every request, and adds headers to every response.

    It wraps the whole app, since Litestar's middleware does not see requests without a route.
    Litestar's Prometheus and structlog plugins are not used: their metric names and labels differ
    from those documented in `docs/how-to/monitoring.md`, and they do not buffer log lines (see
    `logs`).
    """

    def __init__(self, app: ASGIApp, context: AppContext) -> None:
        self._app = app
        self._context = context
        self._numbers = itertools.count(1)
        self._name = secrets.token_hex(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        state: Any = scope
        if state["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        number = f"{self._name}{next(self._numbers):x}"
        headers = dict(scope["headers"])
        state["entice_headers"] = headers
        state["entice_request"] = number
        connections = self._context.connections
        peer = peer_of(scope)
        body = connections.start_request(peer, receive)
        receive = body.receive
        status = 0

        async def send_with_headers(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status == 413:
                    await _drain(receive)
                connections.answer(peer)
                own = [*message["headers"], (b"x-request-id", number.encode())]
                names = {name for name, _ in own}
                message["headers"] = own + [header for header in HEADERS if header[0] not in names]
            elif len(message["body"]) > CHUNK:
                await _send_in_chunks(send, message, peer, connections)
                return
            await send(message)

        try:
            if is_cross_site(headers, state["path"]):
                await _problem(_CROSS_SITE)(scope, receive, send_with_headers)
            else:
                await self._app(scope, receive, send_with_headers)
        except Exception as error:
            logs.unexpected(error, request=number)
            if status == 0:
                detail = "Internal error. Quote the header X-Request-Id when you report it."
                refusal = Refusal(500, "internal", "Internal error", detail)
                await _problem(refusal)(scope, receive, send_with_headers)
        finally:
            body.release()
            connections.answer(peer)
            seconds = time.perf_counter() - started
            path = state.get("path_template")
            method = state["method"] if path is not None else "other"
            path = path or "none"
            key = state["auth"].id if "auth" in state else "-"
            self._context.metrics.count_request(method, path, status, seconds)
            logs.request(method, path, status, seconds, key, number)


def make_app(
    store: Store,
    writer: Writer,
    queries: ServiceQueries,
    keys: Keys,
    hasher: PlayerHasher,
    *,
    token: str | None,
    extensions: Sequence[Extension] = (),
    connections: Connections | None = None,
    webhook_networks: Sequence[Network] = (),
    read_processes: Sequence[ReadProcess] = (),
) -> Litestar:
    """Build the application.

    Parameters
    ----------
    store, writer, queries, keys, hasher
        The parts of the service, all on one database. The writer starts and stops with the
        application; the caller closes the store.
    token
        Accepted in place of a key, as long as no key exists.
    extensions
        Routers to mount beside the service's own routes, such as the studio's.
    connections
        The connections of the process, if Granian serves the application.
    webhook_networks
        Networks that webhooks may reach besides public addresses.
    read_processes
        Processes for fast and for slow reads. Without them, reads use threads only.
    """
    context = AppContext(
        store,
        writer,
        queries,
        keys,
        hasher,
        token=token,
        extensions=extensions,
        connections=connections or Connections(ClientLimits()),
        webhook_networks=webhook_networks,
        read_processes=read_processes,
    )
    handlers: list[ControllerRouterHandler] = [*ROUTES, *(e.router for e in extensions)]
    context.describe = cache(partial(describe, handlers))
    app = Litestar(
        [*_options(), *handlers],
        request_class=ServiceRequest,
        request_max_body_size=MAX_BODY,
        dto=StrictJson,
        return_dto=None,
        exception_handlers={Exception: problems.respond},
        lifespan=[partial(_lifespan, context)],
        openapi_config=None,  # see `openapi.describe`
        logging_config=None,
    )
    app.state.context = context
    app.asgi_handler = RequestMiddleware(app.asgi_handler, context)
    return app


@asynccontextmanager
async def _lifespan(context: AppContext, _: Litestar) -> AsyncIterator[None]:
    async with context.running():
        yield


def _options() -> list[HTTPRouteHandler]:
    """Return OPTIONS handlers for paths with several methods. Litestar's own list only one."""
    methods: dict[str, set[str]] = {}
    for handler in ROUTES:
        for path in handler.paths:
            methods.setdefault(path, {"OPTIONS"}).update(handler.http_methods)
    return [_options_of(path, names) for path, names in methods.items() if len(names) > 2]


def _options_of(path: str, methods: set[str]) -> HTTPRouteHandler:
    allow = [(b"allow", ", ".join(sorted(methods)).encode())]

    async def options() -> EncodedResponse[None]:
        return EncodedResponse(b"", 204, b"text/plain", allow)

    handler: HTTPRouteHandler = HTTPRouteHandler(
        path, http_method="OPTIONS", include_in_schema=False
    )(options)
    return handler


async def _drain(receive: Receive) -> None:
    """Read the rest of a body that is too large, since many clients send all before they read."""
    length, more = 0, True
    with contextlib.suppress(Refusal):  # it did not arrive in time
        while more and length <= _MAX_DRAINED:
            message: Any = await receive()
            length += len(message.get("body", b""))
            more = message.get("more_body", False)


async def _send_in_chunks(send: Send, message: Any, peer: Peer, connections: Connections) -> None:
    """Send a large body piece by piece, each one when the client has read most of those before.

    Granian copies what it is to send: a client that does not read would take as much memory as the
    whole body has. `send` does not report that a connection was closed.
    """
    body = message["body"]
    connections.sending.add(peer)
    try:
        for start in range(0, len(body), CHUNK):
            more = message.get("more_body", False) or start + CHUNK < len(body)
            piece = body[start : start + CHUNK]
            await send({"type": "http.response.body", "body": piece, "more_body": more})
            if peer not in connections.sending:
                return
    finally:
        connections.sending.discard(peer)


def _problem(refusal: Refusal) -> EncodedResponse[Any]:
    details = problems.problem_details(refusal.status, refusal.kind, refusal.title, refusal.detail)
    media_type = problems.MEDIA_TYPE.encode()
    return EncodedResponse(msgspec.json.encode(details), refusal.status, media_type)
