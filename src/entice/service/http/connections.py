"""Limits on connections: how many there may be, and how long clients may take.

Granian, the HTTP server, accepts connections and writes responses in threads of its own. It has no
limit per address and no time-out for clients that do not read, and it waits for all clients before
it stops. So this module

- gives the listening socket small buffers, which its connections inherit;
- looks at the sockets of the process, and closes connections that exceed a limit or whose client
  does not read;
- ends requests whose body does not arrive in time, and limits the memory of unfinished bodies;
- knows which requests are being executed, and does not close their connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import math
import os
import resource
import socket
import stat
import struct
import termios
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple

import msgspec

from entice.errors import InputError
from entice.service import logs
from entice.service.domain.errors import Refusal
from entice.service.http.read_threads import in_thread

MAX_CONNECTIONS = 4096
"""Maximum number of connections of a worker process."""
MIN_READ = 16 * 1024
"""Bytes that a client has to read within the time-out, if as many are sent."""
SHED_ABOVE = 0.75
"""Share of `MAX_CONNECTIONS` above which connections without a request are closed."""
SOCKET_BUFFER = 64 * 1024
"""Bytes of a request, and of a response, that the operating system keeps for each connection."""
STOP_GRACE = 4.0
"""Seconds after SIGTERM in which clients can finish to read and to send."""
CHECK_INTERVAL = 0.5
"""Seconds between two checks of the connections."""
SMALL_BODY = 16 * 1024
"""Size of a request body up to which it is always accepted."""
MAX_BODIES = 64 * 1024 * 1024
"""Maximum size of all larger request bodies in memory, together."""

_RESERVED_FILES = 512
"""Files that the process may need beside its connections."""
_RECENT = 0.5
"""Seconds for which the connection of a request that was answered is not closed."""
_EXECUTING, _RECEIVING = math.inf, -math.inf
LOOPBACK = b""

Peer = tuple[str, int]
"""The address and port of a client."""

BODY_TIMEOUT = (
    "timeout",
    "Body not received in time",
    "The body did not arrive in time (`entice serve --client-timeout`). Repeat the request.",
)
NO_ROOM = (
    "too-many-bodies",
    "Too many large bodies",
    f"Request bodies of more than {SMALL_BODY // 1024} KiB that are being received take "
    f"{MAX_BODIES // 1024**2} MiB together, which is the maximum. Try again soon, or send a "
    "smaller body.",
)


class ClientLimits(msgspec.Struct, frozen=True):
    """Limits on clients, as set by the options of `entice serve`."""

    per_address: int = 256
    """Connections from one address other than loopback. 0: no limit."""
    timeout: float = 20.0
    """Seconds in which a client has to send a request body, or to read `MIN_READ` of a response."""

    def check(self) -> None:
        """Raise `InputError` if a limit is out of range."""
        if self.per_address < 0:
            raise InputError(
                "connections-per-address", "must be at least 0 (no limit)", given=self.per_address
            )
        if not 0.1 <= self.timeout <= 3600:
            raise InputError(
                "client-timeout", "must be from 0.1 to 3600 seconds", given=self.timeout
            )


def peer_of(scope: Any) -> Peer:
    """Return the client of a request. Granian gives its port as text."""
    address, port = scope["client"] or ("", 0)
    return address, int(port)


def listen(address: str, port: int, backlog: int) -> socket.socket:
    """Return a listening socket whose connections have small buffers."""
    with contextlib.ExitStack() as on_error:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = on_error.enter_context(socket.socket(family))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Large responses are sent in pieces. The last one must not wait until the client confirms
        # the one before, which takes 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER)
        listener.bind((address, port))
        listener.listen(backlog)
        on_error.pop_all()
    return listener


def raise_file_limit() -> int:
    """Allow as many open files as connections need; return the number of connections allowed.

    Granian accepts no connection any more once an attempt fails for lack of a file descriptor.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, max(soft - _RESERVED_FILES, soft // 2))


class RequestBody:
    """The body of a request: it has to arrive in time, and to fit into memory with all others."""

    def __init__(self, connections: Connections, peer: Peer, receive: Any) -> None:
        self._connections = connections
        self._peer = peer
        self._receive = receive
        self._complete = False
        self._size = 0
        self._counted = 0
        self._overdue = False
        self._task: asyncio.Task[Any] | None = None
        self.started = 0.0
        """When the service started to wait for the body."""

    async def receive(self) -> Any:
        """Receive a part of the body; raise `Refusal` if it takes too long."""
        if self._complete:  # the caller waits for the client to disconnect
            return await self._receive()
        connections = self._connections
        self.started = self.started or time.monotonic()
        self._task = asyncio.current_task()
        connections.receiving.add(self)
        state = connections.active.get(self._peer, 0.0)  # streams are answered first
        connections.active[self._peer] = _RECEIVING
        try:
            message = await self._receive()
        except asyncio.CancelledError:
            if not self._overdue or self._task is None:
                raise
            self._task.uncancel()
            raise Refusal(408, *BODY_TIMEOUT) from None
        finally:
            connections.receiving.discard(self)
            connections.active[self._peer] = state
        self._complete = not message.get("more_body", False)
        self._count(len(message.get("body", b"")))
        return message

    def end(self) -> None:
        """Stop waiting for the body: it is overdue. The connection is closed after the response."""
        self._overdue = True
        self._connections.overdue[self._peer] = time.monotonic()
        if self._task is not None:
            self._task.cancel()

    def release(self) -> None:
        """Free the body's share of the memory for bodies."""
        self._connections.body_bytes -= self._counted
        self._counted = 0

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > SMALL_BODY:
            self._connections.body_bytes += self._size - self._counted
            self._counted = self._size
            if self._connections.body_bytes > MAX_BODIES:
                raise Refusal(503, *NO_ROOM)


class Connections:
    """The connections of a process."""

    def __init__(self, limits: ClientLimits, port: int | None = None) -> None:
        self.limits = limits
        self._port = port
        """Port that the service listens on. None: Granian does not serve the application."""
        self._stopping_since: float | None = None
        self._unread: dict[Peer, _Unread] = {}
        """Connections whose clients have not read all that was sent."""
        self.active: dict[Peer, float] = {}
        """When the latest request of a client was answered, or one of the two constants above."""
        self.sending: set[Peer] = set()
        """Clients to which a large response is being sent."""
        self.receiving: set[RequestBody] = set()
        """Bodies that have not arrived yet."""
        self.overdue: dict[Peer, float] = {}
        """Clients whose body did not arrive in time, and when the service stopped waiting for it.
        Granian itself may go on waiting, so their connections are closed."""
        self.body_bytes = 0
        """Size of all bodies of more than `SMALL_BODY`."""

    def start_request(self, peer: Peer, receive: Any) -> RequestBody:
        """Protect the connection of a request, until it is answered; return its body."""
        self.active[peer] = _EXECUTING
        return RequestBody(self, peer, receive)

    def answer(self, peer: Peer) -> None:
        """Stop protecting the connection of a request: its response has been started."""
        self.active[peer] = time.monotonic()

    async def watch(self) -> None:
        """Close connections that exceed the limits, until cancelled."""
        next_look = 0.0
        while True:
            stopping = self._stopping_since is not None
            await asyncio.sleep(min(0.1 if stopping else CHECK_INTERVAL, self.limits.timeout / 4))
            now = time.monotonic()
            for body in list(self.receiving):
                if now - body.started > self.limits.timeout:
                    body.end()
            for peer in [p for p, at in self.active.items() if _RECEIVING < at < now - _RECENT]:
                del self.active[peer]
            due = {peer for peer, at in self.overdue.items() if at < now - _RECENT}
            for peer in due:
                del self.overdue[peer]
            if self._port is None:
                continue
            look = now >= next_look
            if look:
                next_look = now + self.limits.timeout / 4
            protected = {peer for peer, at in self.active.items() if at > _RECEIVING}
            try:
                if due:
                    await in_thread(self.close, due)
                await in_thread(self.enforce, protected)
                if look:
                    await in_thread(self.close_unread)
            except Exception as error:
                logs.unexpected(error, during="check of connections")

    def start_shutdown(self) -> None:
        """Start to close all connections, except those whose request is being executed."""
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()

    def enforce(self, protected: Collection[Peer]) -> int:
        """Close connections that exceed the limits, and return their number.

        Connections of the clients in `protected` stay open.
        """
        if self._stopping_since is not None:
            grace = min(STOP_GRACE, self.limits.timeout)
            if time.monotonic() - self._stopping_since < grace:
                return 0
            return sum(self._reset(fd, peer) for fd, peer in self._open() if peer not in protected)
        shed_above = int(MAX_CONNECTIONS * SHED_ABOVE)
        # Most often there are fewer files than any limit: connections are not looked at one by one.
        if len(_files()) <= min(self.limits.per_address or shed_above, shed_above):
            return 0
        found = list(self._open())
        by_address: dict[bytes, list[tuple[int, Peer]]] = defaultdict(list)
        for fd, peer in found:
            by_address[_network(peer[0])].append((fd, peer))
        excess = {
            address: len(own) - self.limits.per_address
            for address, own in by_address.items()
            if self.limits.per_address and address != LOOPBACK
        }
        largest = max(by_address, key=lambda address: len(by_address[address]), default=LOOPBACK)
        excess[largest] = max(excess.get(largest, 0), len(found) - shed_above)
        closed = 0
        for address, count in excess.items():
            idle = [(fd, peer) for fd, peer in by_address[address] if peer not in protected]
            closed += sum(self._reset(fd, peer) for fd, peer in idle[: max(0, count)])
        return closed

    def close_unread(self) -> None:
        """Close connections whose clients have read less than `MIN_READ` within the time-out."""
        if not hasattr(socket, "TCP_INFO"):  # not Linux
            return
        now, before, self._unread = time.monotonic(), self._unread, {}
        for fd in _files():
            with contextlib.suppress(OSError), _copy(fd) as connection:
                if connection.getsockname()[1] != self._port or not _unsent(connection):
                    continue
                peer, received = connection.getpeername()[:2], _received(connection)
                known = before.get(peer)
                if known is None or received - known.received >= MIN_READ:
                    known = _Unread(now, received)
                if now - known.since < self.limits.timeout:
                    self._unread[peer] = known
                else:
                    self._reset(fd, peer)

    def close(self, peers: Collection[Peer]) -> None:
        """Close the connections of clients."""
        for fd, peer in self._open():
            if peer in peers:
                self._reset(fd, peer)

    def _open(self) -> Iterator[tuple[int, Peer]]:
        """Iterate over the file descriptors and clients of all connections."""
        for fd in _files():
            with contextlib.suppress(OSError), _copy(fd) as connection:
                if connection.getsockname()[1] == self._port:
                    yield fd, connection.getpeername()[:2]

    def _reset(self, fd: int, peer: Peer) -> bool:
        """Close the connection of a client, and discard what it has not read."""
        with contextlib.suppress(OSError), _copy(fd) as connection:
            if connection.getpeername()[:2] == peer:
                self.sending.discard(peer)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RDWR)  # Granian then closes it
                return True
        return False


