"""Requests: strict JSON bodies, authorization, idempotent execution of commands."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar, get_args
from urllib.parse import parse_qsl

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.dto import AbstractDTO
from litestar.handlers import BaseRouteHandler
from litestar.openapi.spec import Example, Schema
from litestar.params import HeaderParameter, PathParameter, QueryParameter

from entice.service.domain.commands import Command
from entice.service.domain.errors import Refusal, not_found
from entice.service.http.authentication import LOCAL_CALLER, hide_other_campaigns
from entice.service.http.context import AppContext
from entice.service.http.problems import body_problem, too_deep
from entice.service.http.read_process import ReadFailed, encode_read
from entice.service.http.responses import EncodedResponse
from entice.service.storage.api_keys import KeyView

T = TypeVar("T")

MAX_DEPTH = 32
MAX_BODY = 1024 * 1024

CampaignId = Annotated[
    str, PathParameter(description="Campaign id.", examples=[Example(value="c_9f2c1ab34d5e6f70")])
]
OfferId = Annotated[
    str,
    PathParameter(
        description="Offer id: the campaign's id, a dot and a number.",
        examples=[Example(value="c_9f2c1ab34d5e6f70.312")],
    ),
]
ArmId = Annotated[str, PathParameter(description="Arm id.", examples=[Example(value="oolong")])]
Since = Annotated[
    datetime | None,
    QueryParameter(description="Start of the period, such as 2026-11-01T00:00:00Z."),
]
Until = Annotated[
    datetime | None,
    QueryParameter(description="End of the period, such as 2026-11-30T23:59:59Z."),
]
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern="^[!-~]+$",
        description="Key that makes a retry safe. A repeat of the request returns the first "
        "response and changes nothing; another request with the same key is rejected (422). Keys "
        "are kept for a week.",
    ),
]


def read_period(since: datetime | None, until: datetime | None) -> tuple[int | None, int | None]:
    """Return a period in microseconds since 1970. A time without a zone is in UTC."""
    start, end = (None if time is None else _microseconds(time) for time in (since, until))
    if start is not None and end is not None and end < start:
        assert since is not None
        assert until is not None
        detail = (
            f"until must not be before since; got since={since.isoformat()} and "
            f"until={until.isoformat()}."
        )
        raise Refusal(422, "invalid", "Invalid query", detail)
    return start, end


def _microseconds(time: datetime) -> int:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class ServiceRequest(Request[None, KeyView, State]):
    """A request, with the service's context. `auth` is the caller's key."""

    @property
    def context(self) -> AppContext:
        """The parts of the service."""
        context: AppContext = self.app.state.context
        return context

    @property
    def raw_headers(self) -> dict[bytes, bytes]:
        """The headers by lower-case name. A repeated header has its last value."""
        headers: dict[bytes, bytes] = self.scope["entice_headers"]  # type: ignore[typeddict-item]
        return headers

    @property
    def key_id(self) -> str | None:
        """The id of the caller's key for the event log. None as long as no key exists."""
        return self.auth.id if self.auth.id != LOCAL_CALLER.id else None

    async def read(self, read: Callable[..., T], *arguments: Any, slow: bool = False) -> T:
        """Call a function in a thread; the keys of one campaign take turns."""
        key = self.auth.campaign or self.auth.id
        return await self.context.reads.read(key, slow, read, *arguments)

    async def respond_with(
        self, read: Callable[..., T], *arguments: Any, slow: bool = False
    ) -> EncodedResponse[T]:
        """Call a function of a module with the queries, and return its result as the response.

        It is called in a thread or, while other campaigns use the service, in another process.
        """
        context, call = self.context, (read, *arguments)
        others = context.ready and context.writer.is_used_by_others(self.auth.campaign)
        process = context.read_processes[slow] if others and context.read_processes else None
        if process is not None and process.alive:
            with contextlib.suppress(ReadFailed):
                return EncodedResponse(await self.read(process.read, *call, slow=slow))
        return EncodedResponse(await self.read(encode_read, context.queries, *call, slow=slow))


