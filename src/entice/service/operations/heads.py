"""Heads: the expected end of each event log, all API keys, and a digest of stored responses.

An operator keeps them outside the database. A later database must continue from them: its logs may
be longer, keys may have been added or revoked, and old responses deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import groupby
from pathlib import Path

import msgspec

import entice
from entice.errors import InputError
from entice.service.storage.maintenance import RESPONSE_LIFETIME
from entice.service.storage.row_checksums import stored_responses
from entice.service.storage.store import Session, Store

_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SETTLED_AFTER = 60 * _SECOND
"""Microseconds after which no transaction adds a stored response of an earlier time any more."""


class LogHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last event of a campaign's log."""

    seq: int
    hash: str


class KeyHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An API key."""

    digest: str
    """Of all columns that never change."""
    revoked: int | None


class ResponsesHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored responses of one hour."""

    count: int
    digest: str


class Heads(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The heads of a database."""

    entice: str
    at: datetime
    campaigns: dict[str, LogHead]
    keys: dict[str, KeyHead]
    responses: dict[datetime, ResponsesHead]
    """By the start of the hour, in UTC. Hours without responses are left out."""
    responses_until: datetime


def read_heads(store: Store, now: int | None = None) -> Heads:
    """Read the heads of a database, which may be in use. `now` is in microseconds since 1970."""
    now = time.time_ns() // 1000 if now is None else now
    with store.read() as session:
        # The clock of the service may be behind the wall clock, for example after a suspension.
        [[newest]] = session.rows("SELECT max(at) FROM answers")
        until = min(now - SETTLED_AFTER, (newest or now) + 1)
        rows = session.rows("SELECT id, seq, head FROM campaigns ORDER BY number")
        campaigns = {name: LogHead(seq, bytes(head).hex()) for name, seq, head in rows}
        keys = _read_keys(session)
    responses = _read_responses(store, 0, until)
    version = entice.__version__
    return Heads(version, _datetime(now), campaigns, keys, responses, _datetime(until))


def encode_heads(heads: Heads) -> bytes:
    """Return heads as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(heads), indent=1) + b"\n"


def load_heads(path: Path) -> Heads:
    """Read a file that `entice head` has written."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Heads)
    except OSError as error:
        rule = f"cannot be read ({error.strerror})"
        raise InputError("the file of heads", rule, given=str(path)) from error
    except msgspec.MsgspecError as error:
        rule = f"must be one that `entice head` has written ({error})"
        raise InputError("the file of heads", rule, given=str(path)) from error


def check_heads(
    store: Store, heads: Heads, campaign: str | None = None, now: int | None = None
) -> Iterator[str]:
    """Report where a database does not continue from its heads.

    This compares hashes; `verify` checks that they follow from each other. `campaign` limits the
    check to one campaign.
    """
    with store.read() as session:
        for name, head in heads.campaigns.items():
            if campaign in (None, name):
                yield from _check_log(session, name, head)
        keys = _read_keys(session)
    if campaign is not None:
        return
    for number, key in heads.keys.items():
        found = keys.get(number)
        if found is None:
            yield f"Key {number} is missing."
        elif found.digest != key.digest:
            yield f"Key {number} was altered: its role, campaign, name or hash is different."
        elif key.revoked is not None and found.revoked != key.revoked:
            yield f"Key {number} was revoked, and its row no longer says so."
    yield from _check_responses(store, heads, now)


def _check_log(session: Session, name: str, head: LogHead) -> Iterator[str]:
    rows = session.rows("SELECT number FROM campaigns WHERE id = ?", (name,))
    if not rows:
        yield f"Campaign {name} is missing."
        return
    number = rows[0][0]
    found = session.rows(
        "SELECT hash FROM events WHERE campaign = ? AND seq = ?", (number, head.seq)
    )
    if not found:
        sql = "SELECT coalesce(max(seq), 0) FROM events WHERE campaign = ?"
        last = session.rows(sql, (number,))[0][0]
        yield (
            f"The log of campaign {name} was cut: it ends with event {last}, and had {head.seq} "
            "events."
        )
    elif bytes(found[0][0]).hex() != head.hash:
        yield f"The log of campaign {name} was rewritten: event {head.seq} has another hash."


def _check_responses(store: Store, heads: Heads, now: int | None) -> Iterator[str]:
    now = time.time_ns() // 1000 if now is None else now
    # The hours in which responses may have been deleted because of their age are left out.
    start = _hour(now - RESPONSE_LIFETIME) + _HOUR
    expected = {hour: one for hour, one in heads.responses.items() if _micros(hour) >= start}
    found = _read_responses(store, start, _micros(heads.responses_until))
    none = ResponsesHead(0, "")
    for hour in sorted(expected.keys() | found.keys()):
        before, after = expected.get(hour, none), found.get(hour, none)
        if before != after:
            yield (
                f"Stored responses of the hour from {hour:%Y-%m-%d %H:%M} UTC were altered: "
                f"{before.count} before, {after.count} now"
                f"{', with other contents' if before.count == after.count else ''}."
            )


def _read_keys(session: Session) -> dict[str, KeyHead]:
    rows = session.rows(
        "SELECT revoked, id, name, role, campaign, created, hash FROM keys ORDER BY created, id"
    )
    return {row[1]: KeyHead(_digest(row[1:]), row[0]) for row in rows}


def _read_responses(store: Store, start: int, end: int) -> dict[datetime, ResponsesHead]:
    rows = (row for row, _ in stored_responses(store, start, end))
    found: dict[datetime, ResponsesHead] = {}
    for hour, some in groupby(rows, key=lambda row: _hour(row[-1])):
        hasher, count = sha256(), 0
        for row in some:
            hasher.update(msgspec.msgpack.encode(row))
            count += 1
        found[_datetime(hour)] = ResponsesHead(count, hasher.hexdigest())
    return found


def _digest(row: tuple[object, ...]) -> str:
    return sha256(msgspec.msgpack.encode(row)).hexdigest()


def _hour(at: int) -> int:
    return at - at % _HOUR


def _datetime(at: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at)


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
