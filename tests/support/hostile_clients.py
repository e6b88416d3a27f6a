"""Clients that do not read their responses, or do not send their requests to the end."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit


class HostileClients:
    """Connections to a service, which are closed at the end of a `with` block."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._host, self._address = where.netloc, (where.hostname, where.port)
        self._connections: list[socket.socket] = []
        self.timeout = 60.0
        """Seconds to connect, to send and to read."""

    def __enter__(self) -> HostileClients:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.close()

    def connect(self, text: str) -> socket.socket:
        """Connect and send a text. The receive buffer is as small as can be."""
        client = socket.socket()
        self._connections.append(client)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        client.settimeout(self.timeout)
        client.connect(self._address)
        client.sendall(text.encode())
        return client

    def send(
        self, method: str, path: str, *, key: str | None = None, body: str = ""
    ) -> socket.socket:
        """Connect and send a request. `body` is the first part of one of 1,000,000 bytes."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}"]
        if key is not None:
            lines.append(f"Authorization: Bearer {key}")
        if body:
            lines += ["Content-Type: application/json", "Content-Length: 1000000"]
        return self.connect("\r\n".join([*lines, "", body]))


def established(url: str) -> int:
    """Return the number of connections that a service on this machine has."""
    port = f"{urlsplit(url).port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(local.endswith(f":{port}") and state == "01" for _, local, _, state, *_ in rows)


def wait_until(condition: Callable[[], bool], within: float = 30) -> float:
    """Wait for a condition, and return the seconds that it took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < within, "it did not happen"
        time.sleep(0.01)
    return time.monotonic() - start
