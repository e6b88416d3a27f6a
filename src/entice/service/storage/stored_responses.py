"""Stored responses to idempotency keys."""

from __future__ import annotations

from collections.abc import Iterable

from entice.service.domain.commands import CommandResult
from entice.service.domain.errors import Refusal
from entice.service.storage.fair_queue import PendingCommand
from entice.service.storage.row_checksums import RowChecksums
from entice.service.storage.store import ANSWERS, Columns, Session
from entice.service.storage.unit_of_work import UnitOfWork

StoredResponses = dict[tuple[str, str], tuple[bytes, CommandResult | None]]
"""Stored responses by scope and idempotency key, with the request's digest; None if damaged."""

_COLUMNS = Columns(ANSWERS, ("scope", "key", "request", "status", "body", "at", "digest"))


def stored_responses(
    session: Session, group: Iterable[PendingCommand], checksums: RowChecksums | None
) -> StoredResponses:
    """Load the stored responses to the idempotency keys of some commands.

    Without any key, `checksums` may be None.
    """
    keys: dict[str, list[str]] = {}
    for pending in group:
        if pending.key is not None:
            keys.setdefault(pending.scope, []).append(pending.key)
    responses: StoredResponses = {}
    for scope, some_keys in keys.items():
        assert checksums is not None
        rows = session.rows_where_in(_COLUMNS, "scope = ?", (scope,), "key", some_keys)
        for *row, checksum in rows:
            _, key, request, status, body, _ = row
            intact = checksum == checksums.of_response(tuple(row))
            responses[scope, key] = request, CommandResult(status, body) if intact else None
    return responses


def store_response(
    work: UnitOfWork,
    pending: PendingCommand,
    result: CommandResult,
    at: int,
    checksums: RowChecksums | None,
) -> None:
    """Store the response to a command under its idempotency key."""
    assert pending.key is not None
    assert checksums is not None
    row = (pending.scope, pending.key, pending.digest, result.status, result.body, at)
    work.store_response((*row, checksums.of_response(row)))


def replay(pending: PendingCommand, digest: bytes, result: CommandResult | None) -> CommandResult:
    """Return the stored response to an idempotency key."""
    if result is None:
        raise Refusal(
            503, "out-of-order", "The database is damaged",
            "The response stored under this Idempotency-Key is damaged. The operator of the "
            "service must restore a backup.",
        )  # fmt: skip
    if digest != pending.digest:
        raise key_reused()
    return result._replace(replayed=True)


def key_reused() -> Refusal:
    """Return the error of an idempotency key that was used with a different request."""
    return Refusal(
        422, "idempotency-key-reused", "Idempotency key reused",
        "This Idempotency-Key was used with a different request, or for a player who was "
        "erased since. Use a new key for each request; repeat a key only to retry the same "
        "request.",
    )  # fmt: skip
