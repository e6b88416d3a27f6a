"""Clients that do not read, do not send, or open too many connections."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hostile_clients import HostileClients, established, wait_until
from service_fixtures import JSON, TEAS, Service, assert_problem, server

from entice.errors import InputError
from entice.service.http import app as app_module
from entice.service.http import connections as connections_module
from entice.service.http.connections import ClientLimits, Connections, listen
from entice.service.storage.api_keys import Keys
from entice.service.storage.store import open_store

END_OF_STREAM = b"0\r\n\r\n"
SCRIPT = "/studio/plotly.min.js"
"""4.8 MB: more than the buffers of both sides take."""


def large_campaign(url: str, **headers: str) -> str:
    """Create a campaign whose log and export are larger than all buffers: 0.6 MB."""
    arms = [f"item-{i}" for i in range(1000)]
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        campaign = str(client.post("/v1/campaigns", json={**TEAS, "arms": arms}).json()["id"])
        requests = [{"player": f"player {i}"} for i in range(120)]
        path = f"/v1/campaigns/{campaign}/offers/batch"
        assert client.post(path, json={"requests": requests}).status_code == 201
    return campaign


@pytest.mark.parametrize("timeout", [0.5, 60])
def test_clients_that_do_not_read_or_send_are_cut_off(tmp_path: Path, timeout: float) -> None:
    """With a long time-out, the control, they keep their connections."""
    with (
        server(tmp_path, "--client-timeout", str(timeout)) as running,
        HostileClients(running.url) as clients,
    ):
        for _ in range(20):
            clients.send("GET", SCRIPT)
        half_sent = [
            clients.send("POST", "/v1/campaigns", key=running.token, body="{") for _ in range(5)
        ]
        assert httpx.get(f"{running.url}/healthz", timeout=10).status_code == 200
        if timeout > 1:
            time.sleep(1.5)
            assert established(running.url) == 25
            return
        for client in half_sent:
            answer = read_to_the_end(client)
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 408
        wait_until(lambda: established(running.url) == 0)


@pytest.fixture
def accepted() -> Iterator[tuple[socket.socket, list[socket.socket], list[socket.socket]]]:
    """A listening socket, ten clients at one address and three at another, their connections."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(listen("127.0.0.1", 0, 50))
        clients, served = [], []
        for i in range(13):
            client = sockets.enter_context(socket.socket())
            client.bind(("127.0.0.2" if i < 10 else "127.0.0.3", 0))
            client.connect(listener.getsockname())
            clients.append(client)
            served.append(sockets.enter_context(listener.accept()[0]))
        yield listener, clients, served


def open_of(served: list[socket.socket]) -> list[bool]:
    """Return which connections were not shut down."""
    polled = select.poll()
    for connection in served:
        polled.register(connection, select.POLLRDHUP)
    closed = {fd for fd, _ in polled.poll(0)}
    return [connection.fileno() not in closed for connection in served]


