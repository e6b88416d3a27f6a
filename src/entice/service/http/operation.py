"""What an operation of the API is, and the way of every request through it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send

from entice.service.domain.commands import Command
from entice.service.domain.errors import Refusal, not_found
from entice.service.http.authentication import ANYBODY, only
from entice.service.http.context import AppContext
from entice.service.http.problems import too_deep, unreadable
from entice.service.storage.api_keys import KeyView, Role

DEEPEST = 32
LARGEST_BODY = 1024 * 1024
_READ_AT_MOST = 16 * LARGEST_BODY
"""Of a body that is too large so much is read before the refusal: clients listen only then."""


class Reply:
    """An answer that is ready to be sent as it is."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self,
        body: bytes,
        status: int = 200,
        media_type: bytes = b"application/json",
        *more: tuple[bytes, bytes],
    ) -> None:
        self.status = status
        self.body = body
        length = str(len(body)).encode()
        self.headers = [(b"content-type", media_type), (b"content-length", length), *more]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class Query(NamedTuple):
    """A parameter behind the question mark."""

    name: str
    description: str
    schema: dict[str, Any]
    read: Callable[[str], Any]
    default: Any


class Body(NamedTuple):
    """What a request carries."""

    type: Any
    examples: dict[str, Any]
    required: bool = True
    schema: Any = None
    """What the description shows, where `type` is looser than what is allowed."""


class Answered(NamedTuple):
    """What a success looks like."""

    statuses: dict[int, str]
    """And what each says."""
    type: Any = None
    examples: dict[str, Any] = {}  # noqa: RUF012
    media_types: tuple[str, ...] = ("application/json",)
    names: str | None = None
    """The parameter of other operations that its `id` is for."""


class Call:
    """One request, read and admitted."""

    __slots__ = ("body", "caller", "headers", "path", "query", "raw", "scope")

    def __init__(self, scope: Any, caller: KeyView) -> None:
        self.scope = scope
        self.caller = caller
        self.headers: dict[bytes, bytes] = scope["entice_headers"]
        self.path: dict[str, str] = scope["path_params"]
        self.query: dict[str, Any] = {}
        self.raw = b""
        self.body: Any = None

    @property
    def key(self) -> str | None:
        """The id of the key that the request came with, for the log; None: no key is needed."""
        return self.caller.id if self.caller.id != ANYBODY.id else None


Work = Callable[[AppContext, Call], Awaitable[ASGIApp]]


class Operation(NamedTuple):
    """One method of one address: who may call it, with what, and what comes back."""

    method: str
    path: str
    work: Work
    """What it does. Its docstring is what the description of the API says of it."""
    answered: Answered
    roles: frozenset[Role] | None = frozenset()
    """Who may call it besides admin; None: anybody, without a key."""
    body: Body | None = None
    query: tuple[Query, ...] = ()
    problems: frozenset[int] = frozenset()
    """Those that are not plain from the rest."""

    @property
    def writes(self) -> bool:
        """Whether it changes anything, and so takes an idempotency key."""
        return self.method != "GET"


def handler_of(operation: Operation, context: AppContext) -> HTTPRouteHandler:
    """Make of an operation what Litestar calls for each request."""
    body, roles, work = operation.body, operation.roles, operation.work
    decode = msgspec.json.Decoder(body.type).decode if body is not None else None
    admit = context.authenticator.admit
    allowed = {query.name: query for query in operation.query}

    async def answer(request: Request[Any, Any, Any]) -> ASGIApp:
        scope: Any = request.scope
        if roles is None:
            call = Call(scope, ANYBODY)
        else:
            caller = await admit(scope["entice_headers"], roles)
            scope["entice_key"] = caller.id
            call = Call(scope, caller)
            if call.path:
                _check_ids(call)
        if scope["query_string"] or allowed:
            call.query = _query(scope["query_string"], allowed)
        if decode is not None and body is not None:
            call.raw = await _raw(request.receive)
            if call.raw or body.required:
                _check_media_type(call.headers)
                try:
                    call.body = decode(call.raw)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    raise unreadable(error, body.schema or body.type) from None
            else:
                call.body = body.type()
        return await work(context, call)

    answer.__name__ = work.__name__
    path = _typed(operation.path)
    made: HTTPRouteHandler = HTTPRouteHandler(path, http_method=operation.method)(answer)  # type: ignore[arg-type]
    return made


def options_of(path: str, methods: Iterable[str]) -> HTTPRouteHandler:
    """Answer OPTIONS with the methods of an address; Litestar's own answer knows one of them."""
    allowed = ", ".join(sorted({"OPTIONS", *methods})).encode()

    async def options(request: Request[Any, Any, Any]) -> ASGIApp:
        return Reply(b"", 204, b"text/plain", (b"allow", allowed))

    made: HTTPRouteHandler = HTTPRouteHandler(_typed(path), http_method="OPTIONS")(options)
    return made


