"""Authentication and authorization: API keys with roles and campaigns, or a token without keys."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from entice.service.domain.errors import Refusal, not_found
from entice.service.storage.api_keys import CACHE_SECONDS, Keys, KeyView, Role

LOCAL_CALLER = KeyView(id="-", name="local token", role="admin", campaign=None, created=0)
"""The identity of requests with the token, which counts as long as no key exists."""
NEW_KEY_SECONDS = 0.05
"""Age of the cached keys from which an unknown key causes them to be read again."""


class Authenticator:
    """Checks the API key of each request.

    As long as no key exists, `token` is accepted in place of a key (see `entice.local_token`).
    """

    def __init__(self, keys: Keys, token: str | None) -> None:
        self._keys = keys
        self._token = None if token is None else token.encode("ascii")
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
        presented = _bearer_token(headers)
        caller = self._find(presented)
        if caller is None and presented.startswith(b"entice_") and age > NEW_KEY_SECONDS:
            # The key may be newer than the cache. The age limits how often wrong keys cause a read.
            reading = self._read_keys()
            await asyncio.shield(asyncio.wrap_future(reading))
            caller = self._find(presented)
        return _authorized(caller, roles)

    def check_again(self, headers: Mapping[bytes, bytes], roles: frozenset[Role]) -> None:
        """Raise `Refusal` if the caller's key has been revoked since the call of `authenticate`."""
        if self._keys.age() > CACHE_SECONDS / 2:
            self._read_keys()
        _authorized(self._find(_bearer_token(headers)), roles)

    def _find(self, presented: bytes) -> KeyView | None:
        if self._token is not None and not self._keys.any_cached():
            return LOCAL_CALLER if hmac.compare_digest(presented, self._token) else None
        return self._keys.check_cached(presented.decode("latin-1"))

    def _read_keys(self) -> Future[None]:
        """Start to read the keys in a thread, unless a read is in progress."""
        if self._reading is None or self._reading.done():
            self._reading = self._reader.submit(self._keys.reload)
        return self._reading


def is_cross_site(headers: Mapping[bytes, bytes], path: str) -> bool:
    """Return whether a page of another site made a browser send a request.

    A link to the studio is allowed: the browser then leaves the other site, which cannot read the
    response. Other sites have no key, but could find out that a service runs here.
    """
    if headers.get(b"sec-fetch-site") != b"cross-site":
        return False
    destination = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
    return path != "/" or destination != (b"navigate", b"document")


def _authorized(caller: KeyView | None, roles: frozenset[Role]) -> KeyView:
    if caller is None:
        raise Refusal(401, "unauthorized", "API key required", _KEY_REQUIRED)
    if not caller.may(roles):
        allowed = ", ".join(sorted({"admin", *roles}))
        detail = f"This request requires one of the roles {allowed}; the key has {caller.role}."
        raise Refusal(403, "forbidden", "Role required", detail)
    return caller


def hide_other_campaigns(caller: KeyView, what: str, name: str, campaign: str) -> None:
    """Raise "not found" for objects outside the campaign that a key is limited to."""
    if caller.campaign is not None and caller.campaign != campaign:
        raise not_found(what, name)


def require_all_campaigns(caller: KeyView) -> None:
    """Reject a key that is limited to one campaign."""
    if caller.campaign is not None:
        detail = "This request concerns all campaigns; the key is limited to one."
        raise Refusal(403, "forbidden", "Key for all campaigns required", detail)


_KEY_REQUIRED = (
    "Send a valid key as `Authorization: Bearer entice_...`: one that `entice keys create` printed "
    "and that is not revoked or, as long as no key exists, the one in the address that `entice "
    "serve` printed."
)


def _bearer_token(headers: Mapping[bytes, bytes]) -> bytes:
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""
