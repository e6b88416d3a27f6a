"""The client retries where that is safe, and reports errors."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from entice.client import Client, ServiceError
from entice.client import client as client_module
from entice.client import connection as connection_module
from entice.errors import EnticeError, InputError
from entice.local_token import create_token, read_token, remove_token
from entice.service.http.examples import CAMPAIGN_WITH_ALERTS

PROBLEM = b'{"type":"urn:entice:problem:conflict","title":"No","detail":"Why","state":"declined"}'


class Scripted(ThreadingHTTPServer):
    """A server that plays a script of responses and records the requests."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Scribe)
        self.script: list[Any] = []
        self.received: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections: set[Any] = set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Scribe(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.received.append((self.command, self.path, dict(self.headers), body))
        self.server.connections.add(self.client_address)
        todo = self.server.script.pop(0) if self.server.script else (200, b"[]")
        if todo == "hang up":
            self.close_connection = True
            return
        if todo == "half":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
            self.close_connection = True
            return
        if todo == "last":  # a good answer, but the connection is closed behind it
            self.close_connection = True
            todo = (200, b"[]")
        if todo == "token":  # written after the request was sent
            create_token(*self.server.server_address)
            todo = (401, b"{}")
        if isinstance(todo, threading.Barrier):
            todo.wait(120)
            todo = (200, b"[]")
        if isinstance(todo, float):
            time.sleep(todo)
            todo = (200, b"[]")
        status, answer, *headers = todo
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PATCH = answer  # noqa: N815

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    server = Scripted()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let the client's time pass in no time, and see how long it would have waited."""
    waited: list[float] = []

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return sum(waited)

        @staticmethod
        def sleep(seconds: float) -> None:
            waited.append(seconds)

    monkeypatch.setattr(connection_module, "time", Clock)
    return waited


@pytest.mark.parametrize(
    "trouble", ["hang up", "half", (503, b"{}"), (429, b"{}"), (502, b"<html>"), (504, b"")]
)
def test_retries_use_the_same_key_and_body(
    scripted: Scripted, pauses: list[float], trouble: Any
) -> None:
    scripted.script = [trouble, trouble, trouble, (201, b'{"entered":1}')]
    with Client(scripted.url) as client:
        assert client.enter_ratings("c_tea", [("oolong", 4)]) == 1
    assert len(scripted.received) == 4
    assert (
        len(
            {
                (path, headers["Idempotency-Key"], body)
                for _, path, headers, body in scripted.received
            }
        )
        == 1
    )
    assert [low <= wait <= 2 * low for wait, low in zip(pauses, (0.125, 0.25, 0.5), strict=True)]


def test_each_write_has_its_own_idempotency_key_and_reads_have_none(scripted: Scripted) -> None:
    with Client(scripted.url) as client:
        scripted.script = [(201, b'{"entered":1}')] * 3
        for key in (None, None, "my own"):
            client.enter_ratings("c_tea", [("oolong", 4)], once=key)
        client.campaigns()
    keys = [headers.get("Idempotency-Key") for _, _, headers, _ in scripted.received]
    assert keys[2:] == ["my own", None]
    assert keys[0] != keys[1]
    assert len(keys[0] or "") == 32


def test_all_pages_of_the_list_of_campaigns_are_read(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "CAMPAIGNS_AT_ONCE", 2)
    pages = [[{**CAMPAIGN_WITH_ALERTS, "id": name} for name in page] for page in ("ab", "cd", "")]
    scripted.script = [(200, json.dumps(page).encode()) for page in pages]
    with Client(scripted.url) as client:
        found = client.campaigns(search="tea", sort="-name")
    assert [campaign.id for campaign in found] == list("abcd")
    path = "/v1/campaigns?search=tea&sort=-name"
    ends = ("&limit=2", "&after=b&limit=2", "&after=d&limit=2")
    assert [received[1] for received in scripted.received] == [path + end for end in ends]


def test_pauses_respect_retry_after(scripted: Scripted, pauses: list[float]) -> None:
    scripted.script = [(503, b"{}", ("Retry-After", "3")), (429, b"{}", ("Retry-After", "soon"))]
    with Client(scripted.url) as client:
        assert client.campaigns() == []
    assert pauses[0] == 3
    assert pauses[1] <= 0.5


def test_retries_end_at_the_deadline(scripted: Scripted, pauses: list[float]) -> None:
    scripted.script = [(503, PROBLEM.replace(b"conflict", b"unavailable"))] * 21
    with Client(scripted.url, retries=20) as client, pytest.raises(ServiceError) as raised:
        client.campaigns()
    assert (raised.value.status, raised.value.kind) == (503, "unavailable")
    assert len(pauses) == 20
    assert 2.5 <= max(pauses) <= 5
    pauses.clear()
    scripted.script = [(503, b"{}", ("Retry-After", "9"))] * 10
    with Client(scripted.url, timeout=1.0, retries=4) as client, pytest.raises(ServiceError):
        client.campaigns()
    assert pauses == [9, 9]  # a third one would take longer than 4 × (1 + 5) seconds
    pauses.clear()
    scripted.script = [(503, b"{}", ("Retry-After", "3600"))]
    with Client(scripted.url) as client, pytest.raises(ServiceError):
        client.campaigns()
    assert pauses == []  # no call waits an hour


def test_a_slow_response_times_out(scripted: Scripted, pauses: list[float]) -> None:
    scripted.script = [0.5, 0.5]
    with (
        Client(scripted.url, timeout=0.1, retries=1) as client,
        pytest.raises(ServiceError) as raised,
    ):
        client.campaigns()
    assert raised.value.status == 0
    assert len(scripted.received) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500])
