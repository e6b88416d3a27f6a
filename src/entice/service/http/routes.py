"""Declaration of routes: Litestar handlers with their roles, responses and examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import QueryParameter
from litestar.types import Method

from entice.service.http.problems import (
    BODILESS_DETAILS,
    MEDIA_TYPE,
    PROBLEMS,
    UNKEYED_DETAILS,
    Problem,
    problem_details,
)
from entice.service.http.requests import authorize, decoder
from entice.service.storage.api_keys import Role

JSON = ("application/json",)
READ: frozenset[Role] = frozenset({"read"})
DECIDE: frozenset[Role] = frozenset({"decide"})
FEEDBACK: frozenset[Role] = frozenset({"feedback"})
ANY_ROLE: frozenset[Role] = READ | DECIDE | FEEDBACK
ADMIN_ONLY: frozenset[Role] = frozenset()
Declare = Callable[[Callable[..., Any]], HTTPRouteHandler]
PUBLIC = None
"""For `roles`: no key is required."""


class Route(NamedTuple):
    """The properties of a route that Litestar does not model, stored in the handler's `opt`."""

    roles: frozenset[Role] | None
    """Roles that may call the route besides admin."""
    body: Any
    """Type of the body as documented. None: the route has no body."""
    body_required: bool
    decode: Callable[[bytes], Any] | None
    response: Any
    """Type of the response, or of one line of it. None: a file or text."""
    media_types: tuple[str, ...]
    query: dict[str, bool]
    """Names of the query parameters, and whether they are whole numbers."""
    request_examples: dict[str, Any]
    response_examples: dict[str, Any]
    id_of: str | None
    """Path parameter of other routes that takes the response's `id`."""


def route(
    method: Method,
    path: str,
    *,
    roles: frozenset[Role] | None,
    responses: dict[int, str],
    examples: dict[str, Any] | None = None,
    request: dict[str, Any] | None = None,
    body: Any = None,
    response: Any = None,
    media_types: tuple[str, ...] = JSON,
    problems: Iterable[int] = (),
    id_of: str | None = None,
) -> Declare:
    """Declare a route. Its function's docstring is the description in `/openapi.json`.

    Parameters
    ----------
    roles
        Roles that may call the route besides admin, or `PUBLIC`.
    responses
        Description of each successful status.
    examples, request
        Examples of the response and of the request's body, by name.
    body
        Type to document for the body, if stricter than the annotation of `data`.
    response
        Type of the response, or of one line of it, if not the function's return type.
    problems
        Error statuses in addition to those implied by the other arguments.
    id_of
        Path parameter of other routes that takes the response's `id`.
    """

    def declare(function: Callable[..., Any]) -> HTTPRouteHandler:
        hints = get_type_hints(function)
        returned = hints["return"]
        if get_origin(returned) and issubclass(get_origin(returned), Response):
            [returned] = get_args(returned)
        data = hints.get("data")
        optional = type(None) in get_args(data)
        made = Route(
            roles=roles,
            body=body or (get_args(data)[0] if optional else data),
            body_required=not optional,
            decode=decoder(data) if data is not None else None,
            response=response or (returned if media_types == JSON else None),
            media_types=media_types,
            query=dict(_query_parameters(get_type_hints(function, include_extras=True))),
            request_examples=request or {},
            response_examples=examples or {},
            id_of=id_of,
        )
        summary, _, description = (inspect.getdoc(function) or "").partition("\n\n")
        words = " ".join(description.split())
        if roles is not None:
            words += f" Roles: {', '.join(['admin', *sorted(roles)])}."
        handler: HTTPRouteHandler = HTTPRouteHandler(
            path,
            http_method=method,
            status_code=next(iter(responses)),
            guards=[authorize],
            opt={"route": made},
            operation_id=function.__name__,
            summary=summary.removesuffix("."),
            description=words,
            tags=[path.split("/")[2] if path.startswith("/v1/") else "service"],
            security=[{"key": []}] if roles is not None else [],
            responses=_responses(
                made, path, method, responses, problems, keyed="idempotency_key" in hints
            ),
        )(function)
        return handler

    return declare


def _query_parameters(hints: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    for name, hint in hints.items():
        for definition in getattr(hint, "__metadata__", ()):
            if isinstance(definition, QueryParameter):
                annotation = get_args(hint)[0]
                yield definition.name or name, int in (annotation, *get_args(annotation))


def _responses(
    made: Route,
    path: str,
    method: str,
    successes: dict[int, str],
    problems: Iterable[int],
    *,
    keyed: bool,
) -> dict[int, ResponseSpec]:
    found = {
        status: ResponseSpec(str, False, description)  # `openapi` inserts the schema
        for status, description in successes.items()
    }
    statuses = {400, 403, 422, *problems}
    if made.roles is not None:
        statuses |= {401, 429, 503}
    if "{" in path:
        statuses.add(404)
    if made.body is not None:
        statuses |= {408, 413, 415}
    if method != "GET":
        statuses.add(409)
    details = ({} if made.body is not None else BODILESS_DETAILS) | (
        {} if keyed else UNKEYED_DETAILS
    )
    for status in sorted(statuses):
        kind, title, detail = PROBLEMS[status]
        detail = details.get(status, detail)
        example = Example(value=problem_details(status, kind, title, detail))
        found[status] = ResponseSpec(Problem, False, detail, MEDIA_TYPE, examples=[example])
    return found
