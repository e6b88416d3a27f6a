"""The writer: one thread that executes commands in groups, each group in one transaction.

No client gets a response before the commit that contains its command. While one group is synced to
disk, the next one accumulates.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future

from entice.service import logs
from entice.service.domain.clock import Clock
from entice.service.domain.commands import Command, CommandResult
from entice.service.domain.errors import Unavailable
from entice.service.storage.fair_queue import MAX_GROUP, FairQueue, PendingCommand, check_waiting
from entice.service.storage.group_commit import GroupCommit, Postponed
from entice.service.storage.maintenance import Maintenance
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.slices import LongCommand
from entice.service.storage.store import Store
from entice.service.storage.unit_of_work import load_all_states
from entice.service.thread_switching import FREQUENT_SWITCHES

GATHER = 0.001
"""Seconds to wait for more commands, if the previous group was small but had more than one."""
MAX_GROUP_SECONDS = 0.030
"""Seconds after which a group begins no further command, if the estimates were too low."""
MAX_IN_PROGRESS = 4
"""Number of commands of one campaign in progress, if several campaigns use the writer.

The event loop takes about 0.3 ms for a request and its response. The commands of one commit get
their responses together, and their clients' next requests arrive together. Other campaigns wait
behind both, so there must be few."""
MAX_LONG = 4
"""Number of long commands that are executed at the same time, each of another campaign."""


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
        self._groups = GroupCommit(
            store, clock, self._queue.record, players, lambda: self._queue.shared
        )
        self._maintenance = Maintenance(store, clock, self._groups)
        self._long: deque[LongCommand] = deque()
        self._turns: dict[str, _Turns] = {}
        self._thread = threading.Thread(target=self._run, name="entice-writer", daemon=True)
        self.last_error: Exception | None = None
        """The error of the last group or maintenance run; None if it was written."""

    @property
    def depth(self) -> int:
        """The number of offers and ratings in the queue."""
        return self._queue.depth

    def is_used_by_others(self, campaign: str | None) -> bool:
        """Return whether other campaigns than `campaign` use the writer; see `FairQueue`."""
        return self._queue.is_used_by_others(campaign)

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
        """Enqueue a command, and wait for its result without blocking the event loop.

        While several campaigns use the writer, at most `MAX_IN_PROGRESS` commands of each are in
        the queue or being executed; the others wait before it, and count as waiting too.
        """
        pending = PendingCommand(command, scope, key, request, lambda _: None, None)
        if not self._queue.shared:
            return await self._execute(pending)
        turns = self._turns.setdefault(pending.campaign, _Turns())
        check_waiting(turns.weight)
        turns.weight += pending.weight
        try:
            async with turns.semaphore:
                return await self._execute(pending)
        finally:
            turns.weight -= pending.weight
            if turns.weight == 0:
                del self._turns[pending.campaign]

    async def _execute(self, pending: PendingCommand) -> CommandResult:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[CommandResult] = loop.create_future()

        def done(result: CommandResult | Exception) -> None:
            if future.done():  # the client has disconnected
                return
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        self._enqueue(pending._replace(done=done, loop=loop))
        return await future

    def _enqueue(self, pending: PendingCommand) -> None:
        if self._thread.ident is not None and not self._thread.is_alive():
            raise Unavailable("The service is shutting down.")
        self._queue.put(pending)

    def _run(self) -> None:
        with contextlib.ExitStack() as while_shared:
            self._run_until_closed(while_shared)

    def _run_until_closed(self, while_shared: contextlib.ExitStack) -> None:
        next_tick = 0.0
        weight = 0
        shared = False
        while True:
            if self._queue.shared != shared:
                shared = not shared
                self.store.set_shared(shared)
                if shared:
                    while_shared.enter_context(FREQUENT_SWITCHES)
                else:
                    while_shared.close()
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


class _Turns:
    """The commands of one campaign that wait in the event loop or are in progress."""

    def __init__(self) -> None:
        self.semaphore = asyncio.Semaphore(MAX_IN_PROGRESS)
        self.weight = 0
        """The number of their offers and ratings."""


def _respond(group: list[PendingCommand], results: list[CommandResult | Exception]) -> None:
    """Pass the results to the callbacks, with a single call into each event loop.

    Campaigns with the fewest results get theirs first: the event loop takes about 0.1 ms for each.
    """
    number = Counter(pending.campaign for pending in group)
    pairs = list(zip(group, results, strict=True))
    pairs.sort(key=lambda pair: number[pair[0].campaign])
    for pending, result in pairs:
        if pending.loop is None:
            pending.done(result)
    for loop in {pending.loop for pending in group if pending.loop is not None}:
        calls = [(p.done, r) for p, r in pairs if p.loop is loop]

        def respond(
            calls: list[tuple[Callable[..., None], CommandResult | Exception]] = calls,
        ) -> None:
            for done, result in calls:
                done(result)

        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(respond)
