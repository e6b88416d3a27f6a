"""The service as an ASGI application, and the door that every request passes."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send

from entice.service import logs
from entice.service.domain.errors import Refusal
from entice.service.http import campaigns, events, exports, feedback, health, offers, problems
from entice.service.http.context import AppContext, Extension
from entice.service.http.openapi import describe
from entice.service.http.operation import Operation, Reply, handler_of, options_of
from entice.service.storage.api_keys import Keys
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.queries import Queries
from entice.service.storage.store import Store
from entice.service.storage.writer import Writer

OPERATIONS: tuple[Operation, ...] = (
    *campaigns.OPERATIONS,
    *offers.OPERATIONS,
    *feedback.OPERATIONS,
    *events.OPERATIONS,
    *exports.OPERATIONS,
    *health.OPERATIONS,
)

HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""On every answer, unless it has its own: the studio's page may run its scripts."""


class RequestMiddleware:
    """Numbers, times, counts and logs every request, and puts the same headers on every answer."""

    def __init__(self, inner: ASGIApp, context: AppContext) -> None:
        self._inner = inner
        self._context = context
        self._numbers = itertools.count(1)
        self._name = secrets.token_hex(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back."""
        asked: Any = scope
        if asked["type"] != "http":
            await self._inner(scope, receive, send)
            return
        began = time.perf_counter()
        number = f"{self._name}{next(self._numbers):x}"
        headers = dict(asked["headers"])
        asked["entice_headers"] = headers
        asked["entice_request"] = number
        status = 0

        async def pass_on(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = [*message["headers"], (b"x-request-id", number.encode())]
                own = {name for name, _ in given}
                message["headers"] = given + [usual for usual in HEADERS if usual[0] not in own]
            await send(message)

        try:
            refused = self._context.authenticator.refuse_strangers(headers)
            if refused is not None:
                await _refusal(refused)(scope, receive, pass_on)
            else:
                await self._inner(scope, receive, pass_on)
        except Exception as error:
            logs.unexpected(error, request=number)
            if status == 0:
                detail = (
                    "Something unforeseen happened. Whoever runs the service finds it by its log."
                )
                await _refusal(Refusal(500, "internal", "Internal error", detail))(
                    scope, receive, pass_on
                )
        finally:
            seconds = time.perf_counter() - began
            route = asked.get("path_template")
            method = asked["method"] if route is not None else "other"
            route = route or "none"
            self._context.metrics.request(method, route, status, seconds)
            logs.request(method, route, status, seconds, asked.get("entice_key", "-"), number)


def make_app(
    store: Store,
    writer: Writer,
    queries: Queries,
    keys: Keys,
    players: PlayerHasher,
    *,
    open_to_loopback: bool,
    extensions: Sequence[Extension] = (),
) -> Litestar:
    """Put the service together.

    Parameters
    ----------
    store, desk, reads, keys, players
        Of one database. The desk is started and stopped with the application; the store is not
        closed by it.
    open_to_loopback
        Whether anybody may call while there is no key. Only for a service that is bound to
        loopback.
    extensions
        Routes to mount beside the service's own, such as the studio's.
    """
    context = AppContext(
        store,
        writer,
        queries,
        keys,
        players,
        open_to_loopback=open_to_loopback,
        extensions=extensions,
    )
    operations = [*OPERATIONS, *(o for e in extensions for o in e.operations)]
    context.document = describe(operations)
    app = Litestar(
        [*_options(operations), *(handler_of(operation, context) for operation in operations)],
        exception_handlers={Exception: problems.respond},
        lifespan=[_at_work(context)],
        openapi_config=None,
        logging_config=None,
        debug=False,
    )
    app.state.context = context
    app.asgi_handler = RequestMiddleware(app.asgi_handler, context)
    return app


def _options(operations: Iterable[Operation]) -> list[HTTPRouteHandler]:
    methods: dict[str, list[str]] = {}
    for operation in operations:
        methods.setdefault(operation.path, []).append(operation.method)
    return [options_of(path, allowed) for path, allowed in methods.items()]


def _at_work(context: AppContext) -> Any:
    @asynccontextmanager
    async def at_work(_: Litestar) -> AsyncIterator[None]:
        async with context.at_work():
            yield

    return at_work


def _refusal(refusal: Refusal) -> Reply:
    body = problems.problem(refusal.status, refusal.kind, refusal.title, refusal.detail)
    return Reply(body, refusal.status, problems.MEDIA_TYPE.encode())
