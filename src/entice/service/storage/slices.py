"""Long commands, executed in slices between the transactions of other campaigns.

A batch of 1,000 offers takes up to seconds. It is executed on the campaign in memory, outside any
transaction, for a few milliseconds at a time, and then written in one transaction: either all of it
or nothing. Other commands of its campaign wait for it, those of other campaigns do not.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from entice.service.domain.campaign import RULES, Campaign
from entice.service.domain.clock import Clock
from entice.service.domain.commands import (
    CommandResult,
    EnterRatings,
    MakeOffers,
    Rate,
    Reverse,
    Steps,
    execute_in_steps,
)
from entice.service.storage.fair_queue import PendingCommand
from entice.service.storage.rating_history import RatingHistory
from entice.service.storage.row_checksums import RowChecksums
from entice.service.storage.store import Store
from entice.service.storage.stored_hashes import prefetch_players, with_stored_hashes
from entice.service.storage.stored_responses import replay, store_response, stored_responses
from entice.service.storage.unit_of_work import UnitOfWork

SLICE = 0.002
"""Seconds of one slice, which has at least one step and finishes its last one."""
MAX_HISTORIES = 16
"""Number of campaigns whose ratings are kept in memory after they were read from the log."""

Histories = OrderedDict[str, RatingHistory]


class NotInSlices(Exception):
    """A command that has to be executed in a single transaction; it has changed nothing so far."""


class LongCommand:
    """A long command in progress.

    Parameters
    ----------
    cached, histories
        Campaigns, and histories of ratings, as of the last transaction. Those of this command are
        removed, and added again once it is written.
    now
        Returns the current time of a campaign, given its name and the time of its last event.
    checksums
        The checksums of stored responses. Only a command with an idempotency key needs them.
    """

    def __init__(
        self,
        pending: PendingCommand,
        store: Store,
        clock: Clock,
        cached: dict[str, Campaign],
        histories: Histories,
        now: Callable[[str, int], int],
        checksums: RowChecksums | None,
    ) -> None:
        self.pending = pending
        self.begun = time.perf_counter()
        self.seconds = 0.0
        """Seconds of CPU time used so far."""
        self.attempts = 1
        self._store, self._clock = store, clock
        self._cached, self._histories = cached, histories
        self._now, self._checksums = now, checksums
        self._stored = pending
        """The command with the hashes of players that are stored."""
        self._work: UnitOfWork | None = None
        self._steps: Steps | None = None
        self._result: CommandResult | None = None

    def run_slice(self) -> CommandResult | None:
        """Execute the next slice; return the result once it is written.

        Raises `Stale` if another process has changed the campaign in the meantime, and
        `NotInSlices` if the campaign must be upgraded to the current rules first.
        """
        start = time.thread_time()
        try:
            if self._result is not None:
                return self._write(self._result)
            with self._store.read() as session:
                if self._work is None:
                    self._work = UnitOfWork(self._store, session, self._cached, lock=False)
                    found = self._begin(self._work)
                    if found is not None:
                        return found
                self._work.use(session)
                assert self._steps is not None
                end_of_slice = time.perf_counter() + SLICE
                try:
                    next(self._steps)
                    while time.perf_counter() < end_of_slice:
                        next(self._steps)
                except StopIteration as end:
                    self._result = end.value
            return None
        finally:
            self.seconds += time.thread_time() - start

    def start_again(self) -> None:
        """Forget what was executed so far; the next slice loads the campaign again."""
        self.attempts += 1
        self._work = self._steps = self._result = None

    def _begin(self, work: UnitOfWork) -> CommandResult | None:
        """Load the campaign; return the stored response to the idempotency key, if any."""
        name, command = self.pending.campaign, self.pending.command
        campaign = work.campaign(name)
        if isinstance(command, MakeOffers):
            prefetch_players(work, campaign, command.requests)
        self._stored = pending = with_stored_hashes(work, self.pending)
        for known in stored_responses(work.session, [pending], self._checksums).values():
            return replay(pending, *known)
        if campaign.state.rules < RULES:
            raise NotInSlices
        self._cached.pop(name, None)
        work.ratings = self._histories.pop(name, None)
        command = pending.command
        assert isinstance(command, MakeOffers | EnterRatings | Rate | Reverse)
        now = self._now(name, campaign.state.at)
        self._steps = execute_in_steps(work, command, now)
        return None

    def _write(self, result: CommandResult) -> CommandResult:
        work, pending = self._work, self._stored
        assert work is not None
        with self._store.write() as session:
            work.begin_write(session)
            for known in stored_responses(session, [pending], self._checksums).values():
                return replay(pending, *known)  # of another campaign, in the meantime
            if pending.key is not None:
                store_response(work, pending, result, self._clock.now(), self._checksums)
            work.flush()
        self._cached[pending.campaign] = work.campaign(pending.campaign)
        if work.ratings is not None:
            self._histories[pending.campaign] = work.ratings
            if len(self._histories) > MAX_HISTORIES:
                self._histories.popitem(last=False)
        return result
