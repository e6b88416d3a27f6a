"""Errors as problem details (RFC 9457), without internal information."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, get_args, get_type_hints

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, InternalServerException, ValidationException
from litestar.params import HeaderParameter, ParameterKwarg
from litestar.plugins.problem_details import ProblemDetailsException

from entice.errors import EnticeError, InputError, did_you_mean
from entice.service import logs
from entice.service.domain.changes import fixed_setting_error
from entice.service.domain.errors import (
    Corrupt,
    DamagedCampaign,
    NotReady,
    Refusal,
    SchemaTooNew,
    Stale,
    Unavailable,
)

MEDIA_TYPE = "application/problem+json"

PROBLEMS = {
    400: ("malformed", "Malformed request", "The body is not JSON, or a header is invalid."),
    401: ("unauthorized", "API key required", "The API key is missing, unknown or revoked."),
    403: (
        "forbidden",
        "Not allowed",
        "The API key has another role, or a page of another site sent the request.",
    ),
    404: ("not-found", "Not found", "The object does not exist, or the key has no access to it."),
    409: ("conflict", "Conflict", "The current state does not allow this request."),
    408: ("timeout", "Body not received in time", "The body did not arrive in time."),
    413: ("too-large", "Body too large", "The body is larger than 1 MiB."),
    415: (
        "unsupported-media-type",
        "Unsupported media type",
        "The body must be application/json.",
    ),
    422: ("invalid", "Invalid request", "A field or a parameter is invalid."),
    429: ("too-many", "Too many requests", "Too many of these are in progress. Try again later."),
    503: (
        "unavailable",
        "Database unavailable",
        "The database is unavailable. Repeat the request with the same Idempotency-Key.",
    ),
    507: (
        "no-temporary-space",
        "No temporary space",
        "The service could not write to its temporary folder.",
    ),
}
"""The type, the title and the description of each status that routes document."""

BODILESS_DETAILS = {
    400: "A header is invalid.",
    422: "A parameter is invalid.",
}
"""Descriptions for requests without a body."""

UNKEYED_DETAILS = {503: "The database is unavailable. Repeat the request."}
"""Descriptions for requests that take no Idempotency-Key."""

_TYPE_NAMES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class FieldError(msgspec.Struct):
    """An error in one field of a body."""

    pointer: str
    """JSON pointer (RFC 6901) to the field. Empty for the body itself."""
    detail: str


class Problem(msgspec.Struct, omit_defaults=True):
    """An error (RFC 9457). A request with a 4xx status has changed nothing."""

    type: str
    """`urn:entice:problem:` and a code. Programs should test this field."""
    title: str
    status: int
    detail: str
    """Description of the error, of the allowed values, and of the next step."""
    instance: str | None = None
    """Id of the request in the service's log."""
    errors: list[FieldError] | None = None
    """Errors in fields of the body."""
    state: str | None = None
    """State of the offer or of the campaign that does not allow the request."""
    least: int | None = None
    """Smallest budget allowed: the sum spent and reserved."""


def problem_details(
    status: int, kind: str, title: str, detail: str, **extra: Any
) -> dict[str, Any]:
    """Return the fields of a problem."""
    problem = {"type": f"urn:entice:problem:{kind}", "title": title, "status": status}
    return {**problem, "detail": detail, **extra}


def respond(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, Any]]:
    """Handle an exception: return its problem, and log it if it was unexpected.

    This uses Litestar's `ProblemDetailsException` but not its plugin, whose exception converters
    do not receive the request. The request's number is needed for the problem's `instance`.
    """
    number = request.scope.get("entice_request", "-")
    refusal = refusal_of(request, error)
    if refusal is None:
        logs.unexpected(error, request=number)
        detail = "Internal error. Quote `instance` when you report it."
        refusal = Refusal(500, "internal", "Internal error", detail)
    if isinstance(error, Unavailable) or refusal.kind == "out-of-order":
        logs.database_error(error, request=number)
    headers: dict[str, str] = {}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="entice"'
    if refusal.status in (429, 503) and refusal.kind != "out-of-order":
        headers["Retry-After"] = str(refusal.retry_after) if isinstance(refusal, NotReady) else "1"
    if refusal.status == 405 and isinstance(error, HTTPException):
        headers["Allow"] = (error.headers or {}).get("allow", "")
    return ProblemDetailsException(
        status_code=refusal.status,
        type_=f"urn:entice:problem:{refusal.kind}",
        title=refusal.title,
        detail=refusal.detail,
        instance=f"urn:entice:request:{number}" if refusal.status >= 500 else None,
        extra=refusal.extra,
        headers=headers,
    ).to_response(request)