def test_rejections_raise_at_once(scripted: Scripted, status: int) -> None:
    scripted.script = [(status, PROBLEM)]
    with Client(scripted.url) as client, pytest.raises(ServiceError) as raised:
        client.accept("c_tea.1")
    error = raised.value
    assert isinstance(error, EnticeError)
    assert (error.status, error.kind, error.title, error.detail) == (
        status,
        "conflict",
        "No",
        "Why",
    )
    assert error.problem["state"] == "declined"
    assert str(error) == f"No: Why ({status}, conflict)"
    assert len(scripted.received) == 1


@pytest.mark.parametrize("page", [b"<html>", b"", b"[1]", b"\xff", b'"x"'])
def test_an_error_without_problem_details_is_named_by_its_status(
    scripted: Scripted, page: bytes
) -> None:
    scripted.script = [(418, page)]
    with (
        Client(scripted.url) as client,
        pytest.raises(ServiceError, match="I'm a Teapot") as raised,
    ):
        client.campaigns()
    assert raised.value.kind == "unknown"


@pytest.mark.parametrize("page", [b"<html>", b'[{"id":1}]', b'{"id":"c"}'])
def test_an_unexpected_response_is_a_service_error(scripted: Scripted, page: bytes) -> None:
    scripted.script = [(200, page)]
    with Client(scripted.url) as client, pytest.raises(ServiceError, match="Unexpected response"):
        client.campaigns()


def test_connections_are_kept_and_closed_ones_replaced(scripted: Scripted) -> None:
    with Client(scripted.url, retries=0) as client:
        for _ in range(5):
            client.campaigns()
        assert len(scripted.connections) == 1
        scripted.script = ["hang up"]  # on a connection that was idle: it may have been closed
        client.campaigns()
        assert len(scripted.connections) == 2
        scripted.script = ["last"]
        client.campaigns()
        client.campaigns()
    client.close()


def test_threads_share_a_client(scripted: Scripted) -> None:
    with Client(scripted.url) as client:
        scripted.script = [threading.Barrier(8)] * 8  # no response before all requests have arrived
        threads = [threading.Thread(target=client.campaigns) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(scripted.received) == 8
        for _ in range(20):
            client.campaigns()
        assert len(scripted.connections) == 8


def test_an_interrupted_call_leaves_no_half_read_response(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> bytes:
        raise KeyboardInterrupt

    with Client(scripted.url) as client:
        with monkeypatch.context() as context:
            context.setattr("http.client.HTTPResponse.read", interrupted)
            scripted.script = [(200, b'"half"')]
            with pytest.raises(KeyboardInterrupt):
                client.campaigns()
        assert client.campaigns() == []
        assert len(scripted.connections) == 2


def test_ids_are_quoted_in_paths(scripted: Scripted) -> None:
    with Client(f"{scripted.url}/behind/a/proxy/") as client:
        client.arms("../admin?x=1#y z")
    assert scripted.received[0][1] == "/behind/a/proxy/v1/campaigns/..%2Fadmin%3Fx%3D1%23y%20z/arms"


def test_secrets_are_sent_and_not_shown(scripted: Scripted) -> None:
    with Client(scripted.url, key="entice_0123abcd_secret") as client:
        client.campaigns()
        assert "secret" not in repr(client)
    assert scripted.received[0][2]["Authorization"] == "Bearer entice_0123abcd_secret"
    for key in ("entice_x_secret\nX: y", "entice secret", "entice_sécret", ""):
        with pytest.raises(InputError) as raised:
            Client(key=key)
        assert "cret" not in str(raised.value)


def test_the_token_of_a_local_service_is_found(scripted: Scripted) -> None:
    """It is read for each request: the service may start later than the client."""
    port = scripted.server_address[1]
    with (
        Client(scripted.url) as local,
        Client(f"http://localhost:{port}") as by_name,
        Client(scripted.url, key="entice_0123abcd_secret") as with_key,
    ):
        local.campaigns()
        token = create_token("127.0.0.1", port)
        for client in (local, by_name, with_key):
            client.campaigns()
        remove_token("127.0.0.1", port)
    sent = [headers.get("Authorization") for _, _, headers, _ in scripted.received]
    assert sent == [None, *2 * [f"Bearer {token}"], "Bearer entice_0123abcd_secret"]
    assert token not in repr(local)


def test_a_token_written_during_a_request_is_sent(scripted: Scripted) -> None:
    """A service listens a moment before its token exists. A wrong token is not sent again."""
    scripted.script = ["token", (200, b"[]"), (401, b"{}")]
    with Client(scripted.url) as local:
        local.campaigns()
        with pytest.raises(ServiceError, match="401"):
            local.campaigns()
    token = read_token(*scripted.server_address)
    remove_token(*scripted.server_address)
    sent = [headers.get("Authorization") for _, _, headers, _ in scripted.received]
    assert sent == [None, f"Bearer {token}", f"Bearer {token}"]


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://shop", "http://", "http://me:secret@shop"]
)
def test_invalid_urls_are_rejected_and_not_shown(url: str) -> None:
    with pytest.raises(InputError, match="must be a URL such as http") as raised:
        Client(url)
    assert "secret" not in str(raised.value)


def test_a_refused_connection_is_reported_after_retries(pauses: list[float]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        client = Client(f"http://127.0.0.1:{unused.getsockname()[1]}", retries=2)
        with pytest.raises(ServiceError, match=r"cannot reach .*: Connection refused"):
            client.campaigns()
        assert len(pauses) == 2
        with pytest.raises(ServiceError, match="cannot reach"):
            next(client.stream("c_tea"))
        assert not client.ready()
        assert len(pauses) == 2
