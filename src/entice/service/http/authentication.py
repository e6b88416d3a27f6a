"""Authentication and authorization: API keys with roles and campaigns, or none on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from urllib.parse import urlsplit

from entice.service.domain.errors import Refusal, not_found
from entice.service.storage.api_keys import CACHE_SECONDS, Keys, KeyView, Role

LOCAL_CALLER = KeyView(id="-", name="local caller", role="admin", campaign=None, created=0)
"""The identity of requests without a key, as long as no key exists."""
LOCAL_BROWSER = KeyView(id="-", name="local browser", role="read", campaign=None, created=0)
"""The same for browsers. Any web page can make a browser send requests, so they may only read."""
_BROWSER_HEADERS = frozenset({b"origin", b"sec-fetch-mode", b"sec-fetch-site"})
_PROXY_HEADERS = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"}
)
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Authenticator:
    """Checks the API key of each request.

    As long as no key exists, and only if the service is bound to loopback, requests need no key.
    Requests from foreign pages and through foreign host names are then rejected, and browsers may
    read and simulate but change nothing.
    """

    def __init__(self, keys: Keys, *, open_to_loopback: bool) -> None:
        self._keys = keys
        self._open = open_to_loopback
        self._reading: Future[None] | None = None
        # A separate thread, so that authentication does not wait for long reads.
        self._reader = ThreadPoolExecutor(1, "entice-keys")

    async def authenticate(self, headers: Mapping[bytes, bytes], roles: frozenset[Role]) -> KeyView:
        """Return the caller's key; raise `Refusal` if it is not valid or has none of `roles`."""
        age = self._keys.age()
        if age > CACHE_SECONDS / 2:
            self._read_keys()
        if age > CACHE_SECONDS and self._reading is not None:
            await asyncio.shield(asyncio.wrap_future(self._reading))
        return self._check(headers, roles)

    def check_again(self, headers: Mapping[bytes, bytes], roles: frozenset[Role]) -> None:
        """Raise `Refusal` if the caller's key has been revoked since the call of `authenticate`."""
        if self._keys.age() > CACHE_SECONDS / 2:
            self._read_keys()
        self._check(headers, roles)

    def _check(self, headers: Mapping[bytes, bytes], roles: frozenset[Role]) -> KeyView:
        if self._open and not self._keys.any_cached():
            if _BROWSER_HEADERS.isdisjoint(headers):
                return LOCAL_CALLER
            if not LOCAL_BROWSER.may(roles):
                raise Refusal(403, "read-only", "Read-only without a key", _READ_ONLY)
            return LOCAL_BROWSER
        caller = self._keys.check_cached(_bearer_token(headers))
        if caller is None:
            raise Refusal(401, "unauthorized", "API key required", _KEY_REQUIRED)
        if not caller.may(roles):
            allowed = ", ".join(sorted({"admin", *roles}))
            detail = f"This request requires one of the roles {allowed}; the key has {caller.role}."
            raise Refusal(403, "forbidden", "Role required", detail)
        return caller

    def reject_foreign(self, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Return the `Refusal` of a request through a proxy, a foreign host name or a foreign page.

        Return None if the request is allowed, or if keys protect the service anyway. Host names
        are checked because of DNS rebinding: a web page can point its own host name to 127.0.0.1
        and then send requests that look as if they came from the same origin.
        """
        if not self._open or self._keys.any_cached():
            return None
        if not _PROXY_HEADERS.isdisjoint(headers):
            detail = (
                "The request came through a proxy. Anybody who can reach the proxy could spend the "
                "budget: create a key with `entice keys create`."
            )
            return Refusal(403, "forwarded", "API key required behind a proxy", detail)
        host = headers.get(b"host", b"")
        if not _is_loopback(host):
            detail = (
                "Without keys, the host name must be localhost, 127.0.0.1 or [::1]. Use one of "
                "these, or create a key with `entice keys create`."
            )
            return Refusal(403, "foreign-host", "Foreign host", detail)
        origin = headers.get(b"origin")
        if origin is not None and origin != b"http://" + host:
            detail = (
                "Without keys, pages of other origins are rejected. Create a key with "
                "`entice keys create`, and send requests from your server instead of the browser."
            )
            return Refusal(403, "foreign-origin", "Foreign origin", detail)
        return None

    def _read_keys(self) -> None:
        """Start to read the keys in a thread, unless a read is in progress."""
        if self._reading is None or self._reading.done():
            self._reading = self._reader.submit(self._keys.reload)


def hide_other_campaigns(caller: KeyView, what: str, name: str, campaign: str) -> None:
    """Raise "not found" for objects outside the campaign that a key is limited to."""
    if caller.campaign is not None and caller.campaign != campaign:
        raise not_found(what, name)


def require_all_campaigns(caller: KeyView) -> None:
    """Reject a key that is limited to one campaign."""
    if caller.campaign is not None:
        detail = "This request concerns all campaigns; the key is limited to one."
        raise Refusal(403, "forbidden", "Key for all campaigns required", detail)


_READ_ONLY = (
    "Without keys, a browser may read and simulate but change nothing. Create a key with "
    "`entice keys create --role admin --name me`, and enter it in the page."
)
_KEY_REQUIRED = (
    "Send a valid key as `Authorization: Bearer entice_...`. `entice keys create` creates one."
)


def _bearer_token(headers: Mapping[bytes, bytes]) -> str:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


@lru_cache(256)
def _is_loopback(host: bytes) -> bool:
    try:
        return urlsplit(f"//{host.decode('latin-1')}").hostname in LOOPBACK
    except ValueError:
        return False
