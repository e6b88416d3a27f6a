"""API keys."""

from __future__ import annotations

import msgspec

from entice.api_types.times import Time


class ApiKeyView(msgspec.Struct, frozen=True):
    """An API key, without its secret."""

    id: str
    name: str
    """Label of the key."""
    roles: list[str]
    campaign: str | None
    """Only campaign that the key has access to. Null: all campaigns."""
    created_at: Time
    revoked_at: Time | None
    current: bool
    """Whether the request was sent with this key."""
    altered: bool
    """Whether the stored key was altered, so that it is rejected. Revoke it."""


class CreatedApiKey(ApiKeyView, frozen=True):
    """A new API key, with its secret."""

    key: str
    """The key to send as `Authorization: Bearer`. It cannot be retrieved again."""
