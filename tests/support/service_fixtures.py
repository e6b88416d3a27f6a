"""Services for tests: one in the test's process, and one in a process of its own."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import studio_worker
from command_line import without_coverage
from forking import ForkedPopen
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.testing import TestClient

from entice.local_token import read_token
from entice.service.domain.clock import Clock
from entice.service.http.app import make_app
from entice.service.http.context import AppContext
from entice.service.operations.service_queries import ServiceQueries
from entice.service.storage.api_keys import Keys
from entice.service.storage.player_hasher import player_hasher_for
from entice.service.storage.store import Store, open_store
from entice.service.storage.writer import Writer
from entice.studio.app import studio_extensions

studio_worker.use_in_this_process()

HERE = "http://127.0.0.1:8000"
TOKEN = "entice_local_" + 43 * "t"
WITH_TOKEN = {"authorization": f"Bearer {TOKEN}"}
TEAS: dict[str, Any] = {
    "name": "Teas",
    "arms": ["oolong", "sencha", "matcha"],
    "budget": 50_000,
    "price_of_a_star": 200,
    "cap_per_offer": 400,
    "seed": 7,
}
JSON = {"content-type": "application/json"}


class Service(NamedTuple):
    """A service in this process."""

    client: TestClient[Litestar]
    store: Store
    keys: Keys

    @property
    def context(self) -> AppContext:
        context: AppContext = self.client.app.state.context
        return context

    def campaign(self, **changes: Any) -> str:
        """Create a campaign."""
        answer = self.client.post("/v1/campaigns", json={**TEAS, **changes})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def offer(self, campaign: str, player: str, **more: Any) -> dict[str, Any]:
        """Make an offer."""
        answer = self.client.post(
            f"/v1/campaigns/{campaign}/offers", json={"player": player, **more}
        )
        assert answer.status_code == 201, answer.text
        offer: dict[str, Any] = answer.json()
        return offer

    def bearer(self, role: str, campaign: str | None = None) -> dict[str, str]:
        """Create a key, and return its header."""
        _, secret = self.keys.create(role, campaign, role)
        self.keys.reload()
        return {"authorization": f"Bearer {secret}"}


def handlers(service: Service) -> list[HTTPRouteHandler]:
    """All route handlers but those of OPTIONS."""
    found = {
        id(handler): handler
        for route in service.client.app.routes
        for method, (handler, _) in getattr(route, "route_handler_map", {}).items()
        if method != "OPTIONS"
    }
    return list(found.values())


@contextlib.contextmanager
def service(
    folder: Path,
    *,
    token: str | None = TOKEN,
    wait: bool = True,
    url: str | None = None,
    **options: Any,
) -> Iterator[Service]:
    """Run the service in this process, and wait until it is ready.

    Its database is a file in the folder, or the one at `url`. Its client sends the token, which
    counts until a test creates a key.
    """
    store = open_store(url or f"sqlite:///{folder / 'entice.db'}")
    if url is None:
        (folder / "entice.db.secret").write_text("00" * 32)
    players = player_hasher_for(store)
    keys = Keys(store, players)
    app = make_app(
        store,
        Writer(store, Clock(), players=players),
        ServiceQueries(store),
        keys,
        players,
        token=token,
        extensions=studio_extensions(),
        **options,
    )
    with contextlib.closing(store), TestClient(app, base_url=HERE) as client:
        client.headers.update(WITH_TOKEN)
        made = Service(client, store, keys)
        end = time.monotonic() + 600  # compilation on a busy machine takes long
        while wait and not made.context.ready:
            assert time.monotonic() < end, "the service did not become ready"
            time.sleep(0.01)
        yield made


class Server(NamedTuple):
    """A service in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    @property
    def headers(self) -> dict[str, str]:
        """The token of a service without keys, as a header."""
        return {"authorization": f"Bearer {self.token}"}

    @property
    def token(self) -> str:
        """The token of a service without keys."""
        found = read_token("127.0.0.1", int(self.url.rpartition(":")[2]))
        assert found is not None
        return found

    def post(self, path: str, body: Any) -> Any:
        """Send a request that must succeed, with the token, and return its response."""
        answer = httpx.post(f"{self.url}{path}", json=body, headers=self.headers)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def stop(self, within: float = 120) -> int:
        """Stop the process and return its exit code."""
        self.process.terminate()
        return self.process.wait(within)


@contextlib.contextmanager
def server(folder: Path, *options: str, new: bool = False) -> Iterator[Server]:
    """Run `entice serve` in a folder: forked, or in a new process that coverage measures."""
    log = folder / "server.log"
    command = [str(Path(sys.executable).with_name("entice")), "serve", "--port", "0", *options]
    with log.open("w") as errors:
        process = (subprocess.Popen if new else ForkedPopen)(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True,
            env=None if new else without_coverage(),
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line + log.read_text()
        _wait_until_ready(found[0], log)
        yield Server(process, found[0], log)
    finally:
        process.terminate()
        process.wait(120)
        process.communicate()


def _wait_until_ready(url: str, log: Path) -> None:
    with httpx.Client() as client:  # `httpx.get` would load certificates for each request
        for _ in range(30_000):
            with contextlib.suppress(httpx.TransportError):
                if client.get(f"{url}/readyz").status_code == 200:
                    return
            time.sleep(0.02)
    raise AssertionError(log.read_text())


def assert_problem(answer: Any, status: int, kind: str | None = None) -> dict[str, Any]:
    """Assert that a response has problem details (RFC 9457) without internals; return them."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:entice:problem:")
    assert problem["title"]
    assert problem["detail"].endswith("."), problem
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text
    if kind is not None:
        assert problem["type"] == f"urn:entice:problem:{kind}"
    return problem
