"""Policies whose machine code is not loaded yet."""

from __future__ import annotations

from entice.service.domain.errors import NotReady

PENDING: dict[str, int] = {}
"""The kinds of policies not loaded or compiled yet, each with the seconds until a retry."""


def check_compiled(kind: str) -> None:
    """Raise `NotReady` if a policy is not loaded or compiled yet."""
    retry_after = PENDING.get(kind)
    if retry_after is not None:
        raise NotReady(kind, retry_after)
