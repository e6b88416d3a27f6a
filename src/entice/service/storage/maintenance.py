"""Maintenance by the writer thread: expire offers, delete old idempotency keys."""

from __future__ import annotations

from typing import Protocol

from entice.service.domain.clock import Clock
from entice.service.domain.commands import MORE_DUE, Command, CommandResult, Expire
from entice.service.domain.errors import DamagedCampaign, NotReady
from entice.service.storage.store import Store

RESPONSE_LIFETIME = 7 * 24 * 3600 * 1_000_000
"""Microseconds for which the response to an idempotency key is stored."""
MAX_DELETED = 5000
"""Maximum number of stored responses that one run deletes."""


class CommandExecutor(Protocol):
    """The part of `GroupCommit` that maintenance uses."""

    busy: set[str]
    """Campaigns that other commands must not change now."""

    def execute(self, command: Command) -> CommandResult | Exception:
        """Execute a command in its own transaction."""

    def max_clock_lead(self) -> int:
        """Return the largest lead of a campaign's time over the clock, in microseconds."""


class Maintenance:
    """The periodic work of the writer."""

    def __init__(self, store: Store, clock: Clock, executor: CommandExecutor) -> None:
        self._store = store
        self._clock = clock
        self._executor = executor

    def run(self, *, verify_write: bool) -> tuple[bool, Exception | None]:
        """Expire offers that are due, and delete old responses.

        Each campaign gets its own transaction, so that a damaged one does not block the others.
        After an error the next run tries again. `verify_write` forces a write, to test after an
        error whether the database can be written again. Returns whether more is due, and the error.
        """
        more, failure = False, None
        try:
            for name in self._campaigns_with_due_offers():
                if name in self._executor.busy:  # a later run does it
                    continue
                result = self._executor.execute(Expire(name))
                if isinstance(result, NotReady):  # just after start-up: a later run does it
                    continue
                if isinstance(result, DamagedCampaign):  # the service serves the others
                    continue
                if isinstance(result, Exception):
                    failure = result
                else:
                    more = more or result.status == MORE_DUE
            if failure is None:
                self._delete_old_responses(verify_write)
        except Exception as error:  # an error here must not stop the writer
            failure = error
        return more and failure is None, failure

    def _campaigns_with_due_offers(self) -> list[str]:
        until = self._clock.now() + self._executor.max_clock_lead()
        with self._store.read() as session:
            offers = f"offers{session.index_hint('due_offers')}"
            rows = session.rows(
                f"SELECT id FROM campaigns WHERE EXISTS "
                f"(SELECT 1 FROM {offers} WHERE campaign = number AND state <= 1 AND due <= ?)",
                (until,),
            )
        return [name for (name,) in rows]

    def _delete_old_responses(self, verify_write: bool) -> None:
        until = self._clock.now() - RESPONSE_LIFETIME
        with self._store.read() as session:
            old = session.rows(
                "SELECT scope, key FROM answers WHERE at < ? LIMIT ?", (until, MAX_DELETED)
            )
        if old or verify_write:
            with self._store.write() as session:
                for scope_and_key in old:
                    session.run("DELETE FROM answers WHERE scope = ? AND key = ?", scope_and_key)
                session.run("UPDATE meta SET value = value")
