"""The event log, and the webhooks that deliver it."""

from __future__ import annotations

from typing import Any

import msgspec

from entice.api_types.times import Time


class EventView(msgspec.Struct, frozen=True):
    """An event of a campaign's log."""

    seq: int
    """Sequence number within the campaign, from 1."""
    at: Time
    hash: str
    """SHA-256 of the previous event's hash and the bytes of `body`."""
    body: dict[str, Any]
    """Event exactly as it was stored."""
    why: str | None
    """Explanation of an offer in plain words. Null for other events."""


class EventPage(msgspec.Struct, frozen=True):
    """A page of events in order."""

    events: list[EventView]
    next: int | None
    """Value of `after` for the next page. Null on the last page."""


class WebhookView(msgspec.Struct, frozen=True):
    """A webhook: an address to which the service sends the events of a campaign."""

    id: str
    campaign: str
    url: str
    created_at: Time
    paused: bool
    """Whether nothing is sent: by request, or because all attempts have failed for three days."""
    delivered: int
    """Sequence number of the last event that the receiver has confirmed."""
    lag: int
    """Number of events that are not delivered yet."""
    failures: int
    """Failed attempts since the last success."""
    last_success_at: Time | None
    last_error: str | None
    """Reason of the last failed attempt. It stays after a later success."""
    last_error_at: Time | None
    next_attempt_at: Time | None
    """Time of the next attempt after a failure. Null if the last attempt succeeded."""


class CreatedWebhook(WebhookView, frozen=True):
    """A new webhook, with its secret."""

    secret: str
    """Key of the signatures. It cannot be retrieved again."""


class WebhookPayload(msgspec.Struct, frozen=True):
    """The body of a request to a webhook."""

    webhook: str
    campaign: str
    events: list[EventView]
    """Events in order. Empty in the first request to a new webhook without events to send."""