def refusal_of(request: Request[Any, Any, Any], error: Exception) -> Refusal | None:
    """Return the `Refusal` that describes an exception; None if it is an internal error."""
    match error:
        case Refusal():
            return error
        case Unavailable() | Stale():
            return Refusal(
                503,
                "unavailable",
                "Database unavailable",
                "Repeat the request, with the same Idempotency-Key if it had one: it is then "
                "executed once, whatever happened to this attempt.",
            )
        case DamagedCampaign():
            return Refusal(
                503,
                "out-of-order",
                "Campaign out of order",
                f"{error} Nothing was changed, and a retry will not help. Other campaigns are "
                "served.",
            )
        case Corrupt() | SchemaTooNew():
            return Refusal(
                503,
                "out-of-order",
                "Database out of order",
                "Nothing was changed. A retry will not help: the service's log has the reason.",
            )
        case InputError():
            detail = str(error).removeprefix("CampaignSpec: ")
            return Refusal(422, "invalid", "Invalid request", detail)
        case EnticeError():
            return Refusal(422, "invalid", "Invalid request", str(error))
        case ValidationException():
            return _parameter_problem(request, error)
        case HTTPException(status_code=404):
            detail = "No such path. /openapi.json lists all paths."
            return Refusal(404, "no-such-address", "No such path", detail)
        case HTTPException(status_code=405):
            allowed = (error.headers or {}).get("allow", "")
            names = ", ".join(sorted(allowed.replace(" ", "").split(",")))
            detail = f"This path allows {names} only."
            return Refusal(405, "method-not-allowed", "Method not allowed", detail)
        case HTTPException(status_code=413):
            detail = "The body must have at most 1,048,576 bytes. Split it into several requests."
            return Refusal(413, "too-large", "Body too large", detail)
        case InternalServerException(detail="client disconnected prematurely"):
            return Refusal(400, "malformed", "Malformed request", "The body is incomplete.")
        case HTTPException(status_code=status) if status < 500:
            return Refusal(status, "bad-request", "Bad request", f"{error.detail}.")
    return None


def body_problem(error: Exception, body: Any, content: bytes) -> Refusal:
    """Return the problem of content that could not be decoded to its documented type, `body`."""
    if isinstance(error, msgspec.ValidationError):
        return _field_problem(str(error), body, content)
    if isinstance(error, RecursionError):
        return too_deep(32)
    reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
    detail = (
        f"The body is not valid JSON: {reason}. JSON has no NaN, no Infinity and no unpaired "
        "surrogates."
    )
    return Refusal(400, "malformed", "Malformed JSON", detail)


def too_deep(limit: int) -> Refusal:
    """Return the problem of a body that is nested too deep."""
    detail = f"The body may nest lists and objects {limit} deep; this one goes deeper."
    return Refusal(400, "malformed", "JSON nested too deep", detail)


def _parameter_problem(request: Request[Any, Any, Any], error: ValidationException) -> Refusal:
    """Translate Litestar's error for a query parameter or a header."""
    found: Any = error.extra
    name = found[0].get("key", "") if found else ""
    if name == "data":
        detail = "The request requires a JSON body."
        return Refusal(400, "malformed", "Malformed request", detail)
    field = request.route_handler.parsed_fn_signature.parameters[name]
    definition = field.kwarg_definition
    assert isinstance(definition, ParameterKwarg)
    name = definition.name or name
    if isinstance(definition, HeaderParameter):
        detail = f"{name} must be {_HEADERS[name]}."
        return Refusal(400, "bad-request", f"Invalid {name}", detail)
    value = str(request.query_params.get(name, ""))[:80]
    if allowed := _choices(field.annotation):
        detail = f"{name} has an unknown value {value!r}. {did_you_mean(value, allowed)}"
    else:
        detail = f"{name} must be {_rule(field.annotation, definition)}; got {value!r}."
    return Refusal(422, "invalid", "Invalid query", detail)