class _Unread(NamedTuple):
    since: float
    received: int
    """What the client had received then, in bytes."""


def _unsent(connection: socket.socket) -> int:
    """Return how many bytes the client has not received yet, of those that were sent."""
    [count] = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
    return int(count)


def _received(connection: socket.socket) -> int:
    """Return how many bytes the client has received: `tcpi_bytes_acked` of Linux."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    [count] = struct.unpack_from("Q", info, 120)
    return int(count)


def _files() -> list[int]:
    """Return the open file descriptors of the process."""
    names = os.listdir("/dev/fd")  # noqa: PTH208 (`iterdir` takes 9 times as long)
    return [int(name) for name in names]


@contextlib.contextmanager
def _copy(fd: int) -> Iterator[socket.socket]:
    """Return a copy of a socket, which stays the same one if Granian closes it and `fd` is reused.

    Raise `OSError` if it is not an internet socket.
    """
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        raise OSError(errno.ENOTSOCK, "not a socket")
    with socket.socket(fileno=os.dup(fd)) as copy:
        if copy.family not in (socket.AF_INET, socket.AF_INET6):
            raise OSError(errno.EAFNOSUPPORT, "not an internet socket")
        yield copy


@lru_cache(4096)
def _network(address: str) -> bytes:
    """Return what counts as one address: an IPv4 address, or a /64 network of IPv6."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback:
        return LOOPBACK
    return found.packed[:8]
