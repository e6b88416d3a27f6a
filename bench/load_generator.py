"""A load generator for `load.py`: keep-alive connections with one request in progress each.

It uses no HTTP library. Requests are built by joining bytes, and of a response only the length is
parsed, so that the generator uses a small part of a core and leaves the rest to the server.
"""

from __future__ import annotations

import itertools
import json
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from entice.local_token import read_token

Next = Callable[[bytes], bytes | None]
"""Returns the next request on a connection, from the body of the last response (at first empty)."""


@dataclass
class Turn:
    """The measurements of one turn."""

    seconds: float = 0.0
    busy: float = 0.0
    """CPU seconds of the generator."""
    served: float = 0.0
    """CPU seconds of the server."""
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Responses per second."""
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """Return a quantile of the latencies, in milliseconds."""
        return float(np.quantile(self.latencies, share)) * 1e3


class Connection:
    """A keep-alive connection with one request in progress."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        token = read_token("127.0.0.1", port)
        self._header = f"\r\nAuthorization: Bearer {token}\r\n".encode()
        self.received = b""
        self.sent_at = 0.0

    def send(self, request: bytes) -> None:
        """Send a request."""
        self.sent_at = time.perf_counter()
        self.socket.sendall(request.replace(b"\r\n", self._header, 1))

    def receive(self) -> bytes | None:
        """Return the body of a successful response, or None if it is incomplete."""
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise RuntimeError("The server closed a connection.")
        self.received += piece
        head = self.received.find(b"\r\n\r\n")
        if head < 0:
            return None
        fields = self.received[:head].lower()
        if fields[9:10] != b"2":
            raise RuntimeError(f"The server returned {self.received[:2000]!r}.")
        at = fields.find(b"content-length: ")
        if at < 0:
            raise RuntimeError(f"A response without a length: {fields!r}.")
        end = fields.find(b"\r\n", at)
        length = int(fields[at + 16 : end if end > 0 else None])
        if len(self.received) < head + 4 + length:
            return None
        body, self.received = self.received[head + 4 :], b""
        return body


class Generator:
    """Sends requests over several connections."""

    def __init__(self, port: int, connections: int) -> None:
        self._connections = [Connection(port) for _ in range(connections)]
        self._selector = selectors.DefaultSelector()
        for connection in self._connections:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def close(self) -> None:
        """Close all connections."""
        self._selector.close()
        for connection in self._connections:
            connection.socket.close()

    def turn(self, work: Callable[[], Next], seconds: float = 1e9, most: int = 1 << 62) -> Turn:
        """Run work on each connection for some seconds, or for `most` requests."""
        turn, clock = Turn(), time.perf_counter
        start, busy = clock(), time.process_time()
        end = start + seconds
        nexts: dict[Connection, Next] = {}
        in_progress = 0
        for connection in self._connections[:most]:
            nexts[connection] = work()
            request = nexts[connection](b"")
            assert request is not None
            connection.send(request)
            in_progress += 1
        started = in_progress
        while in_progress:
            for key, _ in self._selector.select():
                connection = key.data
                body = connection.receive()
                if body is None:
                    continue
                now = clock()
                turn.latencies.append(now - connection.sent_at)
                in_progress -= 1
                if now < end and started < most:
                    request = nexts[connection](body)
                    if request is not None:
                        connection.send(request)
                        in_progress += 1
                        started += 1
        turn.seconds, turn.busy = clock() - start, time.process_time() - busy
        return turn


def request_of(method: str, path: str, body: bytes = b"") -> bytes:
    """Return an HTTP/1.1 request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if method != "GET":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Players:
    """New players without end."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def next_request(self) -> bytes:
        """Return the body of an offer request for the next player."""
        return b'{"player":"player %d"}' % next(self._numbers)

    def offers(self, campaign: str) -> Callable[[], Next]:
        """Make single offers."""
        path = f"/v1/campaigns/{campaign}/offers"
        return lambda: lambda body: request_of("POST", path, self.next_request())

    def batches(self, campaign: str, size: int) -> Callable[[], Next]:
        """Make offers in batches."""
        path = f"/v1/campaigns/{campaign}/offers/batch"

        def batch(body: bytes) -> bytes:
            requests = b",".join(self.next_request() for _ in range(size))
            return request_of("POST", path, b'{"requests":[' + requests + b"]}")

        return lambda: batch

    def lifecycles(self, campaign: str) -> Callable[[], Next]:
        """Make an offer, accept it, rate it, and repeat."""
        path = f"/v1/campaigns/{campaign}/offers"

        def lifecycle() -> Next:
            stage, offer = itertools.cycle(("offer", "accept", "rate")), ""

            def next_step(body: bytes) -> bytes:
                nonlocal offer
                match next(stage):
                    case "offer":
                        return request_of("POST", path, self.next_request())
                    case "accept":
                        offer = str(json.loads(body)["id"])
                        return request_of("POST", f"/v1/offers/{offer}/accept", b"{}")
                    case _:
                        return request_of("POST", f"/v1/offers/{offer}/rating", b'{"rating":4}')

            return next_step

        return lifecycle


def repeat(request: bytes) -> Callable[[], Next]:
    """Send the same request repeatedly."""
    return lambda: lambda body: request