def _typed(path: str) -> str:
    """Write an address as Litestar reads it: only a file's name may have slashes in it."""
    return path.replace("{file}", "{file:path}") if "{file}" in path else path.replace("}", ":str}")


async def carry_out(context: AppContext, call: Call, command: Command) -> Reply:
    """Have the desk do what was asked; under an idempotency key at most once."""
    given = call.headers.get(b"idempotency-key")
    if given is None:
        answer = await context.writer.execute(command)
    else:
        scope = call.scope
        request = context.players.digest(scope["method"], scope["path"], call.raw)
        answer = await context.writer.execute(
            command, scope=call.caller.id, key=_idempotency_key(given), request=request
        )
    if answer.replayed:
        return Reply(answer.body, answer.status, b"application/json", _REPLAYED)
    return Reply(answer.body, answer.status)


_REPLAYED = (b"idempotency-replayed", b"true")


def not_too_deep(given: Any) -> None:
    """Refuse lists and objects that are nested for the sake of it."""
    depth, level = 1, [given]
    while level := [
        inner
        for outer in level
        if isinstance(outer, (dict, list))
        for inner in (outer.values() if isinstance(outer, dict) else outer)
    ]:
        depth += 1
        if depth > DEEPEST:
            raise too_deep()


async def while_connected(receive: Receive, answer: Coroutine[Any, Any, None]) -> None:
    """Give an answer that takes its time, and give it up when the client has left."""
    answering, leaving = asyncio.create_task(answer), asyncio.create_task(_left(receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        answering.cancel()
        await asyncio.gather(leaving, answering, return_exceptions=True)


async def _left(receive: Receive) -> None:
    message: Any = await receive()
    while message["type"] != "http.disconnect":
        message = await receive()


_is_id = re.compile("[A-Za-z0-9._~-]{1,100}").fullmatch


def _check_ids(call: Call) -> None:
    """Refuse ids that no thing can have, and all that lies beyond a key's campaign."""
    path = call.path
    for what, given in path.items():
        if _is_id(given) is None:
            raise not_found(what, given)
    if call.caller.campaign is None:
        return
    if "offer" in path:
        only(call.caller, "offer", path["offer"], path["offer"].partition(".")[0])
    else:
        only(call.caller, "campaign", path["campaign"], path["campaign"])


def _idempotency_key(given: bytes) -> str:
    key = given.decode("latin-1")
    if not 1 <= len(key) <= 200 or not all("!" <= letter <= "~" for letter in key):
        detail = "Idempotency-Key must be 1 to 200 visible ASCII characters, such as a UUID."
        raise Refusal(400, "bad-request", "Bad Idempotency-Key", detail)
    return key


def _query(given: bytes, allowed: dict[str, Query]) -> dict[str, Any]:
    read = {query.name: query.default for query in allowed.values()}
    try:
        pairs = parse_qsl(given.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        detail = "What follows the question mark must be ASCII, with % escapes of UTF-8."
        raise Refusal(422, "invalid", "Bad query", detail) from None
    for name, value in pairs:
        if name not in allowed:
            names = ", ".join(sorted(allowed)) or "none"
            detail = f"There is no parameter {name[:80]!r} here. Allowed: {names}."
            raise Refusal(422, "invalid", "Bad query", detail)
        try:
            read[name] = allowed[name].read(value)
        except ValueError as error:
            detail = f"{name} must be {error}; got {value[:80]!r}."
            raise Refusal(422, "invalid", "Bad query", detail) from None
    return read


def _check_media_type(headers: dict[bytes, bytes]) -> None:
    given = headers.get(b"content-type", b"")
    if given == b"application/json":
        return
    if given.partition(b";")[0].strip().lower() != b"application/json":
        name = given.decode("latin-1")[:80] or "none"
        detail = f"Send JSON, with Content-Type: application/json; got {name}."
        raise Refusal(415, "unsupported-media-type", "Not JSON", detail)


async def _raw(receive: Receive) -> bytes:
    """Read the body, up to the largest one allowed."""
    message: Any = await receive()
    raw: bytes = message.get("body", b"")
    parts, length = [raw], len(raw)
    while message.get("more_body") and length <= _READ_AT_MOST:
        message = await receive()
        part = message.get("body", b"")
        length += len(part)
        if length <= LARGEST_BODY:
            parts.append(part)
    if length > LARGEST_BODY:
        detail = f"A body may have {LARGEST_BODY:,} bytes; send several smaller ones."
        raise Refusal(413, "too-large", "Body too large", detail)
    return raw if len(parts) == 1 else b"".join(parts)
