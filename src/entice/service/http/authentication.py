"""Who may do what: keys by role and campaign, or anybody on this machine while there is no key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from urllib.parse import urlsplit

from entice.service.domain.errors import Refusal, not_found
from entice.service.storage.api_keys import CACHE_SECONDS, Keys, KeyView, Role

ANYBODY = KeyView(id="-", name="anybody on this machine", role="admin", campaign=None, created=0)
"""Who calls while there is no key."""
VISITOR = KeyView(id="-", name="a browser on this machine", role="read", campaign=None, created=0)
"""The same, if it is a browser: it may be led here by any page, and is not to spend a budget."""
_OF_BROWSERS = frozenset({b"origin", b"sec-fetch-mode", b"sec-fetch-site"})

_FORWARDED = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"}
)
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Authenticator:
    """Lets callers in by their keys.

    Without any key, and only where the service is bound to loopback, everybody is let in who is
    meant to be there: a browser that was led here by a foreign page or a foreign name is not. A
    browser that came by itself may look and simulate, but change nothing.
    """

    def __init__(self, keys: Keys, *, open_to_loopback: bool) -> None:
        self._keys = keys
        self._open = open_to_loopback
        self._reading: Future[None] | None = None
        # A thread of its own: nobody is let in while others wait for long reads.
        self._reader = ThreadPoolExecutor(1, "entice-keys")

    async def admit(self, headers: Mapping[bytes, bytes], roles: frozenset[Role]) -> KeyView:
        """Return who calls, or refuse: without a good key, or with one of another role."""
        age = self._keys.age()
        if age > CACHE_SECONDS / 2:
            self._read_keys()
        if age > CACHE_SECONDS and self._reading is not None:
            await asyncio.shield(asyncio.wrap_future(self._reading))
        return self._judge(headers, roles)

    def readmit(self, headers: Mapping[bytes, bytes], roles: frozenset[Role]) -> None:
        """Refuse who was let in before and has been shut out since, by what was read last."""
        if self._keys.age() > CACHE_SECONDS / 2:
            self._read_keys()
        self._judge(headers, roles)

    def _judge(self, headers: Mapping[bytes, bytes], roles: frozenset[Role]) -> KeyView:
        if self._open and not self._keys.any_cached():
            if _OF_BROWSERS.isdisjoint(headers):
                return ANYBODY
            if not VISITOR.may(roles):
                raise Refusal(403, "read-only", "Read-only without a key", _LOOK_ONLY)
            return VISITOR
        caller = self._keys.check_cached(_presented(headers))
        if caller is None:
            raise Refusal(401, "unauthorized", "A key is needed", _UNKNOWN)
        if not caller.may(roles):
            allowed = ", ".join(sorted({"admin", *roles}))
            detail = (
                f"This key has the role {caller.role}; what you ask for needs one of: {allowed}."
            )
            raise Refusal(403, "forbidden", "Another role is needed", detail)
        return caller

    def refuse_strangers(self, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Refuse a browser that came here through a foreign name or from a foreign page.

        A page of anybody's may point a name of its own to 127.0.0.1 and then ask as if from the
        same origin. Where a key is asked for, that is of no use to it.
        """
        if not self._open or self._keys.any_cached():
            return None
        if not _FORWARDED.isdisjoint(headers):
            detail = (
                "The request came through a proxy. Whoever can reach that could spend the budget: "
                "make a key with `entice keys create`."
            )
            return Refusal(403, "forwarded", "A key is needed behind a proxy", detail)
        host = headers.get(b"host", b"")
        if not _is_loopback(host):
            detail = (
                "Without keys the service answers to localhost, 127.0.0.1 and [::1] only. Ask for "
                "it by one of these, or make a key with `entice keys create`."
            )
            return Refusal(403, "foreign-host", "Foreign host", detail)
        origin = headers.get(b"origin")
        if origin is not None and origin != b"http://" + host:
            detail = (
                "Without keys the service answers to no page of another origin. Make a key with "
                "`entice keys create`, and have your server ask in place of the browser."
            )
            return Refusal(403, "foreign-origin", "Foreign origin", detail)
        return None

    def _read_keys(self) -> None:
        """Have the keys read in a thread, once for all who ask; meanwhile the old ones count."""
        if self._reading is None or self._reading.done():
            self._reading = self._reader.submit(self._keys.reload)


def hide_other_campaigns(caller: KeyView, what: str, name: str, campaign: str) -> None:
    """Hide from a key of one campaign all that belongs to others, as if it did not exist."""
    if caller.campaign is not None and caller.campaign != campaign:
        raise not_found(what, name)


def require_all_campaigns(caller: KeyView) -> None:
    """Refuse a key of one campaign where all are concerned."""
    if caller.campaign is not None:
        detail = "This key is for one campaign; what you ask for concerns all of them."
        raise Refusal(403, "forbidden", "A key for all campaigns is needed", detail)


_LOOK_ONLY = (
    "Without keys a browser may look and simulate, but change nothing. Make a key with "
    "`entice keys create --role admin --name me`, and give it to the page."
)
_UNKNOWN = (
    "Send a key that is known and not revoked, as `Authorization: Bearer entice_...`. "
    "`entice keys create` makes one."
)


def _presented(headers: Mapping[bytes, bytes]) -> str:
    scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


@lru_cache(256)
def _is_loopback(host: bytes) -> bool:
    try:
        return urlsplit(f"//{host.decode('latin-1')}").hostname in LOOPBACK
    except ValueError:
        return False
