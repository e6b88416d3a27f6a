"""The writer: one thread that executes commands in groups, each group in one transaction.

No client gets a response before the commit that contains its command. While one group is synced to
disk, the next one accumulates.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum

from entice.service import logs
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
from entice.service.storage.fair_queue import MAX_GROUP, FairQueue, PendingCommand
from entice.service.storage.maintenance import Maintenance
from entice.service.storage.player_hasher import PlayerHasher, player_hasher_for
from entice.service.storage.row_checksums import RowChecksums
from entice.service.storage.slices import Histories, LongCommand
from entice.service.storage.store import Session, Store
from entice.service.storage.stored_hashes import prefetch_players, with_stored_hashes
from entice.service.storage.stored_responses import (
    StoredResponses,
    replay,
    store_response,
    stored_responses,
)
from entice.service.storage.unit_of_work import UnitOfWork, load_all_states

GATHER = 0.001
"""Seconds to wait for more commands, if the previous group was small but had more than one."""
MAX_GROUP_SECONDS = 0.020
"""Seconds after which a group begins no further command, if the estimates were too low."""
MAX_LONG = 4
"""Number of long commands that are executed at the same time, each of another campaign."""
MAX_ATTEMPTS = 5
"""Attempts to commit a group that conflicts with another process."""
MEAN_BACKOFF = 0.02
"""Mean number of seconds between attempts."""
MAX_CACHED = 1000
"""Number of cached campaigns above which the cache is cleared."""


class Writer:
    """The writer thread: executes commands in order, in groups.

    Parameters
    ----------
    observe
        Called after each group with the number of commands and the seconds that it took.
    tick
        Seconds between two runs of `Maintenance`.
    players
        Has the secret for the checksums of stored responses. By default it is read when it is
        needed.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        observe: Callable[[int, float], None] | None = None,
        tick: float = 1.0,
        players: PlayerHasher | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.observe = observe
        self._tick = tick
        self._queue = FairQueue()
        self._groups = GroupCommit(store, clock, self._queue.record, players)
        self._maintenance = Maintenance(store, clock, self._groups)
        self._long: deque[LongCommand] = deque()
        self._thread = threading.Thread(target=self._run, name="entice-writer", daemon=True)
        self.last_error: Exception | None = None
        """The error of the last group or maintenance run; None if it was written."""

    @property
    def depth(self) -> int:
        """The number of offers and ratings in the queue."""
        return self._queue.depth

    @property
    def is_running(self) -> bool:
        """Whether the writer thread is alive."""
        return self._thread.is_alive()

    def clock_ahead(self) -> float:
        """Return the largest lead of a campaign's time over the wall clock, in seconds."""
        return self.clock.seconds_ahead_of_wall() + self._groups.max_clock_lead() / 1e6

    def start(self) -> None:
        """Start the thread."""
        with self.store.read() as session:
            states, damaged = load_all_states(session)
        for state in states:
            self._groups.now(state.campaign, state.at)
        for error in damaged:  # requests for these campaigns get it too; the others are served
            logs.database_error(error, during="start")
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> None:
        """Reject new commands, execute those in the queue, and end the thread."""
        self._queue.close()
        self._thread.join(timeout)

    def submit(
        self, command: Command, *, scope: str = "", key: str | None = None, request: bytes = b""
    ) -> Future[CommandResult]:
        """Enqueue a command from a thread, and return the future of its result."""
        future: Future[CommandResult] = Future()

        def done(result: CommandResult | Exception) -> None:
            if not future.set_running_or_notify_cancel():
                return
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        self._enqueue(PendingCommand(command, scope, key, request, done, None))
        return future

    async def execute(
        self, command: Command, *, scope: str = "", key: str | None = None, request: bytes = b""
    ) -> CommandResult:
        """Enqueue a command, and wait for its result without blocking the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[CommandResult] = loop.create_future()

        def done(result: CommandResult | Exception) -> None:
            if future.done():  # the client has disconnected
                return
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        self._enqueue(PendingCommand(command, scope, key, request, done, loop))
        return await future

    def _enqueue(self, pending: PendingCommand) -> None:
        if self._thread.ident is not None and not self._thread.is_alive():
            raise Unavailable("The service is shutting down.")
        self._queue.put(pending)

    def _run(self) -> None:
        next_tick = 0.0
        weight = 0
        while True:
            if time.monotonic() >= next_tick:
                verify_write = self.last_error is not None
                more, self.last_error = self._maintenance.run(verify_write=verify_write)
                next_tick = time.monotonic() + (0.0 if more else self._tick)
            timeout = 0.0 if self._long else max(0.0, next_tick - time.monotonic())
            if not self._queue.wait(timeout) and not self._long:
                return
            if 1 < weight < MAX_GROUP // 4 and not self._long:
                time.sleep(GATHER)  # more commands are on their way: commit them together
            admit_long = len(self._long) < MAX_LONG
            group, long = self._queue.take(self._groups.busy, admit_long=admit_long)
            weight = sum(pending.weight for pending in group)
            if group:
                self._commit(group)
            if long is not None:
                self._long.append(self._groups.begin(long))
            if self._long:
                self._run_slice()

    def _run_slice(self) -> None:
        """Execute a slice of the long command whose turn it is."""
        long = self._long.popleft()
        result = self._groups.run_slice(long)
        if result is None:
            self._long.append(long)
            return
        self._observe(1, [result], time.perf_counter() - long.begun)
        _respond([long.pending], [result])

    def _commit(self, group: list[PendingCommand]) -> None:
        start = time.perf_counter()
        results = self._groups.commit(group, start + MAX_GROUP_SECONDS)
        pairs = list(zip(group, results, strict=True))
        self._queue.put_back(
            [
                pending._replace(long=pending.long or result is Postponed.TAKES_LONG)
                for pending, result in pairs
                if isinstance(result, Postponed)
            ]
        )
        executed = [(p, r) for p, r in pairs if not isinstance(r, Postponed)]
        if executed:
            done, answers = map(list, zip(*executed, strict=True))
            self._observe(len(done), answers, time.perf_counter() - start)
            _respond(done, answers)

    def _observe(
        self, commands: int, results: list[CommandResult | Exception], seconds: float
    ) -> None:
        errors = [result for result in results if isinstance(result, Unavailable)]
        self.last_error = errors[0] if len(errors) == len(results) else None
        if self.observe is not None:
            with contextlib.suppress(Exception):  # an error in a metric must not stop the writer
                self.observe(commands, seconds)


def _respond(group: list[PendingCommand], results: list[CommandResult | Exception]) -> None:
    """Pass the results to the callbacks, with a single call into each event loop."""
    for pending, result in zip(group, results, strict=True):
        if pending.loop is None:
            pending.done(result)
    for loop in {pending.loop for pending in group if pending.loop is not None}:
        calls = [(p.done, r) for p, r in zip(group, results, strict=True) if p.loop is loop]

        def respond(
            calls: list[tuple[Callable[..., None], CommandResult | Exception]] = calls,
        ) -> None:
            for done, result in calls:
                done(result)

        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(respond)


class GroupCommit:
    """Executes groups of commands, each in one transaction, and caches their campaigns.

    `record` is called with each command and the seconds of CPU time that it took. `players` has the
    secret for the checksums of stored responses; by default it is read when it is needed.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        record: Callable[[PendingCommand, float], None] = lambda pending, seconds: None,
        players: PlayerHasher | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._record = record
        self._players = players
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
            self._checksums([pending]),
        )  # fmt: skip

    def run_slice(self, long: LongCommand) -> CommandResult | Exception | None:
        """Execute a slice of a long command; return its result once it is done."""
        result: CommandResult | Exception | None
        try:
            result = long.run_slice()
        except Stale:  # another process has changed the campaign: lock it now
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
                self._record(pending, ended - started)
                started = ended
            work.flush()
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
