"""Services and databases for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres import Postgres
from service_fixtures import Service, service


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that the tests of a module share."""
    with service(tmp_path_factory.mktemp("shop")) as running:
        yield running


@pytest.fixture
def own_shop(tmp_path: Path) -> Iterator[Service]:
    """A service for one test alone."""
    with service(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def document(shop: Service) -> dict[str, Any]:
    """The OpenAPI document of the service."""
    found: dict[str, Any] = shop.client.get("/openapi.json").json()
    return found


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, SQLite or PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'entice.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()
