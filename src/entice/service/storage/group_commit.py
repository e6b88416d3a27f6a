"""A group of requests: carried out in one transaction, whatever becomes of each."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from entice.service.domain.campaign import Campaign
from entice.service.domain.clock import Clock
from entice.service.domain.commands import (
    Accept,
    Command,
    CreateCampaign,
    Decline,
    EnterRatings,
    MakeOffer,
    MakeOffers,
    Rate,
    Reverse,
)
from entice.service.domain.errors import Corrupt, Refusal, Stale, Unavailable
from entice.service.domain.offer import digest
from entice.service.storage.dispatch import CommandResult, handle
from entice.service.storage.store import ANSWERS, Columns, Session, Store
from entice.service.storage.unit_of_work import UnitOfWork

TRIES = 5
"""How often a group begins again when another process was faster."""
PAUSE = 0.02
"""Seconds, on average, before it does."""
MOST_KEPT = 1000
"""Campaigns that are kept in memory from one group to the next."""


class Request(NamedTuple):
    """Something to be done, and who waits for it."""

    command: Command
    scope: str
    key: str | None
    digest: bytes
    """Of what was sent, to tell another request under the same key."""
    done: Callable[[CommandResult | Exception], None]
    loop: Any
    """The event loop to be told in, if there is one."""

    @property
    def weight(self) -> int:
        """How many offers or ratings it is about."""
        match self.command:
            case MakeOffers(requests=requests):
                return len(requests)
            case EnterRatings(ratings=ratings):
                return len(ratings)
        return 1


class GroupCommit:
    """Carries out groups, and keeps the campaigns of the last ones at hand."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cached: dict[str, Campaign] = {}
        self._ahead: dict[str, int] = {}
        # Faults of the database are everybody's; one of ours is told to whoever it hit.
        self._shared_errors: tuple[type[Exception], ...] = (
            Unavailable,
            Stale,
            *store.driver_errors,
        )

    def now(self, campaign: str, last: int) -> int:
        """What time it is in a campaign, whose last event was at some moment.

        Where that lies in our future, since a clock was wrong, the campaign's time goes on from
        there: it stays in order, and yet what is due does not wait for the clock to catch up.
        """
        now = self._clock.now() + self._ahead.get(campaign, 0)
        if last > now:
            self._ahead[campaign] = self._ahead.get(campaign, 0) + last - now
            return last
        return now

    def max_clock_lead(self) -> int:
        """How many microseconds the campaign whose time is most ahead is ahead of the clock."""
        return max(self._ahead.values(), default=0)

    def commit(self, group: list[Request]) -> list[CommandResult | Exception]:
        """Find an answer for each request, or the same failure for all of them."""
        bad: dict[int, Exception] = {}
        collisions = 0
        while True:
            try:
                return self._transaction(group, bad)
            except Stale as stale:
                self._cached.clear()
                collisions += 1
                if collisions == TRIES:
                    busy = f"Others write to the same campaign all the time ({stale})."
                    return [Unavailable(busy)] * len(group)
                time.sleep(random.uniform(0.0, 2 * PAUSE))
            except _CommandFailed as broken:
                self._cached.clear()
                bad[broken.index] = broken.error
            except Exception as error:
                self._cached.clear()
                return [error] * len(group)

    def _transaction(
        self, group: list[Request], bad: dict[int, Exception]
    ) -> list[CommandResult | Exception]:
        answers: list[CommandResult | Exception] = []
        if len(self._cached) > MOST_KEPT:
            self._cached.clear()
        with self._store.write() as session:
            work = UnitOfWork(self._store, session, self._cached)
            damaged = self._lock_campaigns(work, group)
            kept = _prefetch(work, session, group)
            for i, request in enumerate(group):
                name = _campaign_of(request.command)
                if i in bad or name in damaged:
                    answers.append(bad.get(i) or damaged[name])
                    continue
                try:
                    answers.append(self._execute(work, kept, request, name))
                except Refusal as refusal:
                    answers.append(refusal)
                except self._shared_errors:
                    raise
                except Exception as error:
                    raise _CommandFailed(i, error) from error
            work.flush()
        return answers

    def _lock_campaigns(self, work: UnitOfWork, group: list[Request]) -> dict[str, Exception]:
        """Lock all campaigns of a group; return those that are damaged.

        In one order everywhere, or two processes might wait for each other's campaigns.
        """
        damaged: dict[str, Exception] = {}
        for name in sorted({_campaign_of(request.command) for request in group} - {""}):
            try:
                work.campaign(name)
            except Refusal:
                continue  # told to whoever asked for it
            except Corrupt as corrupt:
                damaged[name] = corrupt
        return damaged

    def _execute(
        self, work: UnitOfWork, kept: StoredResponses, request: Request, campaign: str
    ) -> CommandResult:
        now = self._clock.now()
        if campaign:
            with contextlib.suppress(Refusal):
                now = self.now(campaign, work.campaign(campaign).state.at)
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
        row = (*name, request.digest, answer.status, answer.body, self._clock.now())
        work.store_response((*row, response_digest(*row)))
        return answer


StoredResponses = dict[tuple[str, str], tuple[bytes, CommandResult | None]]
"""Answers given before, by scope and key, with what they answered; None: damaged."""


class _CommandFailed(Exception):
    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


def _campaign_of(command: Command) -> str:
    return "" if isinstance(command, CreateCampaign) else command.campaign


def response_digest(
    scope: str, key: str, request: bytes, status: int, body: bytes, at: int
) -> bytes:
    """The checksum of an answer that is kept."""
    return digest(f"{scope}\0{key}\0{status}\0{at}\0".encode(), request, body)


def _prefetch(work: UnitOfWork, session: Session, group: list[Request]) -> StoredResponses:
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
    # What is unknown or damaged is told to whoever asked for it, and to nobody else.
    for campaign, some in players.items():
        with contextlib.suppress(Refusal, Corrupt):
            work.offers(work.campaign(campaign)).prefetch_live(some)
    for campaign, ns in numbers.items():
        with contextlib.suppress(Refusal, Corrupt):
            work.offers(work.campaign(campaign)).prefetch(ns)
    kept: StoredResponses = {}
    answers = Columns(ANSWERS, ("scope", "key", "request", "status", "body", "at", "digest"))
    for scope, names in keys.items():
        rows = session.rows_where_in(answers, "scope = ?", (scope,), "key", names)
        for _, key, sent, status, body, at, written in rows:
            whole = written == response_digest(scope, key, sent, status, body, at)
            kept[scope, key] = sent, CommandResult(status, body) if whole else None
    return kept
