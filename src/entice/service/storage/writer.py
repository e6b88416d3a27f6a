"""The writer: one thread that executes commands in groups, each group in one transaction.

No client gets a response before the commit that contains its command. While one group is synced to
disk, the next one accumulates.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from msgspec.structs import replace

from entice.service.domain.campaign import Campaign
from entice.service.domain.clock import Clock
from entice.service.domain.commands import (
    Accept,
    Command,
    CommandResult,
    CreateCampaign,
    Decline,
    EnterRatings,
    ErasePlayer,
    MakeOffer,
    MakeOffers,
    Rate,
    Reverse,
    execute,
)
from entice.service.domain.errors import Corrupt, Refusal, Stale, Unavailable, not_found
from entice.service.storage.maintenance import Maintenance
from entice.service.storage.player_salts import salted
from entice.service.storage.store import ANSWERS, Columns, Session, Store
from entice.service.storage.unit_of_work import UnitOfWork, load_all_states, response_digest

MAX_GROUP = 512
"""Number of offers and ratings at which a transaction is full and takes no more commands."""
GATHER = 0.001
"""Seconds to wait for more commands, if the previous group was small but had more than one."""
MAX_WAITING = 20_000
"""Number of offers and ratings at which the queue is full and rejects new commands."""
MAX_ATTEMPTS = 5
"""Attempts to commit a group that conflicts with another process."""
MEAN_BACKOFF = 0.02
"""Mean number of seconds between attempts."""
MAX_CACHED = 1000
"""Number of cached campaigns above which the cache is cleared."""


class PendingCommand(NamedTuple):
    """A command in the queue, and the callback that receives its result."""

    command: Command
    scope: str
    """The API key to which the idempotency key belongs."""
    key: str | None
    """The idempotency key."""
    digest: bytes
    """A digest of the request, to detect a different request with the same idempotency key."""
    done: Callable[[CommandResult | Exception], None]
    loop: asyncio.AbstractEventLoop | None
    """The event loop to call `done` in, if any."""

    @property
    def weight(self) -> int:
        """The number of offers or ratings in the command; 1 for other commands."""
        match self.command:
            case MakeOffers(requests=requests):
                return len(requests)
            case EnterRatings(ratings=ratings):
                return len(ratings)
        return 1


class Writer:
    """The writer thread: executes commands in order, in groups.

    Parameters
    ----------
    observe
        Called after each group with the number of commands and the seconds that it took.
    tick
        Seconds between two runs of `Maintenance`.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        observe: Callable[[int, float], None] | None = None,
        tick: float = 1.0,
    ) -> None:
        self.store = store
        self.clock = clock
        self.observe = observe
        self._tick = tick
        self._groups = GroupCommit(store, clock)
        self._maintenance = Maintenance(store, clock, self._groups)
        self._queue: queue.SimpleQueue[PendingCommand | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="entice-writer", daemon=True)
        self.last_error: Exception | None = None
        """The error of the last group or maintenance run; None if it was written."""

    @property
    def depth(self) -> int:
        """The number of offers and ratings in the queue."""
        return self._waiting

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
            for state in load_all_states(session):
                self._groups.now(state.campaign, state.at)
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> None:
        """Reject new commands, execute those in the queue, and end the thread."""
        with self._lock:
            self._stopping = True
            self._queue.put(None)
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
        with self._lock:
            ended = self._thread.ident is not None and not self._thread.is_alive()
            if self._stopping or ended:
                raise Unavailable("The service is shutting down.")
            if self._waiting >= MAX_WAITING:
                raise Unavailable(f"The queue is full: {MAX_WAITING:,} offers and ratings wait.")
            self._waiting += pending.weight
            self._queue.put(pending)

    def _run(self) -> None:
        next_tick = 0.0
        weight = 0
        while True:
            if time.monotonic() >= next_tick:
                verify_write = self.last_error is not None
                more, self.last_error = self._maintenance.run(verify_write=verify_write)
                next_tick = time.monotonic() + (0.0 if more else self._tick)
            try:
                pending = self._queue.get(timeout=max(0.0, next_tick - time.monotonic()))
            except queue.Empty:
                continue
            if 1 < weight < MAX_GROUP // 4:
                time.sleep(GATHER)  # more commands are on their way: commit them together
            group: list[PendingCommand] = []
            weight = 0
            while pending is not None:
                group.append(pending)
                weight += pending.weight
                if weight >= MAX_GROUP or self._queue.empty():
                    break
                pending = self._queue.get()
            if group:
                with self._lock:
                    self._waiting -= weight
                _respond(group, self._commit(group))
            if pending is None:
                return

    def _commit(self, group: list[PendingCommand]) -> list[CommandResult | Exception]:
        start = time.perf_counter()
        results = self._groups.commit(group)
        errors = [result for result in results if isinstance(result, Unavailable)]
        self.last_error = errors[0] if len(errors) == len(results) else None
        if self.observe is not None:
            with contextlib.suppress(Exception):  # an error in a metric must not stop the writer
                self.observe(len(group), time.perf_counter() - start)
        return results


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


