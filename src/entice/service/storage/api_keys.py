"""API keys: 256 random bits, shown once, kept as a hash, compared in constant time."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from hashlib import sha256
from typing import Any, Literal, get_args

import msgspec

from entice.errors import InputError, did_you_mean
from entice.service.domain.offer import digest
from entice.service.storage.store import Store

Role = Literal["admin", "decide", "feedback", "read"]

CACHE_SECONDS = 1.0
"""Seconds for which the keys once read are believed: so long a revoked key may live on."""


class KeyView(msgspec.Struct, frozen=True):
    """What is known of a key. The key itself is not."""

    id: str
    name: str
    role: str
    """What it may do: one or several roles, with commas between."""
    campaign: str | None
    """The only campaign that it opens; None: all."""
    created: int
    """In microseconds since 1970."""
    revoked: int | None = None

    def may(self, roles: frozenset[Role]) -> bool:
        """Tell whether it has one of some roles; an admin has all."""
        own = self.role.split(",")
        return "admin" in own or not roles.isdisjoint(own)


class _StoredKey(msgspec.Struct, frozen=True):
    view: KeyView
    hash: bytes
    damaged: bool = False
    """Whether the row is not as it was written: then it opens nothing."""


class Keys:
    """The keys of one database. Safe to use from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: dict[str, _StoredKey] = {}
        self._read_at = -CACHE_SECONDS

    def create(self, role: str, campaign: str | None, name: str) -> tuple[KeyView, str]:
        """Make a key; the text that is returned beside it can't be had again."""
        roles = role.replace(" ", "").split(",")
        for one in roles:
            if one not in get_args(Role):
                raise InputError("role", "is unknown", given=one, todo=did_you_mean(one, _roles()))
        role = ",".join(sorted(set(roles)))
        if not 1 <= len(name) <= 200 or not name.isprintable():
            raise InputError("name", "must be one line of 1 to 200 characters", given=name)
        number, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        view = KeyView(number, name, role, campaign, time.time_ns() // 1000)
        with self._store.write() as session:
            if campaign is not None and not session.rows(
                "SELECT 1 FROM campaigns WHERE id = ?", (campaign,)
            ):
                raise InputError("campaign", "is unknown", given=campaign)
            session.run(
                "INSERT INTO keys (id, name, role, campaign, hash, created, revoked, digest) "
                "VALUES (?, ?, ?, ?, ?, ?, NULL, ?)",
                (
                    number, name, role, campaign, _hash(secret), view.created,
                    _checksum(view, _hash(secret)),
                ),
            )  # fmt: skip
        self._read_at = -CACHE_SECONDS
        return view, f"entice_{number}_{secret}"

    def list(self) -> list[KeyView]:
        """Return all keys, the oldest first, revoked ones too."""
        self.reload()
        return sorted((kept.view for kept in self._kept.values()), key=lambda view: view.created)

    def revoke(self, number: str) -> KeyView:
        """Let a key open nothing any more."""
        with self._store.write() as session:
            known = session.rows(f"{_KEYS} WHERE id = ?", (number,))
            if not known:
                rule = "must be the id of a key"
                raise InputError("key", rule, given=number, todo="See `entice keys list`.")
            kept = _kept(known[0])
            if kept.view.revoked is None or kept.damaged:
                now = time.time_ns() // 1000
                view = msgspec.structs.replace(kept.view, revoked=now)
                session.run(
                    "UPDATE keys SET revoked = ?, digest = ? WHERE id = ?",
                    (now, _checksum(view, kept.hash), number),
                )
        self.reload()
        return self._kept[number].view

    def check(self, presented: str) -> KeyView | None:
        """Return whose key this is, or None if it opens nothing."""
        if self.age() > CACHE_SECONDS:
            self.reload()
        return self.check_cached(presented)

    def check_cached(self, presented: str) -> KeyView | None:
        """As `check`, from what was read last."""
        word, _, rest = presented.partition("_")
        number, _, secret = rest.partition("_")
        kept = self._kept.get(number)
        if kept is not None and kept.damaged:
            kept = None
        # Unknown ids take the same steps, so that time does not tell them from wrong secrets.
        expected = kept.hash if kept is not None else _NO_HASH
        right = hmac.compare_digest(_hash(secret), expected)
        if kept is None or not right or word != "entice" or kept.view.revoked is not None:
            return None
        return kept.view

    def any(self) -> bool:
        """Tell whether there is, or ever was, a key. Once there was, a key is asked for."""
        if self.age() > CACHE_SECONDS:
            self.reload()
        return bool(self._kept)

    def known(self) -> bool:
        """As `any`, from what was read last."""
        return bool(self._kept)

    def age(self) -> float:
        """Return for how many seconds the keys have not been read."""
        return time.monotonic() - self._read_at

    def reload(self) -> None:
        """Read all keys."""
        with self._lock:
            begun = time.monotonic()
            with self._store.read() as session:
                rows = session.rows(_KEYS)
            self._kept = {row[0]: _kept(row) for row in rows}
            self._read_at = begun


_KEYS = "SELECT id, name, role, campaign, created, revoked, hash, digest FROM keys"


def _kept(row: tuple[Any, ...]) -> _StoredKey:
    """Read a key off its row."""
    view, secret = KeyView(*row[:6]), bytes(row[6])
    return _StoredKey(view, secret, _checksum(view, secret) != row[7])


def damaged_keys(store: Store) -> list[str]:
    """Name the keys whose rows are not as they were written."""
    with store.read() as session:
        return [row[0] for row in session.rows(_KEYS) if _kept(row).damaged]


def _checksum(view: KeyView, secret: bytes) -> bytes:
    return digest(msgspec.json.encode(view), secret)


def _roles() -> tuple[str, ...]:
    return get_args(Role)


def _hash(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


_NO_HASH = bytes(32)
