"""The desk: one writer thread takes requests, carries out many in one transaction, then answers.

Nobody is answered before the commit that holds their request. While a group is being synced to
disk, the next one gathers.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from entice.service.domain.clock import Clock
from entice.service.domain.commands import Command, Expire
from entice.service.domain.errors import NotReady, Unavailable
from entice.service.storage.dispatch import FULL, CommandResult
from entice.service.storage.group_commit import GroupCommit, Request
from entice.service.storage.store import Store
from entice.service.storage.unit_of_work import load_all_states

MOST_AT_ONCE = 512
"""Offers and ratings in one transaction; a single larger request has one for itself."""
GATHER = 0.001
"""Seconds for which a group waits for more, when the last one was small but not alone."""
MOST_WAITING = 20_000
"""Offers and ratings in the queue; beyond, callers are told to come back."""
MOST_FORGOTTEN = 5000
"""Answers that one tick forgets."""
KEPT_ANSWERS = 7 * 24 * 3600 * 1_000_000
"""For how many microseconds an idempotency key is remembered."""


class Writer:
    """Carries out commands in order, in groups.

    Parameters
    ----------
    observe
        Called after each group with the number of requests and the seconds that it took.
    tick
        Seconds between two looks for overdue offers.
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
        self._every = tick
        self._groups = GroupCommit(store, clock)
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._waiting = 0
        self._door = threading.Lock()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="entice-desk", daemon=True)
        self.last_error: Exception | None = None
        """Why the last group, or the last tick, could not be written, if it could not."""

    @property
    def depth(self) -> int:
        """How many offers and ratings wait."""
        return self._waiting

    @property
    def is_running(self) -> bool:
        """Whether there is somebody at the desk."""
        return self._thread.is_alive()

    def clock_ahead(self) -> float:
        """By how many seconds the log's times are ahead of the wall clock, at most."""
        return self.clock.seconds_ahead_of_wall() + self._groups.max_clock_lead() / 1e6

    def start(self) -> None:
        """Begin work."""
        with self.store.read() as session:
            for state in load_all_states(session):
                self._groups.now(state.campaign, state.at)
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> None:
        """Finish what is waiting, and take nothing more."""
        with self._door:
            self._stopping = True
            self._queue.put(None)
        self._thread.join(timeout)

    def submit(
        self, command: Command, *, scope: str = "", key: str | None = None, request: bytes = b""
    ) -> Future[CommandResult]:
        """Ask for something to be done, from a thread."""
        future: Future[CommandResult] = Future()

        def done(answer: CommandResult | Exception) -> None:
            if not future.set_running_or_notify_cancel():  # whoever asked has gone
                return
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self._put(Request(command, scope, key, request, done, None))
        return future

    async def execute(
        self, command: Command, *, scope: str = "", key: str | None = None, request: bytes = b""
    ) -> CommandResult:
        """Ask for something to be done, and wait for it without blocking the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[CommandResult] = loop.create_future()

        def done(answer: CommandResult | Exception) -> None:
            if future.done():  # whoever asked has gone
                return
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self._put(Request(command, scope, key, request, done, loop))
        return await future

    def _put(self, request: Request) -> None:
        with self._door:
            gone = self._thread.ident is not None and not self._thread.is_alive()
            if self._stopping or gone:
                raise Unavailable("The service is shutting down.")
            if self._waiting >= MOST_WAITING:
                raise Unavailable(f"{MOST_WAITING:,} offers and ratings are waiting already.")
            self._waiting += request.weight
            self._queue.put(request)

    def _run(self) -> None:
        next_tick = 0.0
        weight = 0
        while True:
            if time.monotonic() >= next_tick:
                more = self._tick()
                next_tick = time.monotonic() + (0.0 if more else self._every)
            try:
                request = self._queue.get(timeout=max(0.0, next_tick - time.monotonic()))
            except queue.Empty:
                continue
            if 1 < weight < MOST_AT_ONCE // 4:
                time.sleep(GATHER)  # others are on their way, and one commit serves them all
            group: list[Request] = []
            weight = 0
            while request is not None:
                group.append(request)
                weight += request.weight
                if weight >= MOST_AT_ONCE or self._queue.empty():
                    break
                request = self._queue.get()
            if group:
                with self._door:
                    self._waiting -= weight
                _tell(group, self._commit(group))
            if request is None:
                return

    def _commit(self, group: list[Request]) -> list[CommandResult | Exception]:
        began = time.perf_counter()
        answers = self._groups.commit(group)
        failed = [a for a in answers if isinstance(a, Unavailable)]
        self.last_error = failed[0] if len(failed) == len(answers) else None
        if self.observe is not None:
            with contextlib.suppress(Exception):  # who looks on must not stop the work
                self.observe(len(group), time.perf_counter() - began)
        return answers

    def _tick(self) -> bool:
        """Let pass what is overdue, and tell whether there is more.

        If that fails, the next tick tries again. Each campaign has a transaction of its own, so
        that a damaged one keeps no other from its money.
        """
        more, last_error = False, None
        try:
            for name in self._overdue():
                command = Request(Expire(name), "", None, b"", lambda _: None, None)
                (answer,) = self._groups.commit([command])
                if isinstance(answer, NotReady):  # just after the start: a later tick does it
                    continue
                if isinstance(answer, Exception):
                    last_error = answer
                else:
                    more = more or answer.status == FULL
            if last_error is None:
                self._forget(needed=self.last_error is not None)
        except Exception as error:  # whatever it is, those who wait at the desk are not to suffer
            last_error = error
        self.last_error = last_error
        return more and last_error is None

    def _overdue(self) -> list[str]:
        """Name the campaigns in which something may be overdue."""
        until = self.clock.now() + self._groups.max_clock_lead()
        with self.store.read() as session:
            rows = session.rows(
                f"SELECT id FROM campaigns WHERE EXISTS (SELECT 1 FROM offers"
                f"{session.by('due_offers')} WHERE campaign = number AND state <= 1 AND due <= ?)",
                (until,),
            )
        return [name for (name,) in rows]

    def _forget(self, *, needed: bool) -> None:
        """Forget some answers that nobody will ask for again.

        After a failure, write in any case: that tells whether it has passed.
        """
        until = self.clock.now() - KEPT_ANSWERS
        with self.store.read() as session:
            old = session.rows(
                "SELECT scope, key FROM answers WHERE at < ? LIMIT ?", (until, MOST_FORGOTTEN)
            )
        if old or needed:
            with self.store.write() as session:
                for name in old:
                    session.run("DELETE FROM answers WHERE scope = ? AND key = ?", name)
                session.run("UPDATE meta SET value = value")


def _tell(group: list[Request], answers: list[CommandResult | Exception]) -> None:
    """Give everyone their answer; those of one event loop with a single call to it."""
    for request, answer in zip(group, answers, strict=True):
        if request.loop is None:
            request.done(answer)
    for loop in {request.loop for request in group if request.loop is not None}:
        told = [(r.done, a) for r, a in zip(group, answers, strict=True) if r.loop is loop]

        def tell(told: list[tuple[Callable[..., None], CommandResult | Exception]] = told) -> None:
            for done, answer in told:
                done(answer)

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell)
