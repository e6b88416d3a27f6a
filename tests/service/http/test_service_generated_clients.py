"""Clients generated from the OpenAPI document, in Python and in TypeScript, work."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from service_fixtures import Service, server

from entice.service.storage.api_keys import Keys
from entice.service.storage.store import open_store

TYPESCRIPT = Path(__file__).parents[2] / "support" / "typescript"


@pytest.fixture(scope="module")
def generated(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Python client generated from the document, importable as `generated_entice`."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_text(json.dumps(document))
    package = folder / "generated_entice"
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    options = ["--path", folder / "openapi.json", "--output-path", package]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield package
    sys.path.remove(str(folder))


def test_the_python_generator_keeps_every_operation_and_schema(
    generated: Path, document: dict[str, Any]
) -> None:
    operations = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    }
    assert operations <= {path.stem for path in (generated / "api").glob("*/*.py")}
    models = {path.stem.replace("_", "") for path in (generated / "models").glob("*.py")}
    assert {name.lower() for name in document["components"]["schemas"]} <= models


def test_a_generated_python_client_drives_an_offer_to_its_rating(
    generated: Path, shop: Service
) -> None:
    def api(module: str) -> Any:
        return importlib.import_module(f"generated_entice.api.{module}").sync

    models = importlib.import_module("generated_entice.models")
    client = importlib.import_module("generated_entice").Client(base_url="http://127.0.0.1:8000")
    client.set_httpx_client(shop.client)
    spec = models.CampaignSpec(
        name="Teas", arms=["oolong", "sencha"], budget=50_000, price_of_a_star=200, seed=7
    )
    campaign = api("campaigns.create_campaign")(client=client, body=spec)
    assert campaign.status is models.CampaignStatus.LIVE
    player = models.OfferRequest(player="ann")
    offer = api("campaigns.make_offer")(
        campaign.id, client=client, body=player, idempotency_key="first"
    )
    assert offer.state is models.OfferState.OFFERED
    accepted = api("offers.accept_offer")(offer.id, client=client, body=models.AcceptRequest())
    assert accepted.state is models.OfferState.ACCEPTED
    rated = api("offers.rate_offer")(offer.id, client=client, body=models.RatingRequest(rating=4))
    assert (rated.state, rated.rating) == (models.OfferState.RATED, 4)
    rated_offers = api("campaigns.list_offers")(
        campaign.id, client=client, state=models.OfferState.RATED, player="ann"
    )
    assert [one.id for one in rated_offers.offers] == [offer.id]
    problem = api("offers.decline_offer")(offer.id, client=client, body=models.EmptyRequest())
    assert (problem.status, problem.state) == (409, "rated")


def test_a_generated_typescript_client_drives_an_offer_to_its_rating(
    document: dict[str, Any], tmp_path: Path
) -> None:
    assert (TYPESCRIPT / "node_modules").is_dir(), "Run `make typescript` first."
    for name in ("drive_offer.ts", "package.json", "tsconfig.json"):
        shutil.copy(TYPESCRIPT / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(TYPESCRIPT / "node_modules")
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    tools = tmp_path / "node_modules" / ".bin"
    _run(tmp_path, tools / "openapi-typescript", "openapi.json", "--output", "api.d.ts")
    _run(tmp_path, tools / "tsc", "--project", ".")  # fails if a call does not fit the types
    with closing(open_store(f"sqlite:///{tmp_path / 'entice.db'}")) as store:
        _, key = Keys(store).create("admin", None, "test")
    with server(tmp_path) as running:
        found = json.loads(_run(tmp_path, "node", "drive_offer.js", running.url, key))
    assert found == {
        "state": "rated", "rating": 4, "listed": [found["made"]], "made": found["made"],
    }  # fmt: skip


def _run(folder: Path, *command: str | Path) -> str:
    # `make typescript` installs Node.js beside Python where the system has none.
    path = os.pathsep.join((os.environ["PATH"], str(Path(sys.executable).parent)))
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
