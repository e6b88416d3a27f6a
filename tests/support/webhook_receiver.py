"""A receiver of webhooks on this machine, and a process that delivers to it."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from command_line import without_coverage
from forking import ForkedPopen

from entice.client import read_webhook
from entice.service.operations.webhook_delivery import DeliverySettings, WebhookDelivery
from entice.service.operations.webhook_request import parse_networks
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.queries import Queries
from entice.service.storage.store import Store, open_store
from entice.service.storage.webhooks import Outcome, Webhook, record

LOOPBACK = parse_networks(["127.0.0.1"])
FAST = DeliverySettings(poll=0.02, timeout=2, first_pause=0.02, max_pause=0.05, lease=2.2)
PLAYERS = PlayerHasher(bytes(32))
EVENTS_AT_ONCE = 5
"""Number of events in a request of `process`."""


class Receiver(ThreadingHTTPServer):
    """Checks each request, and records the events of those that it confirms."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/hook?for=entice"
        self.respond: Callable[[list[int]], int] = lambda events: 200
        """Called with the numbers of the events. Returns the status; 0 closes the connection."""
        self.requests: list[dict[str, Any]] = []
        """The confirmed requests."""
        self.attempts: list[tuple[float, list[int]]] = []
        self._changed = threading.Condition()

    def received(self) -> list[int]:
        """Return the numbers of all events, in the order in which they arrived."""
        return [event["seq"] for request in self.requests for event in request["events"]]

    def wait_for(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until a condition holds, which is tested after each request."""
        with self._changed:
            assert self._changed.wait_for(condition, seconds), (self.attempts, self.requests)

    def take(self, headers: Any, body: bytes) -> int:
        """Answer a request."""
        request = json.loads(body)
        secret = PLAYERS.webhook_secret(request["webhook"])
        read_webhook(body, headers["Entice-Signature"], secret)
        events = [event["seq"] for event in request["events"]]
        with self._changed:
            self.attempts.append((time.monotonic(), events))
            self._changed.notify_all()
        status = self.respond(events)
        if 200 <= status < 300:
            with self._changed:
                self.requests.append(request)
                self._changed.notify_all()
        return status


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.take(self.headers, body)
        if status:
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", self.server.url)
            self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    """Run a receiver."""
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def delivery_of(store: Store, settings: DeliverySettings = FAST, **options: Any) -> WebhookDelivery:
    """A delivery that may reach this machine."""
    queries = Queries(store)
    return WebhookDelivery(
        store, queries, PLAYERS.webhook_secret, LOOPBACK, settings=settings, **options
    )


@contextlib.contextmanager
def delivering(store: Store, settings: DeliverySettings = FAST) -> Iterator[WebhookDelivery]:
    """Deliver to the webhooks of a database."""
    delivery = delivery_of(store, settings)
    delivery.start()
    try:
        yield delivery
    finally:
        delivery.stop()


class _CursorFirst(WebhookDelivery):
    """A control: it stores the last event before the receiver has confirmed it."""

    def send(self, webhook: Webhook, body: bytes, last: int) -> None:
        with self._store.write() as session:
            now = time.time_ns() // 1000
            record(session, Outcome(webhook, last, now, None, pause=0.0, give_up_after=60.0))
        super().send(webhook, body, last)


def process(url: str, *, cursor_first: bool) -> ForkedPopen:
    """Start a process that delivers until it is killed."""
    code = (
        f"import entice.service, webhook_receiver as w; w.deliver_forever({url!r}, {cursor_first})"
    )
    environment = {**without_coverage(), "PYTHONPATH": ":".join(p for p in sys.path if p)}
    return ForkedPopen([sys.executable, "-c", code], env=environment)


def deliver_forever(url: str, cursor_first: bool) -> None:
    """Deliver in this process, `EVENTS_AT_ONCE` events at a time."""
    from entice.service.operations import webhook_delivery

    webhook_delivery.MAX_EVENTS = EVENTS_AT_ONCE
    store = open_store(url)
    settings = DeliverySettings(poll=0.02)
    kind = _CursorFirst if cursor_first else WebhookDelivery
    kind(store, Queries(store), PLAYERS.webhook_secret, LOOPBACK, settings=settings).start()
    threading.Event().wait()
