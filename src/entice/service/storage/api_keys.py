"""API keys: 256 random bits, shown once, stored as a hash, compared in constant time."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from hashlib import sha256
from typing import Any, Literal, get_args

import msgspec

from entice.errors import InputError, did_you_mean
from entice.service.domain.errors import conflict
from entice.service.storage.player_hasher import PlayerHasher, player_hasher_for
from entice.service.storage.row_checksums import KEY, Checksums, RowChecksums
from entice.service.storage.store import Session, Store

Role = Literal["admin", "decide", "feedback", "read"]

CACHE_SECONDS = 1.0
"""Seconds for which keys are cached. A revoked key may be accepted for that long."""


class KeyView(msgspec.Struct, frozen=True):
    """The stored data of a key, without the key itself."""

    id: str
    name: str
    role: str
    """One or several roles, separated by commas."""
    campaign: str | None
    """The only campaign that the key can access; None: all."""
    created: int
    """In microseconds since 1970."""
    revoked: int | None = None

    def may(self, roles: frozenset[Role]) -> bool:
        """Return whether the key has one of `roles`. An admin has all roles."""
        own = self.role.split(",")
        return "admin" in own or not roles.isdisjoint(own)


class _StoredKey(msgspec.Struct, frozen=True):
    view: KeyView
    hash: bytes
    damaged: bool = False
    """Whether the row was altered; such a key is not accepted."""


class Keys:
    """The API keys of one database. Thread-safe.

    Parameters
    ----------
    players
        Has the secret for the rows' checksums. By default it is read when it is needed.
    """

    def __init__(self, store: Store, players: PlayerHasher | None = None) -> None:
        self._store = store
        self._players = players
        self._lock = threading.Lock()
        self._keys: dict[str, _StoredKey] = {}
        self._read_at = -CACHE_SECONDS

    def create(
        self, role: str, campaign: str | None, name: str, *, keep_admin: bool = False
    ) -> tuple[KeyView, str]:
        """Create a key; return its data and the key, which cannot be retrieved again.

        With `keep_admin`, raise `Refusal` if keys would exist, but none that can create others.
        """
        roles = role.replace(" ", "").split(",")
        for one in roles:
            if one not in get_args(Role):
                todo = did_you_mean(one, _roles())
                raise InputError("role", "must be a known role", given=one, todo=todo)
        role = ",".join(sorted(set(roles)))
        if not 1 <= len(name) <= 200 or not name.isprintable():
            raise InputError("name", "must be one line of 1 to 200 characters", given=name)
        number, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        checksums = self._checksums()
        view = KeyView(number, name, role, campaign, time.time_ns() // 1000)
        with self._store.write() as session:
            if campaign is not None and not session.rows(
                "SELECT 1 FROM campaigns WHERE id = ?", (campaign,)
            ):
                rule = "must be the id of a campaign"
                todo = "See `entice campaign list`."
                raise InputError("campaign", rule, given=campaign, todo=todo)
            if keep_admin and not self._any_admin(session, view):
                raise conflict(
                    "The first key must have the role admin, for all campaigns: as soon as a key "
                    "exists, the address that `entice serve` printed stops working."
                )
            session.run(
                "INSERT INTO keys (id, name, role, campaign, hash, created, revoked, digest) "
                "VALUES (?, ?, ?, ?, ?, ?, NULL, ?)",
                (
                    number, name, role, campaign, _hash(secret), view.created,
                    _checksum(checksums, view, _hash(secret)),
                ),
            )  # fmt: skip
        self._read_at = -CACHE_SECONDS
        return view, f"entice_{number}_{secret}"

    def list(self) -> list[KeyView]:
        """Return all keys, oldest first, including revoked ones."""
        self.reload()
        return sorted(
            (stored.view for stored in self._keys.values()), key=lambda view: view.created
        )

    def names(self) -> dict[str, str]:
        """Return the labels of all keys by id, also of revoked ones, as far as they are cached."""
        return {key: one.view.name for key, one in self._keys.items() if not one.damaged}

    def altered(self) -> frozenset[str]:
        """Return the ids of keys whose rows were altered, as far as they are cached.

        They are not accepted.
        """
        return frozenset(number for number, stored in self._keys.items() if stored.damaged)

    def revoke(self, number: str, *, keep_admin: bool = False) -> KeyView:
        """Revoke a key.

        With `keep_admin`, raise `Refusal` if it is the last one that can create others.
        """
        checksums = self._checksums()
        with self._store.write() as session:
            rows = session.rows(f"{_KEYS} WHERE id = ?", (number,))
            if not rows:
                rule = "must be the id of a key"
                raise InputError("key", rule, given=number, todo="See `entice keys list`.")
            stored = _stored_key(checksums, rows[0])
            if stored.view.revoked is None or stored.damaged:
                now = time.time_ns() // 1000
                view = msgspec.structs.replace(stored.view, revoked=now)
                if keep_admin and not self._any_admin(session, view):
                    raise conflict(
                        "This is the last key with the role admin for all campaigns: without it, "
                        "nobody could create keys here. Create another one first, or run `entice "
                        f"keys revoke {number}` on the server."
                    )
                session.run(
                    "UPDATE keys SET revoked = ?, digest = ? WHERE id = ?",
                    (now, _checksum(checksums, view, stored.hash), number),
                )
        self.reload()
        return self._keys[number].view

    def check(self, presented: str) -> KeyView | None:
        """Return the data of a valid key, or None."""
        if self.age() > CACHE_SECONDS:
            self.reload()
        return self.check_cached(presented)

    def check_cached(self, presented: str) -> KeyView | None:
        """Like `check`, but only with the cached keys."""
        word, _, rest = presented.partition("_")
        number, _, secret = rest.partition("_")
        stored = self._keys.get(number)
        if stored is not None and stored.damaged:
            stored = None
        # An unknown id takes the same steps as a wrong secret, so that timing reveals nothing.
        expected = stored.hash if stored is not None else _NO_HASH
        right = hmac.compare_digest(_hash(secret), expected)
        if stored is None or not right or word != "entice" or stored.view.revoked is not None:
            return None
        return stored.view

    def any(self) -> bool:
        """Return whether any key was ever created. From then on, requests need a key."""
        if self.age() > CACHE_SECONDS:
            self.reload()
        return bool(self._keys)

    def any_cached(self) -> bool:
        """Like `any`, but only with the cached keys."""
        return bool(self._keys)

    def age(self) -> float:
        """Return the seconds since the keys were last read."""
        return time.monotonic() - self._read_at

    def reload(self) -> None:
        """Read all keys from the database."""
        with self._lock:
            start = time.monotonic()
            with self._store.read() as session:
                rows = session.rows(_KEYS)
            self._keys = {row[0]: _stored_key(self._checksums(), row) for row in rows}
            self._read_at = start

    def _any_admin(self, session: Session, changed: KeyView) -> bool:
        """Return whether an administrator's key for all campaigns exists after a change.

        Locks all keys, so that two of them are not revoked at the same time.
        """
        rows = session.rows(f"{_KEYS}{self._store.for_update}")
        stored = (_stored_key(self._checksums(), row) for row in rows)
        views = {key.view.id: key.view for key in stored if not key.damaged}
        views[changed.id] = changed
        return any(
            view.may(frozenset()) and view.campaign is None and view.revoked is None
            for view in views.values()
        )

    def _checksums(self) -> RowChecksums:
        if self._players is None:
            self._players = player_hasher_for(self._store)
        return self._players.rows


_KEYS = f"SELECT {KEY}, digest FROM keys"


def _stored_key(checksums: Checksums, row: tuple[Any, ...]) -> _StoredKey:
    """Decode the row of a key."""
    view, secret = KeyView(*row[:6]), bytes(row[6])
    return _StoredKey(view, secret, checksums.of_key(row[:7]) != row[7])


def _checksum(checksums: Checksums, view: KeyView, secret: bytes) -> bytes:
    return checksums.of_key((*msgspec.structs.astuple(view), secret))


def _roles() -> tuple[str, ...]:
    return get_args(Role)


def _hash(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


_NO_HASH = bytes(32)
