"""Groups of commands, each executed in one transaction, and the campaigns that they change."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

from entice.service.domain.campaign import Campaign
from entice.service.domain.clock import Clock
from entice.service.domain.commands import (
    Accept,
    Command,
    CommandResult,
    Decline,
    MakeOffer,
    MakeOffers,
    Rate,
    Reverse,
    TakesLong,
    execute,
)
from entice.service.domain.errors import Corrupt, Refusal, Stale, Unavailable
from entice.service.storage.fair_queue import PendingCommand
from entice.service.storage.player_hasher import PlayerHasher, player_hasher_for
from entice.service.storage.row_checksums import RowChecksums
from entice.service.storage.slices import Histories, LongCommand, NotInSlices
from entice.service.storage.store import Session, Store
from entice.service.storage.stored_hashes import prefetch_players, with_stored_hashes
from entice.service.storage.stored_responses import (
    StoredResponses,
    replay,
    store_response,
    stored_responses,
)
from entice.service.storage.unit_of_work import UnitOfWork

MAX_ATTEMPTS = 5
"""Attempts to commit a group that conflicts with another process."""
MEAN_BACKOFF = 0.02
"""Mean number of seconds between attempts."""
MAX_CACHED = 1000
"""Number of cached campaigns above which the cache is cleared."""
MAX_ATTEMPTS_IN_SLICES = 4
"""Attempts to execute a long command in slices. The next one locks its campaign."""


class GroupCommit:
    """Executes groups of commands, each in one transaction, and caches their campaigns.

    `record` is called with each command and the seconds of CPU time that it took. `players` has the
    secret for the checksums of stored responses; by default it is read when it is needed. `shared`
    returns whether several campaigns use the writer.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        record: Callable[[PendingCommand, float], None] = lambda pending, seconds: None,
        players: PlayerHasher | None = None,
        shared: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._clock = clock
        self._record = record
        self._players = players
        self._shared = shared
        self.busy: set[str] = set()
        """Campaigns of which a long command is being executed."""
        self._histories: Histories = OrderedDict()
        self._cached: dict[str, Campaign] = {}
        self._ahead: dict[str, int] = {}
        # Errors of the database concern the whole group; any other error only its own command.
        self._group_errors: tuple[type[Exception], ...] = (
            Unavailable, Stale, *store.driver_errors,
        )  # fmt: skip

    def now(self, campaign: str, last: int) -> int:
        """Return the current time of a campaign, given the time of its last event.

        If that lies in the future, because another clock was ahead, the campaign's time continues
        from there: events stay in order, and deadlines do not wait for the clock to catch up.
        """
        now = self._clock.now() + self._ahead.get(campaign, 0)
        if last > now:
            self._ahead[campaign] = self._ahead.get(campaign, 0) + last - now
            return last
        return now

    def max_clock_lead(self) -> int:
        """Return the largest lead of a campaign's time over the clock, in microseconds."""
        return max(self._ahead.values(), default=0)

    def commit(
        self, group: list[PendingCommand], until: float = math.inf
    ) -> list[CommandResult | Exception | Postponed]:
        """Execute a group; return the result of each command, or the same error for all.

        Commands whose turn has not come by `until` (of `time.perf_counter`) are postponed, and so
        are commands that have to be executed in slices, unless `until` is infinite.
        """
        failed: dict[int, Exception] = {}
        conflicts = 0
        while True:
            try:
                # Reading the secret has a transaction of its own.
                checksums = self._checksums(group)
                return self._transaction(group, failed, until, checksums)
            except Stale as stale:
                self._cached.clear()
                conflicts += 1
                if conflicts == MAX_ATTEMPTS:
                    detail = f"Other processes keep writing to the same campaign ({stale})."
                    return [Unavailable(detail)] * len(group)
                time.sleep(random.uniform(0.0, 2 * MEAN_BACKOFF))
            except _CommandFailed as error:  # run the others again, without it
                self._cached.clear()
                failed[error.index] = error.error
            except Exception as error:
                self._cached.clear()
                return [error] * len(group)

    def _checksums(self, group: list[PendingCommand]) -> RowChecksums | None:
        """Return the checksums of stored responses, if a command of a group has a key."""
        if self._players is None and any(pending.key is not None for pending in group):
            self._players = player_hasher_for(self._store)
        return self._players.rows if self._players is not None else None

    def execute(self, command: Command) -> CommandResult | Exception:
        """Execute one command in its own transaction, without an idempotency key."""
        return self._commit_alone(PendingCommand(command, "", None, b"", lambda _: None, None))

    def _commit_alone(self, pending: PendingCommand) -> CommandResult | Exception:
        [result] = self.commit([pending])
        assert not isinstance(result, Postponed)
        return result

    def begin(self, pending: PendingCommand) -> LongCommand:
        """Begin to execute a long command. Until it is done, its campaign is `busy`."""
        self.busy.add(pending.campaign)
        return LongCommand(
            pending, self._store, self._clock, self._cached, self._histories, self.now,
            self._checksums([pending]), self._shared,
        )  # fmt: skip

    def run_slice(self, long: LongCommand) -> CommandResult | Exception | None:
        """Execute a slice of a long command; return its result once it is done."""
        result: CommandResult | Exception | None
        try:
            result = long.run_slice()
        except Stale:  # another process has changed the campaign
            if long.attempts < MAX_ATTEMPTS_IN_SLICES:
                long.start_again()
                return None
            # Lock the campaign. Other campaigns of this process wait until the command is done.
            result = self._commit_alone(long.pending)
        except NotInSlices:
            result = self._commit_alone(long.pending)
        except Exception as error:
            result = error
        if result is not None:
            self.busy.discard(long.pending.campaign)
            self._record(long.pending, long.seconds)
        return result

    def _transaction(
        self,
        group: list[PendingCommand],
        failed: dict[int, Exception],
        until: float,
        checksums: RowChecksums | None,
    ) -> list[CommandResult | Exception | Postponed]:
        results: list[CommandResult | Exception | Postponed] = []
        postponed: set[str] = set()
        if len(self._cached) > MAX_CACHED:
            self._cached.clear()
        with self._store.write() as session:
            short_only = until < math.inf
            work = UnitOfWork(self._store, session, self._cached, short_only=short_only)
            damaged = _lock_campaigns(work, group)
            responses = _prefetch(work, session, group, checksums)
            seconds: dict[int, float] = {}
            started = time.thread_time()
            for i, pending in enumerate(group):
                name = pending.campaign
                if i in failed or name in damaged:
                    results.append(failed.get(i) or damaged[name])
                    continue
                if name in postponed or (i > 0 and time.perf_counter() > until):
                    results.append(Postponed.LATER)
                    continue
                drawn = work.players.drawn
                try:
                    results.append(self._execute(work, responses, pending, checksums))
                except TakesLong:
                    work.players.keep_drawn(drawn)
                    results.append(Postponed.TAKES_LONG)
                    postponed.add(name)  # its later commands keep their order
                except Refusal as refusal:
                    work.players.keep_drawn(drawn)
                    results.append(refusal)
                except self._group_errors:
                    raise
                except Exception as error:
                    raise _CommandFailed(i, error) from error
                ended = time.thread_time()  # without the time of other threads and processes
                seconds[i], started = ended - started, ended
            work.flush()
        # What all commands share counts for each according to its offers and ratings.
        rest = (time.thread_time() - started) / max(1, sum(group[i].weight for i in seconds))
        for i, own in seconds.items():
            self._record(group[i], own + rest * group[i].weight)
        return results

    def _execute(
        self,
        work: UnitOfWork,
        responses: StoredResponses,
        pending: PendingCommand,
        checksums: RowChecksums | None,
    ) -> CommandResult:
        now, campaign = self._clock.now(), pending.campaign
        if campaign:
            with contextlib.suppress(Refusal):
                now = self.now(campaign, work.campaign(campaign).state.at)
        pending = with_stored_hashes(work, pending)
        if pending.key is None:
            return execute(work, pending.command, now)
        scope_and_key = pending.scope, pending.key
        if scope_and_key in responses:
            return replay(pending, *responses[scope_and_key])
        result = execute(work, pending.command, now)
        responses[scope_and_key] = pending.digest, result
        store_response(work, pending, result, self._clock.now(), checksums)
        return result


