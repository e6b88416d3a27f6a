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
from typing import NamedTuple

from entice.service.campaign import Campaign
from entice.service.clock import Clock
from entice.service.commands import (
    Accept,
    Command,
    CreateCampaign,
    Decline,
    Expire,
    MakeOffer,
    Rate,
    Reverse,
)
from entice.service.errors import Corrupt, Refusal, Stale, Unavailable
from entice.service.handling import Answer, handle
from entice.service.offer import digest
from entice.service.store import ANSWERS, Columns, Session, Store
from entice.service.work import Work, all_books

MOST_AT_ONCE = 512
"""Requests in one transaction."""
MOST_WAITING = 20_000
"""Requests in the queue; beyond, callers are told to come back."""
TRIES = 5
"""How often a group begins again when another process was faster."""
SWEEP = 3600.0
"""Seconds between two looks for answers that nobody will ask for again."""
KEPT_ANSWERS = 7 * 24 * 3600 * 1_000_000
"""For how many microseconds an idempotency key is remembered."""


class Request(NamedTuple):
    """Something to be done, and who waits for it."""

    command: Command
    scope: str
    key: str | None
    digest: bytes
    """Of what was sent, to tell another request under the same key."""
    done: Callable[[Answer | Exception], None]
    loop: asyncio.AbstractEventLoop | None


