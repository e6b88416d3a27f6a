"""The OpenAPI document is valid, complete and accepted by generators."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from service_fixtures import HERE, Service, handlers


def test_the_document_has_every_route(shop: Service, document: dict[str, Any]) -> None:
    documented = {
        (path, method.upper()) for path, methods in document["paths"].items() for method in methods
    }
    assert documented == {
        (re.sub(":(str|path)", "", path), method)
        for handler in handlers(shop)
        for path in handler.paths
        for method in handler.http_methods
    }


def test_every_operation_has_a_description_and_examples(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], path
            assert len(operation["description"]) > 20, path
            for status, answer in operation["responses"].items():
                for media in answer["content"].values():
                    has_example = "examples" in media or "example" in media
                    assert has_example or path in _WITHOUT_EXAMPLES, (path, status)
            if method in ("post", "patch"):
                assert operation["requestBody"]["content"]["application/json"]["examples"]


_WITHOUT_EXAMPLES = (
    "/v1/campaigns/{campaign}/export",
    "/v1/campaigns/{campaign}/stream",
    "/metrics",
    "/openapi.json",
    "/",
    "/studio/{file}",
    "/v1/simulations",
    "/v1/plans",
    "/v1/paper",
    "/v1/campaigns/{campaign}/replay",
    "/v1/campaigns/{campaign}/evaluation",
)


def test_the_document_is_fit_for_generators(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    text = json.dumps(document)
    assert set(re.findall(r'"\$ref": "#/components/schemas/(\w+)"', text)) <= set(schemas)
    for name, field in (
        ("OfferView", "state"),
        ("OfferView", "reason"),
        ("CampaignView", "status"),
    ):
        reference = schemas[name]["properties"][field]["$ref"].rpartition("/")[2]
        assert len(schemas[reference]["enum"]) >= 4
    assert not re.search(r'"default": [{\[]', text)
    for path in document["paths"].values():
        for operation in path.values():
            content = operation["responses"]["200" if "200" in operation["responses"] else "201"]
            for media_type, media in content["content"].items():
                if media_type in ("application/x-ndjson", "text/event-stream"):
                    assert "discriminator" in media["schema"] or "$ref" in media["schema"]
    [seed, _] = schemas["CampaignSpec"]["properties"]["seed"]["anyOf"]
    assert seed["maximum"] == 2**53 - 1
    assert schemas["OfferView"]["properties"]["offered_at"]["format"] == "date-time"


def test_examples_fit_their_types(shop: Service) -> None:
    for handler in handlers(shop):
        route = handler.opt["route"]
        for example in route.request_examples.values():
            msgspec.json.decode(msgspec.json.encode(example), type=route.body)
        for example in route.response_examples.values():
            decoded = msgspec.json.decode(msgspec.json.encode(example), type=route.response)
            # No field is missing from the type, and none from the example.
            assert json.loads(msgspec.json.encode(decoded)) == example, handler


def test_options_lists_all_methods(shop: Service) -> None:
    answer = shop.client.options(f"{HERE}/v1/campaigns")
    assert (answer.status_code, answer.headers["allow"]) == (204, "GET, OPTIONS, POST")