class StrictJson(AbstractDTO[Any]):
    """Decodes the `data` of handlers strictly.

    Litestar's own decoding is loose: it accepts "5" as 5, ignores the media type, and does not
    report where in the body an error is.
    """

    def decode_bytes(self, value: bytes) -> Any:
        """Decode a request's body to the type that its handler declares."""
        request: Any = self.asgi_connection
        _check_media_type(request.raw_headers)
        route = request.route_handler.opt["route"]
        try:
            decoded = route.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise body_problem(error, route.body, value) from None
        if type(decoded) is dict:
            check_depth(decoded)
        return decoded

    @classmethod
    def create_for_field_definition(cls, *_: Any, **__: Any) -> None:
        """Do nothing: the route has the decoder."""

    @classmethod
    def create_openapi_schema(cls, *_: Any, **__: Any) -> Schema:
        """Return an empty schema: `openapi` inserts msgspec's."""
        return Schema()


def decoder(body: Any) -> Any:
    """Return a strict JSON decoder for the annotation of a handler's `data`."""
    types = [kind for kind in get_args(body) if kind is not type(None)]
    return msgspec.json.Decoder(types[0] if type(None) in get_args(body) else body).decode


def check_depth(body: Any) -> None:
    """Reject lists and objects that are nested more than 32 deep."""
    depth, level = 1, [body]
    while level := [
        inner
        for outer in level
        if isinstance(outer, (dict, list))
        for inner in (outer.values() if isinstance(outer, dict) else outer)
    ]:
        depth += 1
        if depth > MAX_DEPTH:
            raise too_deep(MAX_DEPTH)


async def authorize(
    connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
) -> None:
    """Guard of every route: check the key's role and campaign, and the parameters' names."""
    scope: Any = connection.scope
    route = handler.opt["route"]
    if route.roles is not None:
        context: AppContext = connection.app.state.context
        caller = await context.authenticator.authenticate(scope["entice_headers"], route.roles)
        scope["auth"] = caller
        if scope["path_params"]:
            _check_ids(scope["path_params"], caller)
    if scope["query_string"]:
        _check_query(scope["query_string"], route.query)


async def execute(
    request: ServiceRequest, command: Command, key: str | None
) -> EncodedResponse[Any]:
    """Pass a command to the writer, which executes it at most once if it has an idempotency key."""
    context = request.context
    if key is None:
        result = await context.writer.execute(command)
    else:
        digest = context.players.digest(request.method, request.scope["path"], await request.body())
        result = await context.writer.execute(
            command, scope=request.auth.id, key=key, request=digest
        )
    replayed = ((b"idempotency-replayed", b"true"),) if result.replayed else ()
    return EncodedResponse(result.body, result.status, headers=replayed)


_is_id = re.compile("[A-Za-z0-9._~-]{1,100}").fullmatch


def _check_ids(path: dict[str, str], caller: KeyView) -> None:
    """Reject malformed ids, and ids outside the key's campaign."""
    for what, name in path.items():
        if what != "player" and _is_id(name) is None:
            raise not_found(what, name)
    if caller.campaign is None:
        return
    if "offer" in path:
        hide_other_campaigns(caller, "offer", path["offer"], path["offer"].partition(".")[0])
    elif "campaign" in path:
        hide_other_campaigns(caller, "campaign", path["campaign"], path["campaign"])


def _check_query(query: bytes, allowed: dict[str, bool]) -> None:
    """Reject unknown parameters, invalid UTF-8 and numbers such as 1e3: Litestar accepts them."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        detail = "The query string must be percent-encoded UTF-8."
        raise Refusal(422, "invalid", "Invalid query", detail) from None
    for name, value in pairs:
        if name not in allowed:
            names = ", ".join(sorted(allowed)) or "none"
            detail = f"Unknown query parameter {name[:80]!r}. Allowed: {names}."
            raise Refusal(422, "invalid", "Invalid query", detail)
        if allowed[name] and not (value.isascii() and value.isdigit()):
            detail = f"{name} must be a whole number; got {value[:80]!r}."
            raise Refusal(422, "invalid", "Invalid query", detail)


def _check_media_type(headers: dict[bytes, bytes]) -> None:
    media_type = headers.get(b"content-type", b"")
    if media_type == b"application/json":
        return
    if media_type.partition(b";")[0].strip().lower() != b"application/json":
        name = media_type.decode("latin-1")[:80] or "none"
        detail = f"The request body must have Content-Type: application/json; got {name}."
        raise Refusal(415, "unsupported-media-type", "Unsupported media type", detail)
