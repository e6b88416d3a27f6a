"""The table of webhooks, and the lease of the process that delivers to them."""

from __future__ import annotations

import secrets
import time
from typing import Any, NamedTuple

import msgspec

from entice.service.domain.errors import Refusal, conflict, not_found
from entice.service.domain.offer import digest
from entice.service.storage.queries import number_of
from entice.service.storage.store import Row, Session, Store
from entice.service.storage.stored_responses import key_reused

MAX_PER_CAMPAIGN = 5
MAX_WEBHOOKS = 100
"""Maximum number of webhooks of all campaigns together."""


class Webhook(msgspec.Struct, frozen=True):
    """A webhook, as its row stores it. Times are in microseconds since 1970."""

    id: str
    campaign: str
    number: int
    """The campaign's primary key."""
    url: str
    created: int
    delivered: int
    """The sequence number of the last event that was delivered."""
    ping: bool
    """Whether to send a request even if there are no events."""
    failures: int
    """Failed attempts since the last success."""
    failing_since: int | None
    next_attempt: int
    paused: int | None
    """When the webhook was paused; None if it is active."""
    last_success: int | None
    last_error: str | None
    last_error_at: int | None
    head: int
    """The sequence number of the campaign's last event."""
    damaged: bool
    """Whether the row was altered. Such a webhook gets no events."""

    @property
    def waits(self) -> bool:
        """Whether there is something to deliver."""
        return self.ping or self.head > self.delivered


class WebhookName(NamedTuple):
    """The parts of a webhook's id."""

    key: str
    """Of the idempotency key."""
    request: str
    """Of the request."""

    @property
    def id(self) -> str:
        """The webhook's id."""
        return f"w_{self.key}{self.request}"

    def check(self, existing: str) -> bool:
        """Return whether a webhook was created by the same request.

        Raise an error if it was created by another request with the same idempotency key.
        """
        if existing == self.id:
            return True
        if existing.startswith(f"w_{self.key}"):
            raise key_reused()
        return False


_WEBHOOK = (
    "SELECT w.id, c.id, w.campaign, w.url, w.created, w.delivered, w.ping, w.failures, "
    "w.failing_since, w.next_attempt, w.paused, w.last_success, w.last_error, w.last_error_at, "
    "c.seq, w.digest FROM webhooks w JOIN campaigns c ON c.number = w.campaign"
)


def _webhook(row: Row) -> Webhook:
    name, _, number, url, created = row[:5]
    damaged = _checksum(name, number, url, created) != row[-1]
    columns: list[Any] = [*row[:6], bool(row[6]), *row[7:-1], damaged]
    return Webhook(*columns)


def _checksum(name: str, number: int, url: str, created: int) -> bytes:
    return digest(f"{name}\0{number}\0{url}\0{created}".encode())


def read_webhooks(session: Session) -> list[Webhook]:
    """Return all webhooks, oldest first."""
    return [_webhook(row) for row in session.rows(f"{_WEBHOOK} ORDER BY w.created, w.id")]


