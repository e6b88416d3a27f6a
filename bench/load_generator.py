"""Keeps a server busy: kept-alive connections, one request under way on each, no HTTP library.

For `load.py`. Requests are made by joining bytes, and of an answer only its length is read, so that
the generator takes a small part of a core and leaves the rest to the server.
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

Next = Callable[[bytes], bytes | None]
"""From the body of an answer (at first empty) to the next request on that connection, if any."""


@dataclass
class Turn:
    """What one turn showed."""

    seconds: float = 0.0
    busy: float = 0.0
    """CPU seconds of the generator itself …"""
    served: float = 0.0
    """… and of the server."""
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """The latency in milliseconds that so many answers stay below."""
        return float(np.quantile(self.latencies, share)) * 1e3


class Wire:
    """A kept-alive connection with one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""
        self.sent_at = 0.0

    def send(self, request: bytes) -> None:
        """Send a request."""
        self.sent_at = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> bytes | None:
        """Read what has come: the body of the answer once it is whole, and of a success."""
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise RuntimeError("The server closed a connection.")
        self.got += piece
        head = self.got.find(b"\r\n\r\n")
        if head < 0:
            return None
        fields = self.got[:head].lower()
        if fields[9:10] != b"2":
            raise RuntimeError(f"The server answered {self.got[:2000]!r}.")
        at = fields.find(b"content-length: ")
        if at < 0:
            raise RuntimeError(f"An answer without a length: {fields!r}.")
        end = fields.find(b"\r\n", at)
        length = int(fields[at + 16 : end if end > 0 else None])
        if len(self.got) < head + 4 + length:
            return None
        body, self.got = self.got[head + 4 :], b""
        return body


class Generator:
    """Keeps the server busy over some connections."""

    def __init__(self, port: int, wires: int) -> None:
        self._wires = [Wire(port) for _ in range(wires)]
        self._selector = selectors.DefaultSelector()
        for wire in self._wires:
            self._selector.register(wire.socket, selectors.EVENT_READ, wire)

    def close(self) -> None:
        """Hang up."""
        self._selector.close()
        for wire in self._wires:
            wire.socket.close()

    def turn(self, work: Callable[[], Next], seconds: float = 1e9, most: int = 1 << 62) -> Turn:
        """Run work on each connection, for so long or until so many answers; then let it end."""
        turn, clock = Turn(), time.perf_counter
        begin, busy = clock(), time.process_time()
        end = begin + seconds
        nexts: dict[Wire, Next] = {}
        under_way = 0
        for wire in self._wires[:most]:
            nexts[wire] = work()
            request = nexts[wire](b"")
            assert request is not None
            wire.send(request)
            under_way += 1
        started = under_way
        while under_way:
            for key, _ in self._selector.select():
                wire = key.data
                body = wire.receive()
                if body is None:
                    continue
                now = clock()
                turn.latencies.append(now - wire.sent_at)
                under_way -= 1
                if now < end and started < most:
                    request = nexts[wire](body)
                    if request is not None:
                        wire.send(request)
                        under_way += 1
                        started += 1
        turn.seconds, turn.busy = clock() - begin, time.process_time() - busy
        return turn


def request_of(method: str, path: str, body: bytes = b"") -> bytes:
    """Make an HTTP/1.1 request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if method != "GET":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Players:
    """An endless supply of players, none of whom came before."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def one(self) -> bytes:
        """What is asked for the next player."""
        return b'{"player":"player %d"}' % next(self._numbers)

    def offers(self, campaign: str) -> Callable[[], Next]:
        """Ask for one player after the other."""
        path = f"/v1/campaigns/{campaign}/offers"
        return lambda: lambda body: request_of("POST", path, self.one())

    def batches(self, campaign: str, size: int) -> Callable[[], Next]:
        """Ask for many players at once."""
        path = f"/v1/campaigns/{campaign}/offers/batch"

        def ask(body: bytes) -> bytes:
            asked = b",".join(self.one() for _ in range(size))
            return request_of("POST", path, b'{"requests":[' + asked + b"]}")

        return lambda: ask

    def lives(self, campaign: str) -> Callable[[], Next]:
        """Make an offer, have it accepted, have it rated, and so on."""
        path = f"/v1/campaigns/{campaign}/offers"

        def life() -> Next:
            stage, offer = itertools.cycle(("offer", "accept", "rate")), ""

            def go_on(body: bytes) -> bytes:
                nonlocal offer
                match next(stage):
                    case "offer":
                        return request_of("POST", path, self.one())
                    case "accept":
                        offer = str(json.loads(body)["id"])
                        return request_of("POST", f"/v1/offers/{offer}/accept", b"{}")
                    case _:
                        return request_of("POST", f"/v1/offers/{offer}/rating", b'{"rating":4}')

            return go_on

        return life


def again(request: bytes) -> Callable[[], Next]:
    """Ask for the same thing again and again."""
    return lambda: lambda body: request
