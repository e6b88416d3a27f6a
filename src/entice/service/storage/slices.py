"""Long commands, executed in slices between the transactions of other campaigns.

A batch of 1,000 offers takes up to seconds. It is executed on the campaign in memory, outside any
transaction, for a few milliseconds at a time, and only then written. Other commands of its campaign
wait for it, those of other campaigns do not.

To write 1,000 offers takes 20 ms or more. While several campaigns use the writer, they are written
in parts, each in its own transaction, and commands of other campaigns are committed in between. The
response is stored with the last part. If the service fails in between, the offers of the earlier
parts stay open; a repeated request returns them and makes the others. Offers in shadow mode, which
are never open, and ratings would be entered twice by a repeated request. They are always written in
one transaction: ratings take 4 ms for 1,000.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict, deque
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
from entice.service.storage.stored_hashes import with_stored_hashes_in_steps
from entice.service.storage.stored_responses import replay, store_response, stored_responses
from entice.service.storage.unit_of_work import Part, UnitOfWork

SLICE = 0.001
"""Seconds of one slice, which has at least one step and finishes its last one."""
MAX_WRITTEN = 32
"""Number of offers of a batch that are written in one transaction if others use the writer.

This takes 0.8 ms of CPU time with 9 arms, and 1.5 ms with 1,000."""
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
    shared
        Returns whether several campaigns use the writer.
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
        shared: Callable[[], bool],
    ) -> None:
        self.pending = pending
        self.begun = time.perf_counter()
        self.seconds = 0.0
        """Seconds of CPU time used so far."""
        self.attempts = 1
        self._store, self._clock = store, clock
        self._cached, self._histories = cached, histories
        self._now, self._checksums, self._shared = now, checksums, shared
        self._stored = pending
        """The command with the hashes of players that are stored."""
        self._work: UnitOfWork | None = None
        self._steps: Steps | None = None
        self._parts: deque[Part] = deque()
        """The changes up to the last full part, which are not written yet."""
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
                if self._work is None or self._steps is None:
                    self._work = UnitOfWork(self._store, session, self._cached, lock=False)
                    self._steps = self._execute(self._work)
                self._work.use(session)
                end_of_slice = time.perf_counter() + SLICE
                try:
                    next(self._steps)
                    while time.perf_counter() < end_of_slice:
                        next(self._steps)
                except StopIteration as end:
                    self._result = end.value
                    if end.value.replayed:
                        return self._result
            return None
        finally:
            self.seconds += time.thread_time() - start

    def start_again(self) -> None:
        """Forget what was executed so far; the next slice loads the campaign again."""
        self.attempts += 1
        self._work = self._steps = self._result = None
        self._parts.clear()

    def _execute(self, work: UnitOfWork) -> Steps:
        """Execute the command in memory; the result may be a stored response."""
        name = self.pending.campaign
        campaign = work.campaign(name)
        self._stored = pending = yield from with_stored_hashes_in_steps(work, self.pending)
        for known in stored_responses(work.session, [pending], self._checksums).values():
            return replay(pending, *known)
        if campaign.state.rules < RULES:
            raise NotInSlices
        self._cached.pop(name, None)
        work.ratings = self._histories.pop(name, None)
        command = pending.command
        assert isinstance(command, MakeOffers | EnterRatings | Rate | Reverse)
        steps = execute_in_steps(work, command, self._now(name, campaign.state.at))
        if not isinstance(command, MakeOffers):
            return (yield from steps)
        offers = work.offers(campaign)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: CommandResult = end.value
                return result
            if offers.changes >= MAX_WRITTEN and campaign.state.status != "shadow":
                self._parts.append(work.take_part(campaign))
            yield

    def _write(self, result: CommandResult) -> CommandResult | None:
        """Write the next part, or all that is left; return the result after the last part."""
        work, pending, parts = self._work, self._stored, self._parts
        assert work is not None
        at_once = 1 if parts and self._shared() else len(parts) + 1
        with self._store.write() as session:
            work.begin_write(session, parts[0].before if parts else None)
            for known in stored_responses(session, [pending], self._checksums).values():
                return replay(pending, *known)  # of another campaign, in the meantime
            for part in itertools.islice(parts, at_once):
                part.write(session)
            if at_once > len(parts):
                if pending.key is not None:
                    store_response(work, pending, result, self._clock.now(), self._checksums)
                work.flush()
        if at_once <= len(parts):
            parts.popleft()
            return None
        self._cached[pending.campaign] = work.campaign(pending.campaign)
        if work.ratings is not None:
            self._histories[pending.campaign] = work.ratings
            if len(self._histories) > MAX_HISTORIES:
                self._histories.popitem(last=False)
        return result
