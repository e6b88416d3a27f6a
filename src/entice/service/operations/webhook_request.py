"""One signed POST request to a webhook: which addresses are allowed, and the time limit.

A webhook makes the service send requests to an address that a client has chosen, so it must not
reach what the client cannot: services on this machine, in the internal network, or of the cloud
provider. The address is therefore checked after its name is resolved, and the request goes to the
checked address. Redirects are not followed, proxies are not used, and of the response only the
status matters.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

import entice
from entice.errors import EnticeError, InputError

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

MAX_URL = 2000
_MAX_RESPONSE = 64 * 1024
"""Bytes of a response that are read, and ignored, before the connection is closed."""
_NAT64 = IPv6Network("64:ff9b::/96")


class DeliveryFailed(EnticeError):
    """The receiver did not confirm a request. The message is shown to the webhook's owner."""


def parse_networks(given: Sequence[str]) -> tuple[Network, ...]:
    """Parse networks such as 10.0.0.0/8, 127.0.0.1 or fd00::/8."""
    found = []
    for text in given:
        try:
            found.append(ip_network(text))
        except ValueError:
            rule = "must be an IP address or a network such as 10.0.0.0/8"
            raise InputError("--webhook-network", rule, given=text) from None
    return tuple(found)


def check_url(url: str, networks: Sequence[Network]) -> None:
    """Raise `InputError` if a webhook must not have this URL.

    Host names are resolved only when a request is sent: they may change.
    """
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https"):
        rule = (
            f"must be a URL such as https://example.com/hook of at most {MAX_URL} characters, "
            "without a user name, a password or a fragment"
        )
        raise InputError("url", rule, given=url[:100])
    if parts.scheme == "http" and not networks:
        raise InputError("url", "must start with https://", given=url[:100], todo=_TODO)
    try:
        address = ip_address(parts.hostname or "")
    except ValueError:
        return  # a name
    if not _allowed(address, parts.scheme, networks):
        raise InputError("url", _rule(parts.scheme), given=url[:100], todo=_TODO)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises ValueError
    except ValueError:
        return None
    printable = url.isascii() and all("!" <= character <= "~" for character in url)
    refused = not printable or len(url) > MAX_URL or "@" in parts.netloc or "#" in url
    return parts if parts.hostname and not refused else None


_TODO = "The operator can allow networks with `entice serve --webhook-network`."


def _rule(scheme: str) -> str:
    if scheme == "http":
        return "must use https, unless its address is in a network that the operator allows"
    return "must have a public address, or one in a network that the operator allows"


def _allowed(address: Address, scheme: str, networks: Sequence[Network]) -> bool:
    embedded = _embedded(address)
    if embedded is not None:
        return _allowed(embedded, scheme, networks)
    if any(address in network for network in networks):
        return True
    if address.is_multicast or address.is_reserved or any(address in one for one in _NOT_PUBLIC):
        return False
    return scheme == "https" and address.is_global


_NOT_PUBLIC = (
    ip_network("192.0.0.0/24"), ip_network("64:ff9b:1::/48"), ip_network("fec0::/10"),
    ip_network("::/96"),
)  # fmt: skip
"""Networks that `is_global` of some versions of Python takes for public."""


def _embedded(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to, if any."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return the header `Entice-Signature` of a body."""
    signed = f"{timestamp}.".encode() + body
    return f"t={timestamp},v1={hmac.digest(secret.encode(), signed, sha256).hex()}"


class WebhookSender:
    """Sends requests from several threads, and can interrupt all of them.

    Parameters
    ----------
    networks
        Networks that webhooks may reach besides public addresses, also without TLS.
    timeout
        Seconds for a whole request, after the host's name is resolved.
    """

    def __init__(self, networks: Sequence[Network], timeout: float) -> None:
        self.networks = tuple(networks)
        self.timeout = timeout
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False

    def post(self, url: str, secret: str, body: bytes) -> None:
        """Send a signed request; raise `DeliveryFailed` unless the status is 200 to 299."""
        parts = _split(url)
        assert parts is not None
        assert parts.hostname is not None
        secure = parts.scheme == "https"
        deadline = time.monotonic() + self.timeout
        try:
            sock = self._connect(parts, deadline)
            with contextlib.closing(sock), self._until(deadline, sock):
                connection: http.client.HTTPConnection
                if secure:
                    connection = http.client.HTTPSConnection(parts.hostname, parts.port)
                    connection.sock = _tls().wrap_socket(sock, server_hostname=parts.hostname)
                else:
                    connection = http.client.HTTPConnection(parts.hostname, parts.port)
                    connection.sock = sock
                with contextlib.closing(connection):
                    status = _exchange(connection, parts, secret, body)
            if self._closed or time.monotonic() >= deadline:
                raise TimeoutError  # shut down by `_until`, which looks like the response's end
        except TimeoutError:
            raise DeliveryFailed(f"no response within {self.timeout:g} s") from None
        except ssl.SSLError as error:
            raise DeliveryFailed(f"TLS: {error.reason or error}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() >= deadline:
                raise DeliveryFailed(f"no response within {self.timeout:g} s") from None
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise DeliveryFailed(f"no response: {reason}") from None
        if 300 <= status < 400:
            raise DeliveryFailed(f"status {status}: redirects are not followed")
        if not 200 <= status < 300:
            raise DeliveryFailed(f"status {status}")

    def interrupt(self) -> None:
        """End all requests in progress, and reject new ones."""
        with self._lock:
            self._closed = True
            for sock in self._open:
                _shut_down(sock)

    def _connect(self, parts: SplitResult, deadline: float) -> socket.socket:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
        addresses = [str(info[4][0]).partition("%")[0] for info in found]
        allowed = [
            name for name in addresses if _allowed(ip_address(name), parts.scheme, self.networks)
        ]
        if not allowed:
            raise DeliveryFailed(f"the url {_rule(parts.scheme)}; it is at {addresses[0]}")
        for name in allowed[:-1]:
            with contextlib.suppress(OSError):
                left = deadline - time.monotonic()
                return socket.create_connection((name, port), max(0.1, left / 2))
        return socket.create_connection((allowed[-1], port), max(0.1, deadline - time.monotonic()))

    @contextlib.contextmanager
    def _until(self, deadline: float, sock: socket.socket) -> Iterator[None]:
        """Shut a connection down at the deadline, however slowly its peer responds.

        A copy of the socket is shut down: TLS detaches the original, and a time-out of a socket
        covers each operation, so that a peer could send one byte at a time.
        """
        guard = sock.dup()
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), _shut_down, (guard,))
        timer.daemon = True
        with self._lock:
            if self._closed:
                guard.close()
                raise DeliveryFailed("the service is shutting down")
            self._open.add(guard)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._open.discard(guard)
            guard.close()


def _exchange(
    connection: http.client.HTTPConnection, parts: SplitResult, secret: str, body: bytes
) -> int:
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    headers = {
        "Content-Type": "application/json",
        "Entice-Signature": signature(secret, int(time.time()), body),
        "User-Agent": f"entice/{entice.__version__}",
        "Connection": "close",
    }
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        response.read(_MAX_RESPONSE)  # closing with unread data would reset the connection
    return response.status


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the peer has closed it
        sock.shutdown(socket.SHUT_RDWR)


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
