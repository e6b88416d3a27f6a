"""The description of the API, in OpenAPI 3.1: made from the same operations that answer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import msgspec

import entice
from entice.service.http.operation import Operation
from entice.service.http.problems import MEDIA_TYPE, Problem, problem

_PARAMETERS = {
    "campaign": ("The id of a campaign.", "c_9f2c1ab34d5e6f70"),
    "offer": (
        "The id of an offer: that of its campaign, a dot, a number.",
        "c_9f2c1ab34d5e6f70.312",
    ),
    "arm": ("The id of an arm.", "oolong"),
    "file": ("The path of a file of the studio.", "plotly.min.js"),
}

_PROBLEMS = {
    400: ("malformed", "Malformed", "The request can't be read: no JSON, or a bad header."),
    401: ("unauthorized", "A key is needed", "The key is missing, unknown or revoked."),
    403: (
        "forbidden",
        "Not allowed",
        "The key has another role; or, without keys, the request came through a foreign host name "
        "or from a foreign page.",
    ),
    404: ("not-found", "No such campaign", "It does not exist, or not for this key."),
    409: ("conflict", "Not possible now", "The present state of things rules it out."),
    413: ("too-large", "Body too large", "The body is larger than 1 MiB."),
    415: ("unsupported-media-type", "Not JSON", "The body must be application/json."),
    422: ("invalid", "Not valid", "Something in the request is not as it must be."),
    429: ("too-many", "Too many", "Too many of these are under way. Try again later."),
    503: ("unavailable", "The database can't be used just now", "Nothing was changed. Try again."),
}

_IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key with the same request is answered as the first time, and done "
    "once; with another request it is refused (422). Remembered for a week.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}


def describe(operations: Iterable[Operation]) -> bytes:
    """Write the description as JSON."""
    known = list(operations)
    bodies = [o.body.schema or o.body.type for o in known if o.body is not None]
    answers = [o.answered.type for o in known if o.answered.type is not None]
    schemas, components = msgspec.json.schema_components(
        [*bodies, *answers, Problem], ref_template="#/components/schemas/{name}"
    )
    body_schemas = iter(schemas[: len(bodies)])
    answer_schemas = iter(schemas[len(bodies) :])
    paths: dict[str, Any] = {}
    for operation in known:
        body = next(body_schemas) if operation.body is not None else None
        answer = next(answer_schemas) if operation.answered.type is not None else None
        told = _operation(operation, body, answer)
        for status in operation.answered.statuses:
            told["responses"][str(status)] |= _links(operation, known)
        paths.setdefault(operation.path, {})[operation.method.lower()] = told
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Entice",
            "version": entice.__version__,
            "description": "An arm and a price in one call, and a budget that can't be overspent. "
            "Money is in whole minor units, times are RFC 3339 in UTC. Errors are problems by "
            "RFC 9457.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {name: _short(schema) for name, schema in components.items()},
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key made by `entice keys create`. Not needed on loopback "
                    "while there is no key.",
                }
            },
        },
    }
    return msgspec.json.encode(document)


def statuses_of(operation: Operation) -> set[int]:
    """Return the problems that an operation may answer with."""
    statuses = {400, 403, *operation.problems}
    if operation.roles is not None:
        statuses |= {401, 503}
    if "{" in operation.path:
        statuses.add(404)
    if operation.body is not None:
        statuses |= {413, 415, 422}
    if operation.writes:
        statuses |= {409, 422}
    statuses.add(422)  # a parameter that there is not
    return statuses


def _operation(operation: Operation, body: Any, answer: Any) -> dict[str, Any]:
    summary, _, description = (inspect.getdoc(operation.work) or "").partition("\n\n")
    told: dict[str, Any] = {
        "operationId": operation.work.__name__,
        "summary": summary.removesuffix("."),
        "description": " ".join(description.split()),
        "tags": [operation.path.split("/")[2] if "/v1/" in operation.path else "service"],
        "parameters": _parameters(operation),
        "responses": _responses(operation, answer),
        "security": [],
    }
    if operation.roles is not None:
        told["security"] = [{"key": []}, {}]
        roles = ", ".join(["admin", *sorted(operation.roles)])
        told["description"] += f" Roles: {roles}."
    if operation.body is not None:
        examples = {name: {"value": value} for name, value in operation.body.examples.items()}
        content = {"application/json": {"schema": body, "examples": examples}}
        told["requestBody"] = {"required": operation.body.required, "content": content}
    return told


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in re.findall(r"{(\w+)}", operation.path):
        words, example = _PARAMETERS[name]
        found.append(
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": words,
                "schema": {"type": "string", "minLength": 1},
                "example": example,
            }
        )
    for query in operation.query:
        found.append(
            {
                "name": query.name,
                "in": "query",
                "required": query.default is ...,
                "description": query.description,
                "schema": query.schema,
            }
        )
    return [*found, _IDEMPOTENCY] if operation.writes else found


def _responses(operation: Operation, answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    answered = operation.answered
    examples = {name: {"value": value} for name, value in answered.examples.items()}
    for status, words in answered.statuses.items():
        media: dict[str, Any] = {"schema": answer if answer is not None else {"type": "string"}}
        if examples:
            media["examples"] = examples
        found[str(status)] = {
            "description": words,
            "content": dict.fromkeys(answered.media_types, media),
        }
    for status in sorted(statuses_of(operation)):
        kind, title, words = _PROBLEMS[status]
        example = msgspec.json.decode(problem(status, kind, title, words))
        media = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}
        found[str(status)] = {"description": words, "content": {MEDIA_TYPE: media}}
    return found


def _links(operation: Operation, known: list[Operation]) -> dict[str, Any]:
    """Say which operations the id in an answer is for."""
    name = operation.answered.names
    if name is None:
        return {}
    followers = [o.work.__name__ for o in known if re.findall(r"{(\w+)}", o.path) == [name]]
    parameters = {name: "$response.body#/id"}
    return {"links": {f: {"operationId": f, "parameters": parameters} for f in followers}}


def _short(schema: Any) -> Any:
    """Keep the first paragraph of a description: the rest is for those who write Python."""
    if isinstance(schema, dict) and isinstance(schema.get("description"), str):
        first = " ".join(schema["description"].partition("\n\n")[0].split())
        return {**schema, "description": first}
    return schema