StoredResponses = dict[tuple[str, str], tuple[bytes, CommandResult | None]]
"""Stored responses by scope and idempotency key, with the request's digest; None if damaged."""


class GroupCommit:
    """Executes groups of commands, each in one transaction, and caches their campaigns."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
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

    def commit(self, group: list[PendingCommand]) -> list[CommandResult | Exception]:
        """Execute a group; return the result of each command, or the same error for all."""
        failed: dict[int, Exception] = {}
        conflicts = 0
        while True:
            try:
                return self._transaction(group, failed)
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

    def execute(self, command: Command) -> CommandResult | Exception:
        """Execute one command in its own transaction, without an idempotency key."""
        return self.commit([PendingCommand(command, "", None, b"", lambda _: None, None)])[0]

    def _transaction(
        self, group: list[PendingCommand], failed: dict[int, Exception]
    ) -> list[CommandResult | Exception]:
        results: list[CommandResult | Exception] = []
        if len(self._cached) > MAX_CACHED:
            self._cached.clear()
        with self._store.write() as session:
            work = UnitOfWork(self._store, session, self._cached)
            damaged = _lock_campaigns(work, group)
            responses = _prefetch(work, session, group)
            for i, pending in enumerate(group):
                name = _campaign_of(pending.command)
                if i in failed or name in damaged:
                    results.append(failed.get(i) or damaged[name])
                    continue
                drawn = work.players.drawn
                try:
                    results.append(self._execute(work, responses, pending, name))
                except Refusal as refusal:
                    work.players.keep_drawn(drawn)
                    results.append(refusal)
                except self._group_errors:
                    raise
                except Exception as error:
                    raise _CommandFailed(i, error) from error
            work.flush()
        return results

    def _execute(
        self, work: UnitOfWork, responses: StoredResponses, pending: PendingCommand, campaign: str
    ) -> CommandResult:
        now = self._clock.now()
        if campaign:
            with contextlib.suppress(Refusal):
                now = self.now(campaign, work.campaign(campaign).state.at)
        pending = _with_stored_hashes(work, pending)
        if pending.key is None:
            return execute(work, pending.command, now)
        scope_and_key = pending.scope, pending.key
        if scope_and_key in responses:
            return _replay(pending, *responses[scope_and_key])
        result = execute(work, pending.command, now)
        responses[scope_and_key] = pending.digest, result
        row = (*scope_and_key, pending.digest, result.status, result.body, self._clock.now())
        work.store_response((*row, response_digest(*row)))
        return result


class _CommandFailed(Exception):
    """An unexpected error in one command, given by its index in the group."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


def _campaign_of(command: Command) -> str:
    return "" if isinstance(command, CreateCampaign) else command.campaign


