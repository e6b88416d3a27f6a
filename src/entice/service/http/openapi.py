"""The OpenAPI document: Litestar's, with msgspec's schemas and the routes' examples."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from litestar import Litestar
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, License, SecurityScheme
from litestar.types import ControllerRouterHandler

import entice
from entice.service.http.problems import Problem
from entice.service.http.requests import ServiceRequest, StrictJson
from entice.service.http.routes import Route

_CONFIG = OpenAPIConfig(
    title="Entice",
    version=entice.__version__,
    description="Incentivized exploration: each offer names an arm and a payment, within a budget "
    "that cannot be overspent. Amounts of money are whole numbers of the currency's minor unit. "
    "Times are RFC 3339 in UTC. Errors are problem details (RFC 9457).",
    license=License(name="Apache-2.0", identifier="Apache-2.0"),
    components=Components(
        security_schemes={
            "key": SecurityScheme(
                type="http",
                scheme="bearer",
                description="An API key from `entice keys create`. As long as no key exists, "
                "the token that `entice serve` printed.",
            )
        }
    ),
)


def describe(route_handlers: Sequence[ControllerRouterHandler]) -> bytes:
    """Return the OpenAPI 3.1 document of some routes as JSON.

    A separate app generates the document, because Litestar would add its own routes to the one that
    serves requests. msgspec's schemas replace Litestar's, which lack the constraints that make
    requests strict (no unknown fields, unique items).
    """
    app = Litestar(
        list(route_handlers),
        openapi_config=_CONFIG,
        request_class=ServiceRequest,
        dto=StrictJson,
        return_dto=None,
    )
    document = app.openapi_schema.to_schema()
    routes = {
        (path.path_format or "/", method.lower()): handler.opt["route"]
        for path in app.routes
        for method, (handler, _) in getattr(path, "route_handler_map", {}).items()
        if "route" in handler.opt
    }
    operations = {key: document["paths"][key[0]][key[1]] for key in routes}
    bodies = {key: route.body for key, route in routes.items() if route.body is not None}
    results = {key: route.response for key, route in routes.items() if route.response is not None}
    kinds = [*bodies.values(), *results.values(), Problem]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    types = {kind.__name__: kind for kind in _structs() if kind.__module__.startswith("entice.")}
    for name, schema in components.items():
        document["components"]["schemas"][name] = _with_descriptions(schema, types.get(name))
    body_schemas = dict(zip(bodies, schemas, strict=False))
    result_schemas = dict(zip(results, schemas[len(bodies) :], strict=False))
    for key, route in routes.items():
        operation = operations[key]
        if key in bodies:
            operation["requestBody"] = _request_body(route, body_schemas[key])
        _finish_parameters(operation)
        _finish_successes(operation, route, result_schemas.get(key, {"type": "string"}))
        if route.id_of is not None:
            _add_links(operation, route.id_of, operations)
    return msgspec.json.encode(document)


def _request_body(route: Route, schema: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema, "examples": _named(route.request_examples)}}
    return {"required": route.body_required, "content": content}


def _named(examples: dict[str, Any]) -> dict[str, Any]:
    return {name: {"value": value} for name, value in examples.items()}


def _finish_parameters(operation: dict[str, Any]) -> None:
    """Remove null from optional parameters: a query string cannot contain it."""
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        parts = schema.pop("oneOf", None)
        if parts is not None:
            [part] = [part for part in parts if part != {"type": "null"}]
            parameter["schema"] = part | schema if "$ref" not in part else part


def _finish_successes(operation: dict[str, Any], route: Route, schema: dict[str, Any]) -> None:
    """Insert the schema, the examples, and all media types (Litestar documents one)."""
    media: dict[str, Any] = {"schema": schema}
    if route.response_examples:
        media["examples"] = _named(route.response_examples)
    for status, response in operation["responses"].items():
        if status < "300":
            response["content"] = dict.fromkeys(route.media_types, media)
        else:
            [problem] = response["content"].values()
            [example] = problem.pop("examples").values()
            problem["example"] = example["value"]


def _add_links(
    operation: dict[str, Any], name: str, operations: dict[tuple[str, str], dict[str, Any]]
) -> None:
    """Link a response's id to the operations that take it, so that tools can follow it."""
    parameters = {name: "$response.body#/id"}
    links = {
        other["operationId"]: {"operationId": other["operationId"], "parameters": parameters}
        for (path, _), other in operations.items()
        if re.findall(r"{(\w+)}", path) == [name]
    }
    for status, response in operation["responses"].items():
        if status < "300":
            response["links"] = links


def _with_descriptions(schema: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Add the docstrings of a type and of its fields, and move defaults into the descriptions.

    openapi-python-client drops operations with a default that is an object, and openapi-typescript
    treats fields with a default as required.
    """
    if "description" in schema:
        first = " ".join(schema["description"].partition("\n\n")[0].split())
        schema = {**schema, "description": first}
    if kind is None or "properties" not in schema:
        return schema
    texts = field_docstrings(kind)
    fields = {}
    for name, field in schema["properties"].items():
        default = field.pop("default", None)
        words = [field.get("description") or texts.get(name, "")]
        if default not in (None, [], {}):
            shown = default["kind"] if isinstance(default, dict) else default
            words.append(f"Default: {msgspec.json.encode(shown).decode()}.")
        description = " ".join(word for word in words if word)
        fields[name] = {**field, "description": description} if description else field
    return {**schema, "properties": fields}


@lru_cache
def field_docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings below a class's fields, which Python itself does not keep."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(body, ast.ClassDef)
    return _documented_parameters(inspect.getdoc(kind) or "") | {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _documented_parameters(docstring: str) -> dict[str, str]:
    """Return the descriptions in the "Parameters" section of a docstring."""
    section = docstring.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    return {
        name: " ".join(text.replace("``", "`").split())
        for names, text in re.findall(r"^(\w[\w, ]*)\n((?: +.*\n?)+)", section, re.MULTILINE)
        for name in names.split(", ")
    }


def _structs(base: type[Any] = msgspec.Struct) -> Iterator[type[Any]]:
    """Yield all struct types. Their names are unique in the package."""
    for kind in base.__subclasses__():
        yield kind
        yield from _structs(kind)