class Desk:
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
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._kept: dict[str, Campaign] = {}
        self._thread = threading.Thread(target=self._run, name="entice-desk", daemon=True)
        self._stopping = False
        self._next_sweep = 0.0
        self.tick_failed: Exception | None = None
        """Why overdue offers could not be let pass, if they could not."""

    @property
    def depth(self) -> int:
        """How many requests wait."""
        return self._queue.qsize()

    @property
    def at_work(self) -> bool:
        """Whether there is somebody at the desk."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin work, at a time that is not before what was written last."""
        with self.store.read() as session:
            for books in all_books(session):
                self.clock.advance_to(books.at)
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> None:
        """Finish what is waiting, and take nothing more."""
        self._stopping = True
        self._queue.put(None)
        self._thread.join(timeout)

    def submit(
        self, command: Command, *, scope: str = "", key: str | None = None, request: bytes = b""
    ) -> Future[Answer]:
        """Ask for something to be done, from a thread."""
        future: Future[Answer] = Future()

        def done(answer: Answer | Exception) -> None:
            if not future.set_running_or_notify_cancel():  # whoever asked has gone
                return
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self._put(Request(command, scope, key, request, done, None))
        return future

    async def ask(
        self, command: Command, *, scope: str = "", key: str | None = None, request: bytes = b""
    ) -> Answer:
        """Ask for something to be done, and wait for it without blocking the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()

        def done(answer: Answer | Exception) -> None:
            if future.done():  # whoever asked has gone
                return
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self._put(Request(command, scope, key, request, done, loop))
        return await future

    def _put(self, request: Request) -> None:
        if self._stopping:
            raise Unavailable("The service is shutting down.")
        if self._queue.qsize() >= MOST_WAITING:
            raise Unavailable(f"{MOST_WAITING:,} requests are waiting already.")
        self._queue.put(request)

    def _run(self) -> None:
        next_tick = 0.0
        while True:
            if time.monotonic() >= next_tick:
                more = self._tick()
                next_tick = time.monotonic() + (0.0 if more else self._every)
            try:
                request = self._queue.get(timeout=max(0.0, next_tick - time.monotonic()))
            except queue.Empty:
                continue
            group: list[Request] = []
            while request is not None:
                group.append(request)
                if len(group) >= MOST_AT_ONCE or self._queue.empty():
                    break
                request = self._queue.get()
            if group:
                _tell(group, self._carry_out(group))
            if request is None:
                self._turn_away()
                return

    def _turn_away(self) -> None:
        """Tell those who came while the door was being closed."""
        late = []
        with contextlib.suppress(queue.Empty):
            while True:
                request = self._queue.get_nowait()
                if request is not None:
                    late.append(request)
        _tell(late, [Unavailable("The service is shutting down.")] * len(late))

    def _tick(self) -> bool:
        """Let pass what is overdue, and tell whether there may be more.

        If that fails, the next tick tries again.
        """
        try:
            with self.store.read() as session:
                names = session.rows(
                    "SELECT id FROM campaigns WHERE EXISTS (SELECT 1 FROM offers "
                    "WHERE campaign = number AND state <= 1 AND due <= ?)",
                    (self.clock.now(),),
                )
            group = [Request(Expire(n), "", None, b"", lambda _: None, None) for (n,) in names]
            if group:
                self._carry_out(group)
            if time.monotonic() >= self._next_sweep:
                self._next_sweep = time.monotonic() + SWEEP
                with self.store.write() as session:
                    old = self.clock.now() - KEPT_ANSWERS
                    session.run("DELETE FROM answers WHERE at < ?", (old,))
        except Exception as error:  # whatever it is, those who wait at the desk are not to suffer
            self.tick_failed = error
            return False
        self.tick_failed = None
        return bool(group)

    def _carry_out(self, group: list[Request]) -> list[Answer | Exception]:
        """Find an answer for each request, or the same failure for all of them."""
        began = time.perf_counter()
        bad: dict[int, Exception] = {}
        failure: Exception = Unavailable("Too many others write to the same campaign. Try again.")
        for _ in range(TRIES + len(group)):
            try:
                answers = self._transaction(group, bad)
            except Stale:
                self._kept.clear()
            except _Broken as broken:
                # A fault of ours in one request: the others are carried out without it.
                self._kept.clear()
                bad[broken.index] = broken.error
            except Exception as error:
                self._kept.clear()
                failure = error
                break
            else:
                if self.observe is not None:
                    with contextlib.suppress(Exception):  # who looks on must not stop the work
                        self.observe(len(group), time.perf_counter() - began)
                return answers
        return [failure] * len(group)

    def _transaction(
        self, group: list[Request], bad: dict[int, Exception]
    ) -> list[Answer | Exception]:
        answers: list[Answer | Exception] = []
        for_all: tuple[type[Exception], ...] = (Unavailable, Corrupt, Stale, *self.store.faults)
        with self.store.write() as session:
            work = Work(self.store, session, self._kept)
            names = {r.command.campaign for r in group if not isinstance(r.command, CreateCampaign)}
            # In one order everywhere, or two processes might wait for each other's campaigns.
            for name in sorted(names):
                try:
                    self.clock.advance_to(work.campaign(name).books.at)
                except Refusal:
                    continue  # told to whoever asked for it
            kept = _look_up(work, session, group)
            for i, request in enumerate(group):
                if i in bad:
                    answers.append(bad[i])
                    continue
                try:
                    answers.append(self._one(work, kept, request))
                except Refusal as refusal:
                    answers.append(refusal)
                except for_all:
                    raise
                except Exception as error:
                    raise _Broken(i, error) from error
            work.flush()
        return answers

    def _one(self, work: Work, kept: Kept, request: Request) -> Answer:
        now = self.clock.now()
        if request.key is None:
            return handle(work, request.command, now)
        name = request.scope, request.key
        if name in kept:
            sent, answer = kept[name]
            if answer is None:
                raise Refusal(
                    503, "out-of-order", "The database is out of order",
                    "The answer that was given under this Idempotency-Key is damaged. Whoever runs "
                    "the service must restore a backup.",
                )  # fmt: skip
            if sent != request.digest:
                raise Refusal(
                    422, "idempotency-key-reused", "Idempotency key reused",
                    "This Idempotency-Key came with another request before. Use a new key for "
                    "each request, and the same one only to repeat it.",
                )  # fmt: skip
            return answer._replace(replayed=True)
        answer = handle(work, request.command, now)
        kept[name] = request.digest, answer
        row = (*name, request.digest, answer.status, answer.body, now)
        work.keep((*row, answer_digest(*row)))
        return answer


Kept = dict[tuple[str, str], tuple[bytes, Answer | None]]
"""Answers given before, by scope and key, with what they answered; None: damaged."""


def answer_digest(scope: str, key: str, request: bytes, status: int, body: bytes, at: int) -> bytes:
    """The checksum of an answer that is kept."""
    return digest(f"{scope}\0{key}\0{status}\0{at}\0".encode(), request, body)


def _look_up(work: Work, session: Session, group: list[Request]) -> Kept:
    """Ask the database for what a whole group will want to know, with few questions."""
    players: dict[str, list[bytes]] = {}
    numbers: dict[str, list[int]] = {}
    keys: dict[str, list[str]] = {}
    for request in group:
        match request.command:
            case MakeOffer(campaign=campaign, player=player):
                players.setdefault(campaign, []).append(player)
            case Accept() | Decline() | Rate() | Reverse():
                numbers.setdefault(request.command.campaign, []).append(request.command.n)
            case _:
                pass
        if request.key is not None:
            keys.setdefault(request.scope, []).append(request.key)
    with contextlib.suppress(Refusal):  # told to whoever asked for it
        for campaign, some in players.items():
            work.offers(work.campaign(campaign)).look_up_players(some)
        for campaign, ns in numbers.items():
            work.offers(work.campaign(campaign)).look_up(ns)
    kept: Kept = {}
    answers = Columns(ANSWERS, ("scope", "key", "request", "status", "body", "at", "digest"))
    for scope, names in keys.items():
        rows = session.rows_among(answers, "scope = ?", (scope,), "key", names)
        for _, key, sent, status, body, at, written in rows:
            whole = written == answer_digest(scope, key, sent, status, body, at)
            kept[scope, key] = sent, Answer(status, body) if whole else None
    return kept


class _Broken(Exception):
    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


def _tell(group: list[Request], answers: list[Answer | Exception]) -> None:
    """Give everyone their answer; those of one event loop with a single call to it."""
    for request, answer in zip(group, answers, strict=True):
        if request.loop is None:
            request.done(answer)
    for loop in {request.loop for request in group if request.loop is not None}:
        told = [(r.done, a) for r, a in zip(group, answers, strict=True) if r.loop is loop]

        def tell(told: list[tuple[Callable[..., None], Answer | Exception]] = told) -> None:
            for done, answer in told:
                done(answer)

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell)