def _with_stored_hashes(work: UnitOfWork, pending: PendingCommand) -> PendingCommand:
    """Replace the hashes of players in a command by those that are stored.

    The digest of the request, which contains a player's id, then depends on the salt too.
    """
    match command := pending.command:
        case MakeOffer() if command.lookup:
            stored, salt = _with_stored_hash(work, command)
            return pending._replace(command=stored, digest=salted(pending.digest, [salt]))
        case MakeOffers(requests=requests):
            pairs = [_with_stored_hash(work, one) for one in requests]
            batch = replace(command, requests=[request for request, _ in pairs])
            digest = salted(pending.digest, [salt for _, salt in pairs])
            return pending._replace(command=batch, digest=digest)
        case ErasePlayer(player=player, lookup=lookup):
            found = work.players.find(work.campaign(command.campaign).number, lookup)
            if found is None:
                raise not_found("player", lookup.hex())
            return pending._replace(command=replace(command, player=salted(player, [found])))
    return pending


def _with_stored_hash(work: UnitOfWork, request: MakeOffer) -> tuple[MakeOffer, bytes]:
    """Return a request with the player's hash that is stored, and the salt."""
    if not request.lookup:
        return request, b""
    campaign = work.campaign(request.campaign)
    salt = work.players.find(campaign.number, request.lookup)
    is_new = salt is None
    if salt is None:
        salt = work.players.draw(campaign.number, request.lookup)
    player = salted(request.player, [salt])
    if is_new:
        work.offers(campaign).add_player(player)
    return MakeOffer(request.campaign, player, request.eligible, request.displayed), salt


def _replay(pending: PendingCommand, digest: bytes, result: CommandResult | None) -> CommandResult:
    """Return the stored response to an idempotency key."""
    if result is None:
        raise Refusal(
            503, "out-of-order", "The database is damaged",
            "The response stored under this Idempotency-Key is damaged. The operator of the "
            "service must restore a backup.",
        )  # fmt: skip
    if digest != pending.digest:
        raise Refusal(
            422, "idempotency-key-reused", "Idempotency key reused",
            "This Idempotency-Key was used with a different request. Use a new key for each "
            "request; repeat a key only to retry the same request.",
        )  # fmt: skip
    return result._replace(replayed=True)


def _lock_campaigns(work: UnitOfWork, group: list[PendingCommand]) -> dict[str, Exception]:
    """Lock all campaigns of a group; return the errors of those that are damaged.

    They are locked in sorted order, so that two processes cannot deadlock.
    """
    damaged: dict[str, Exception] = {}
    for name in sorted({_campaign_of(pending.command) for pending in group} - {""}):
        try:
            work.campaign(name)
        except Refusal:
            continue  # an unknown campaign: reported when its command is executed
        except Corrupt as corrupt:
            damaged[name] = corrupt
    return damaged


def _prefetch(work: UnitOfWork, session: Session, group: list[PendingCommand]) -> StoredResponses:
    """Load the offers and stored responses of a whole group with few queries."""
    offers: dict[str, list[MakeOffer]] = {}
    numbers: dict[str, list[int]] = {}
    keys: dict[str, list[str]] = {}
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
        if pending.key is not None:
            keys.setdefault(pending.scope, []).append(pending.key)
    # Unknown or damaged rows are reported when the command that needs them is executed.
    for name, some in offers.items():
        with contextlib.suppress(Refusal, Corrupt):
            loaded = work.campaign(name)
            find = work.players.find
            work.players.prefetch(loaded.number, [one.lookup for one in some if one.lookup])
            salts = [find(loaded.number, one.lookup) if one.lookup else b"" for one in some]
            # A player without a salt has no offers.
            known = [(o.player, s) for o, s in zip(some, salts, strict=True) if s is not None]
            work.offers(loaded).prefetch_live([salted(player, [salt]) for player, salt in known])
    for campaign, ns in numbers.items():
        with contextlib.suppress(Refusal, Corrupt):
            work.offers(work.campaign(campaign)).prefetch(ns)
    responses: StoredResponses = {}
    columns = Columns(ANSWERS, ("scope", "key", "request", "status", "body", "at", "digest"))
    for scope, some_keys in keys.items():
        rows = session.rows_where_in(columns, "scope = ?", (scope,), "key", some_keys)
        for _, key, request, status, body, at, checksum in rows:
            intact = checksum == response_digest(scope, key, request, status, body, at)
            responses[scope, key] = request, CommandResult(status, body) if intact else None
    return responses