class Postponed(Enum):
    """The result of a command that was not executed with its group."""

    LATER = "later"
    TAKES_LONG = "takes long"
    """It has to be executed in slices."""


class _CommandFailed(Exception):
    """An unexpected error in one command, given by its index in the group."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


def _lock_campaigns(work: UnitOfWork, group: list[PendingCommand]) -> dict[str, Exception]:
    """Lock all campaigns of a group; return the errors of those that are damaged.

    They are locked in sorted order, so that two processes cannot deadlock.
    """
    damaged: dict[str, Exception] = {}
    for name in sorted({pending.campaign for pending in group} - {""}):
        try:
            work.campaign(name)
        except Refusal:
            continue  # an unknown campaign: reported when its command is executed
        except Corrupt as corrupt:
            damaged[name] = corrupt
    return damaged


def _prefetch(
    work: UnitOfWork,
    session: Session,
    group: list[PendingCommand],
    checksums: RowChecksums | None,
) -> StoredResponses:
    """Load the offers and stored responses of a whole group with few queries."""
    offers: dict[str, list[MakeOffer]] = {}
    numbers: dict[str, list[int]] = {}
    for pending in group:
        match pending.command:
            case MakeOffer(campaign=campaign) as request:
                offers.setdefault(campaign, []).append(request)
            case MakeOffers(campaign=campaign, requests=requests):
                offers.setdefault(campaign, []).extend(requests)
            case Accept() | Decline() | Rate() | Reverse() as command:
                numbers.setdefault(command.campaign, []).append(command.n)
            case _:
                pass
    # Unknown or damaged rows are reported when the command that needs them is executed.
    for name, some in offers.items():
        with contextlib.suppress(Refusal, Corrupt):
            prefetch_players(work, work.campaign(name), some)
    for campaign, ns in numbers.items():
        with contextlib.suppress(Refusal, Corrupt):
            work.offers(work.campaign(campaign)).prefetch(ns)
    return stored_responses(session, group, checksums)