class Webhooks:
    """The webhooks of one database. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, campaign: str) -> list[Webhook]:
        """Return the webhooks of a campaign, oldest first."""
        with self._store.read() as session:
            number_of(session, campaign)
            return [found for found in read_webhooks(session) if found.campaign == campaign]

    def create(
        self, campaign: str, url: str, after: int | None, name: WebhookName | None = None
    ) -> tuple[Webhook, bool]:
        """Create a webhook for the events after a number. Default: after the last event.

        Returns the webhook, and whether an earlier request with the same `name` has created it. By
        default the name is random.
        """
        name, now = name or WebhookName(*map(secrets.token_hex, (5, 3))), time.time_ns() // 1000
        with self._store.write() as session:
            _lock(self._store, session)
            number = number_of(session, campaign)
            [[head]] = session.rows("SELECT seq FROM campaigns WHERE number = ?", (number,))
            if after is not None and after > head:
                detail = f"after must be at most {head}, the last event's number; got {after}."
                raise Refusal(422, "invalid", "Invalid request", detail)
            existing = read_webhooks(session)
            same = [found for found in existing if found.campaign == campaign]
            for found in same:
                if name.check(found.id):
                    return found, True
            if any(found.url == url for found in same):
                raise conflict("The campaign has a webhook with this url. Delete that one first.")
            _check_maximum("The campaign has", len(same), MAX_PER_CAMPAIGN)
            _check_maximum("The service has", len(existing), MAX_WEBHOOKS)
            session.run(
                "INSERT INTO webhooks (id, campaign, url, created, digest, delivered, ping, "
                "failures, next_attempt) VALUES (?, ?, ?, ?, ?, ?, 1, 0, 0)",
                (
                    name.id, number, url, now, _checksum(name.id, number, url, now),
                    head if after is None else after,
                ),
            )  # fmt: skip
            return _get(session, campaign, name.id), False

    def set_paused(self, campaign: str, name: str, paused: bool) -> Webhook:
        """Pause a webhook, or resume it: the next attempt is then immediate."""
        with self._store.write() as session:
            _get(session, campaign, name)
            if paused:
                session.run(
                    "UPDATE webhooks SET paused = ? WHERE id = ? AND paused IS NULL",
                    (time.time_ns() // 1000, name),
                )
            else:
                session.run(
                    "UPDATE webhooks SET paused = NULL, ping = 1, failures = 0, "
                    "failing_since = NULL, next_attempt = 0 WHERE id = ?",
                    (name,),
                )
            return _get(session, campaign, name)

    def delete(self, campaign: str, name: str) -> Webhook:
        """Delete a webhook, and return its last state."""
        with self._store.write() as session:
            found = _get(session, campaign, name)
            session.run("DELETE FROM webhooks WHERE id = ?", (name,))
            return found


def _get(session: Session, campaign: str, name: str) -> Webhook:
    rows = session.rows(f"{_WEBHOOK} WHERE w.id = ? AND c.id = ?", (name, campaign))
    if not rows:
        raise not_found("webhook", name)
    return _webhook(rows[0])


def _check_maximum(subject: str, count: int, maximum: int) -> None:
    if count >= maximum:
        raise conflict(f"{subject} {count} webhooks, which is the maximum. Delete one first.")


class Outcome(msgspec.Struct, frozen=True):
    """The result of an attempt to deliver."""

    webhook: Webhook
    """As it was before the attempt."""
    delivered: int
    """The last event that the receiver has confirmed."""
    at: int
    error: str | None
    pause: float
    """Seconds until the next attempt, if there was an error."""
    give_up_after: float
    """Seconds without success after which the webhook is paused."""


def failures_after(webhook: Webhook, delivered: int) -> int:
    """Return the failures in a row, including a new one that followed event `delivered`."""
    return 1 if delivered > webhook.delivered else webhook.failures + 1


def record(session: Session, outcome: Outcome) -> None:
    """Store the outcome of an attempt, with the last event that was delivered."""
    before, at = outcome.webhook, outcome.at
    if outcome.error is None:
        session.run(
            "UPDATE webhooks SET delivered = ?, ping = 0, failures = 0, failing_since = NULL, "
            "next_attempt = 0, last_success = ? WHERE id = ?",
            (outcome.delivered, at, before.id),
        )
        return
    failures = failures_after(before, outcome.delivered)
    since = at if failures == 1 or before.failing_since is None else before.failing_since
    success = at if outcome.delivered > before.delivered else before.last_success
    paused = at if at - since > outcome.give_up_after * 1e6 else None
    session.run(
        "UPDATE webhooks SET delivered = ?, failures = ?, failing_since = ?, next_attempt = ?, "
        "last_success = ?, last_error = ?, last_error_at = ?, paused = coalesce(paused, ?) "
        "WHERE id = ?",
        (
            outcome.delivered, failures, since, at + int(outcome.pause * 1e6),
            success, outcome.error, at, paused, before.id,
        ),
    )  # fmt: skip


class Lease:
    """The right of one process to deliver, so that no event is sent by two at the same time.

    The clocks of several machines may differ, so no time is compared between processes: the holder
    renews the lease by counting, and another process takes it after it has seen the same count for
    the lease's duration.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._name = secrets.token_hex(8)
        self._renewed: float | None = None
        self._seen: tuple[Row, float] | None = None

    @property
    def held(self) -> bool:
        """Whether this process has the lease, unless another one took it since the last renewal."""
        return self._renewed is not None

    @property
    def age(self) -> float:
        """The seconds since the last renewal."""
        return float("inf") if self._renewed is None else time.monotonic() - self._renewed

    def take(self, store: Store) -> None:
        """Take the lease if nobody holds it, or if its holder no longer renews it."""
        now = time.monotonic()
        with store.read() as session:
            [row] = session.rows("SELECT holder, renewals FROM webhook_lease")
        if self._seen is None or self._seen[0] != row:
            self._seen = row, now
        if row[0] and now - self._seen[1] < self.seconds:
            return
        with store.write() as session:
            taken = session.run(
                "UPDATE webhook_lease SET holder = ?, renewals = renewals + 1 "
                "WHERE holder = ? AND renewals = ?",
                (self._name, *row),
            )
        if taken:
            self._renewed = now

    def renew(self, session: Session, *, release: bool = False) -> bool:
        """Renew or release the lease; return whether this process still had it.

        After the commit, call `set_renewed`.
        """
        changed = session.run(
            "UPDATE webhook_lease SET holder = ?, renewals = renewals + 1 WHERE holder = ?",
            ("" if release else self._name, self._name),
        )
        return bool(changed)

    def set_renewed(self, at: float | None) -> None:
        """Note when the lease was renewed, in seconds of the monotonic clock; None: it is lost."""
        self._renewed = at


def _lock(store: Store, session: Session) -> None:
    """Let other processes wait, so that two of them do not exceed a maximum together."""
    session.rows(f"SELECT holder FROM webhook_lease{store.for_update}")


def damaged_webhooks(store: Store) -> list[str]:
    """Return the ids of webhooks whose rows were altered."""
    with store.read() as session:
        return [webhook.id for webhook in read_webhooks(session) if webhook.damaged]