_HEADERS = {
    "Idempotency-Key": "1 to 200 visible ASCII characters, such as a UUID",
    "Last-Event-ID": "the id of an event, a whole number",
}


def _rule(annotation: Any, definition: ParameterKwarg) -> str:
    """Describe the values that a parameter may have."""
    if int in _parts(annotation):
        return f"a whole number from {definition.ge or 0} to {definition.le}"
    return f"text of {definition.min_length} to {definition.max_length} characters"


def _field_problem(message: str, body: Any, content: bytes) -> Refusal:
    """Translate msgspec's message for a field of a body."""
    words, _, path = message.partition(" - at `$")
    path = path.removesuffix("`")
    where = path.lstrip(".") or "the body"
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", words, re.DOTALL):
        if found[1] in getattr(body, "fixed_settings", ()) and not path:
            return fixed_setting_error(found[1])
        allowed = _fields_at(body, path)
        todo = f" {did_you_mean(found[1], allowed)}" if allowed else ""
        detail = f"{where} has an unknown field {found[1][:80]!r}.{todo}"
    elif found := re.fullmatch(r"Object missing required field `(.*)`", words):
        detail = f"{where} must have the field {found[1]!r}."
    elif found := re.fullmatch(r"Invalid enum value '(.*)'", words, re.DOTALL):
        detail = f"{where} has an unknown value {found[1][:80]!r}. "
        detail += did_you_mean(found[1], _values_at(body, path))
    elif words == "Expected `float` that's a multiple of 1.0":
        detail = f"{where} must be a whole number, such as 4 or 4.0{_given_at(content, path)}."
    else:
        plain = re.sub(r"`([^`]*)`", lambda name: _type_names(name[1]), words)
        given = "" if ", got " in plain else _given_at(content, path)
        detail = f"{where}: {plain[0].lower()}{plain[1:]}{given}."
    pointer = re.sub(r"\[(\d+|\.\.\.)\]", r"/\1", path).replace(".", "/").replace("////", "/...")
    errors = [{"pointer": pointer, "detail": detail}]
    return Refusal(422, "invalid", "Invalid request", detail, errors=errors)


def _type_names(types: str) -> str:
    return " or ".join(_TYPE_NAMES.get(name, name) for name in types.split(" | "))


def _given_at(content: bytes, path: str) -> str:
    """Describe the value at a path of a body. msgspec does not name the keys of mappings."""
    try:
        value = msgspec.json.decode(content)
        for name, index in re.findall(r"\.(\w+)|\[(\d+|\.{3})\]", path):
            value = value[name] if name else value[int(index)]
    except (msgspec.MsgspecError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    if isinstance(value, list) and len(value) > 1:
        return f"; got a list of length {len(value)}"
    text = msgspec.json.encode(value).decode()
    return f"; got {text if len(text) <= 80 else f'{text[:79]}…'}"


def _fields_at(body: Any, path: str) -> list[str]:
    """List the fields of the object at a path of a body."""
    struct = _struct_at(body, path)
    return [field.encode_name for field in msgspec.structs.fields(struct)] if struct else []


def _values_at(body: Any, path: str) -> list[str]:
    """List the values that the field at a path of a body may have."""
    parent, _, field = path.rpartition(".")
    struct = _struct_at(body, parent)
    return _choices(get_type_hints(struct).get(field)) if struct else []


def _choices(hint: Any) -> list[str]:
    """List the values of the enums and literals in a type."""
    parts = _parts(hint)
    values = [v for part in parts for v in (part if _is(part, Enum) else get_args(part))]
    return [str(value) for value in values if isinstance(value, str)]


def _struct_at(body: Any, path: str) -> Any:
    for step in re.findall(r"[A-Za-z_]+", path):
        hint = get_type_hints(body).get(step)
        body = next((part for part in _parts(hint) if _is(part, msgspec.Struct)), None)
        if body is None:
            return None
    return body


def _parts(hint: Any) -> list[Any]:
    return [hint, *(part for inner in get_args(hint) for part in _parts(inner))]


def _is(part: Any, kind: type) -> bool:
    return isinstance(part, type) and issubclass(part, kind)