def test_connections_are_limited_per_address(
    accepted: tuple[socket.socket, list[socket.socket], list[socket.socket]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener, clients, served = accepted
    connections = Connections(ClientLimits(per_address=4), listener.getsockname()[1])
    executing = [client.getsockname() for client in clients[:6]]
    assert connections.enforce(executing) == 0  # loopback is exempt
    monkeypatch.setattr(connections_module, "_network", lambda address: address.encode())
    assert connections.enforce(executing) == 4
    assert open_of(served) == [True] * 6 + [False] * 4 + [True] * 3
    for connection in served[6:10]:
        connection.close()
    assert connections.enforce([]) == 2
    assert sum(open_of(served[:6])) == 4
    assert all(open_of(served[10:]))


def test_the_last_piece_of_a_response_does_not_wait(
    accepted: tuple[socket.socket, list[socket.socket], list[socket.socket]],
) -> None:
    """Without this option, responses of more than one piece took 44 ms instead of 1.5."""
    _, _, served = accepted
    assert all(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in served)


def test_connections_without_a_request_are_closed_before_there_are_too_many(
    accepted: tuple[socket.socket, list[socket.socket], list[socket.socket]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener, clients, served = accepted
    connections = Connections(ClientLimits(), listener.getsockname()[1])
    assert connections.enforce([]) == 0
    monkeypatch.setattr(connections_module, "MAX_CONNECTIONS", 12)
    executing = [client.getsockname() for client in clients[4:]]
    assert connections.enforce(executing) == 4  # three quarters of 12 stay
    assert open_of(served) == [False] * 4 + [True] * 9


def test_an_ipv6_network_counts_as_one_address() -> None:
    network = connections_module._network
    assert network("2001:db8::1") == network("2001:db8::ffff:2") != network("2001:db8:0:1::1")
    assert network("::ffff:192.0.2.1") == network("192.0.2.1") != network("192.0.2.2")
    assert network("::1") == network("127.0.0.9") == network("::ffff:127.0.0.1")


def test_large_bodies_are_limited_together(
    own_shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "MAX_BODIES", 100_000)
    campaign = own_shop.campaign()
    path = f"/v1/campaigns/{campaign}/offers"
    padded = json.dumps({"player": "ann"}).encode().ljust(90_000)
    assert own_shop.client.post(path, content=padded, headers=JSON).status_code == 201
    connections = own_shop.context.connections
    assert connections.body_bytes == 0
    connections.body_bytes = 50_000  # of other requests
    refused = own_shop.client.post(path, content=padded, headers=JSON)
    assert_problem(refused, 503, "too-many-bodies")
    assert refused.headers["retry-after"] == "1"
    own_shop.offer(campaign, "bob")
    assert connections.body_bytes == 50_000


def test_large_responses_are_sent_in_pieces(own_shop: Service) -> None:
    """Granian gets one piece at a time: it copies what it is to send."""

    async def get() -> list[bytes]:
        pieces: list[bytes] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send_(message: Any) -> None:
            pieces.append(message.get("body", b""))

        scope: Any = {
            "type": "http", "http_version": "1.1", "method": "GET", "query_string": b"",
            "path": SCRIPT, "headers": [(b"host", b"localhost")], "scheme": "http",
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1),
        }  # fmt: skip
        await own_shop.client.app(scope, receive, send_)
        return pieces

    pieces = own_shop.client.blocking_portal.call(get)
    assert b"".join(pieces) == own_shop.client.get(SCRIPT).content
    assert max(map(len, pieces)) == app_module.CHUNK


def test_shutdown_waits_for_writes_but_not_for_clients(tmp_path: Path) -> None:
    """Five clients would keep the service from stopping until it is killed, after 45 seconds.

    A sixth one waits for the database, which is locked until after the other connections are
    closed. Its request is answered.
    """
    with (
        server(tmp_path, "--client-timeout", "1") as running,
        HostileClients(running.url) as clients,
    ):
        token = running.token
        path = f"/v1/campaigns/{large_campaign(running.url, **running.headers)}"
        clients.send("GET", SCRIPT)
        clients.send("GET", f"{path}/stream?after=0", key=token)
        clients.send("GET", f"{path}/export?format=jsonl", key=token)
        clients.send("POST", f"{path}/offers", key=token, body="{")
        clients.connect("GET /healthz HTTP/1.1\r\nHost:")
        answers: list[int] = []

        def request_offer() -> None:
            with httpx.Client(timeout=60, headers=running.headers) as client:
                answer = client.post(f"{running.url}{path}/offers", json={"player": "ann"})
                answers.append(answer.status_code)

        with contextlib.closing(sqlite3.connect(tmp_path / "entice.db")) as database:
            database.execute("BEGIN IMMEDIATE")
            requesting = threading.Thread(target=request_offer)
            requesting.start()
            wait_until(lambda: established(running.url) == 6)
            time.sleep(0.1)
            running.process.terminate()
            start = time.monotonic()
            wait_until(lambda: established(running.url) == 1)
            assert answers == []
            time.sleep(0.7)  # longer than the connection of an answered request is protected
            database.rollback()
        requesting.join(30)
        assert answers == [201]
        assert running.process.wait(30) == 0
        assert time.monotonic() - start < 10


def test_streams_belong_to_keys_and_end_when_the_key_is_revoked(tmp_path: Path) -> None:
    """Without the check, a stream ends at its next event or after 15 s, or never if unread."""
    with (
        server(tmp_path) as running,
        contextlib.closing(open_store(f"sqlite:///{tmp_path / 'entice.db'}")) as store,
        HostileClients(running.url) as clients,
    ):
        keys = Keys(store)
        _, admin = keys.create("admin", None, "admin")
        time.sleep(1.1)  # the service caches keys
        campaign = large_campaign(running.url, authorization=f"Bearer {admin}")
        (first, own), (_, other) = keys.create("read", None, "a"), keys.create("read", None, "b")
        time.sleep(1.1)
        path = f"/v1/campaigns/{campaign}/stream"
        clients.send("GET", f"{path}?after=0", key=own)  # is not read
        quiet = [clients.send("GET", path, key=own) for _ in range(49)]
        kept = clients.send("GET", path, key=other)
        for client in (*quiet, kept):
            assert client.recv(15) == b"HTTP/1.1 200 OK"
        refused = clients.send("GET", path, key=own)
        assert refused.recv(12) == b"HTTP/1.1 429"
        refused.close()
        wait_until(lambda: established(running.url) == 51)
        keys.revoke(first.id)
        start = time.monotonic()
        for client in quiet:
            while not client.recv(65_536).endswith(END_OF_STREAM):
                pass
        wait_until(lambda: established(running.url) == 50)  # the one that does not read is closed
        assert time.monotonic() - start < 5  # 0.6 s on an idle machine
        kept.settimeout(0.3)
        with pytest.raises(TimeoutError):
            read_to_the_end(kept)


def read_to_the_end(client: socket.socket) -> bytes:
    """Read until the service closes or resets the connection."""
    parts: list[bytes] = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65_536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (ClientLimits(per_address=-1), "connections-per-address must be at least 0"),
        (ClientLimits(timeout=0), "client-timeout must be from 0.1 to 3600 seconds"),
    ],
)
def test_limits_out_of_range_are_rejected(limits: ClientLimits, words: str) -> None:
    with pytest.raises(InputError, match=words):
        limits.check()
