"""Everything that goes wrong is told in one form: RFC 9457, without a trace of the inside."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from entice.errors import EnticeError, InputError, did_you_mean
from entice.service import logs
from entice.service.domain.errors import (
    Corrupt,
    NotReady,
    Refusal,
    SchemaTooNew,
    Stale,
    Unavailable,
)

MEDIA_TYPE = "application/problem+json"

_ROUTES = "The list of all addresses is at /openapi.json."
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class FieldError(msgspec.Struct):
    """One thing that is wrong with a body."""

    pointer: str
    """A JSON pointer (RFC 6901) to it; empty for the body itself."""
    detail: str


class Problem(msgspec.Struct, omit_defaults=True):
    """Why a request was not carried out (RFC 9457). It has changed nothing."""

    type: str
    """`urn:entice:problem:` and a word: programs go by it."""
    title: str
    status: int
    detail: str
    """What was wrong, what is allowed, and what to do."""
    instance: str | None = None
    """Names this one request in the log of the service."""
    errors: list[FieldError] | None = None
    state: str | None = None
    """Of the offer or the campaign, where it rules out what was asked."""


def problem(status: int, kind: str, title: str, detail: str, **extra: Any) -> bytes:
    """Write a problem as JSON."""
    said = {"type": f"urn:entice:problem:{kind}", "title": title, "status": status}
    return msgspec.json.encode({**said, "detail": detail, **extra})


def refusal_of(error: Exception) -> Refusal | None:
    """Say what an error means to the caller, or None if it should never have happened."""
    match error:
        case Refusal():
            return error
        case Unavailable() | Stale():
            return Refusal(
                503,
                "unavailable",
                "The database can't be used just now",
                "Send it again, with the same Idempotency-Key if there was one: then it is carried "
                "out once, whatever became of this attempt.",
            )
        case Corrupt() | SchemaTooNew():
            return Refusal(
                503,
                "out-of-order",
                "The database is out of order",
                "Nothing was changed, and trying again won't help: whoever runs the service finds "
                "the reason in its log.",
            )
        case InputError():
            return Refusal(422, "invalid", "Not valid", str(error).removeprefix("CampaignSpec: "))
        case EnticeError():
            return Refusal(422, "invalid", "Not valid", str(error))
        case HTTPException(status_code=404):
            return Refusal(404, "no-such-address", "No such address", _ROUTES)
        case HTTPException(status_code=405):
            allowed = (error.headers or {}).get("allow", "")
            names = ", ".join(sorted(allowed.replace(" ", "").split(",")))
            detail = f"This address answers to {names} only."
            return Refusal(405, "method-not-allowed", "Method not allowed", detail)
        case HTTPException(status_code=status) if status < 500:
            return Refusal(status, "bad-request", "Bad request", f"{error.detail}.")
    return None


def unreadable(error: Exception, body: type[msgspec.Struct] | None) -> Refusal:
    """Refuse a body that is no JSON, or not the JSON that it should be."""
    if isinstance(error, msgspec.ValidationError):
        return _not_as_declared(str(error), body)
    if isinstance(error, RecursionError):
        return too_deep()
    reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
    detail = (
        f"The body can't be read as JSON: {reason}. JSON has no NaN, no Infinity and no half of a "
        "surrogate pair."
    )
    return Refusal(400, "malformed", "Malformed JSON", detail)


def too_deep() -> Refusal:
    """Refuse JSON that is nested for the sake of it."""
    detail = "The body may nest lists and objects 32 deep; this one goes deeper."
    return Refusal(400, "malformed", "JSON nested too deep", detail)


def respond(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer with a problem; what nobody expected is logged, and told by its number alone."""
    told = refusal_of(error)
    number = request.scope.get("entice_request", "-")
    headers: dict[str, str] = {}
    if told is None:
        logs.unexpected(error, request=number)
        detail = "Something unforeseen happened. Whoever runs the service finds it by `instance`."
        told = Refusal(500, "internal", "Internal error", detail)
    if isinstance(error, (Unavailable, Corrupt, SchemaTooNew)):
        logs.trouble(error, request=number)
    extra = dict(told.extra)
    if told.status >= 500:
        extra["instance"] = f"urn:entice:request:{number}"
    if told.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="entice"'
    if told.status in (429, 503) and told.kind != "out-of-order":
        headers["Retry-After"] = str(told.retry_after) if isinstance(told, NotReady) else "1"
    if told.status == 405 and isinstance(error, HTTPException):
        headers["Allow"] = (error.headers or {}).get("allow", "")
    body = problem(told.status, told.kind, told.title, told.detail, **extra)
    return Response(body, status_code=told.status, media_type=MEDIA_TYPE, headers=headers)


def _not_as_declared(message: str, body: type[msgspec.Struct] | None) -> Refusal:
    said, _, path = message.partition(" - at `$")
    path = path.removesuffix("`")
    where = path.lstrip(".") or "the body"
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", said, re.DOTALL):
        allowed = _fields_at(body, path)
        todo = f" {did_you_mean(found[1], allowed)}" if allowed else ""
        detail = f"{where} has an unknown field {found[1][:80]!r}.{todo}"
    elif found := re.fullmatch(r"Object missing required field `(.*)`", said):
        detail = f"{where} must have the field {found[1]!r}."
    elif found := re.fullmatch(r"Invalid enum value '(.*)'", said, re.DOTALL):
        detail = f"{where} has an unknown value {found[1][:80]!r}. "
        detail += did_you_mean(found[1], _words_at(body, path))
    elif said == "Expected `float` that's a multiple of 1.0":
        detail = f"{where} must be a whole number, such as 4 or 4.0; got one with a fraction."
    else:
        told = re.sub(r"`([^`]*)`", lambda name: _in_words(name[1]), said)
        detail = f"{where}: {told[0].lower()}{told[1:]}."
    pointer = re.sub(r"\[(\d+|\.\.\.)\]", r"/\1", path).replace(".", "/").replace("////", "/...")
    return Refusal(
        422, "invalid", "Not valid", detail, errors=[{"pointer": pointer, "detail": detail}]
    )


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(name, name) for name in types.split(" | "))


def _fields_at(body: Any, path: str) -> list[str]:
    """Name the fields that an object at a path of a body may have."""
    for step in re.findall(r"[A-Za-z_]+", path):
        hint = get_type_hints(body).get(step)
        body = next((part for part in _parts(hint) if _is_struct(part)), None)
        if body is None:
            return []
    return [field.encode_name for field in msgspec.structs.fields(body)] if body else []


def _words_at(body: Any, path: str) -> list[str]:
    """Name the words that a field at a path of a body may be."""
    holder, _, field = path.rpartition(".")
    for step in re.findall(r"[A-Za-z_]+", holder):
        hint = get_type_hints(body).get(step)
        body = next((part for part in _parts(hint) if _is_struct(part)), None)
    hint = get_type_hints(body).get(field) if body is not None else None
    return [word for part in _parts(hint) for word in get_args(part) if isinstance(word, str)]


def _parts(hint: Any) -> list[Any]:
    return [hint, *(part for inner in get_args(hint) for part in _parts(inner))]


def _is_struct(given: Any) -> bool:
    return isinstance(given, type) and issubclass(given, msgspec.Struct)
