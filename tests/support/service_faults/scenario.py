"""A deterministic scenario of a few hundred requests, run on disks that fail.

The seed determines everything: the requests, the service's clock, the ids of campaigns, and which
requests share a commit.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import entice
from entice.service.domain import commands as command_handlers
from entice.service.domain.clock import Clock
from entice.service.domain.commands import (
    Accept,
    AddArms,
    ChangeCampaign,
    Command,
    CommandResult,
    CreateCampaign,
    Decline,
    EnterRatings,
    Expire,
    MakeOffer,
    MakeOffers,
    Organic,
    Rate,
    RetireArm,
    Reverse,
)
from entice.service.domain.errors import Refusal
from entice.service.domain.spec import CampaignSpec
from entice.service.operations.verify import verify
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.queries import Queries
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Store
from entice.service.storage.writer import Writer
from service_faults.adapter import WITHOUT_SYNC

SECOND = 1_000_000


class TestClock(Clock):
    """A clock that the scenario advances."""

    __test__ = False

    def __init__(self) -> None:
        self.time = 1_800_000_000_000_000

    def now(self) -> int:
        return self.time


class Request(NamedTuple):
    """A command and its idempotency key, if any."""

    command: Command
    key: str | None

    @property
    def digest(self) -> bytes:
        """Distinguishes requests with the same key."""
        return repr(self.command).encode()


SPECS = (
    CampaignSpec(
        name="Tea",
        arms=["oolong", "sencha", "assam", "earl-grey"],
        budget=60_000,
        price_of_a_star=200,
        seed=1,
        cap_per_player=2_000,
        probe=entice.Probe(share=0.3, amount=0.5),
        overlap=0.1,
        price=entice.LearnedPrice(acceptance=0.7, explore=0.3),
    ),
    CampaignSpec(
        name="Coffee",
        arms=["mild", "strong", "decaf"],
        policy=entice.ThompsonSampling(),
        budget=3_000,
        price_of_a_star=100,
        margin=7,
        seed=2,
        policy_sees="zero_to_one",
        holdout=0.3,
        holdout_feeds_averages=False,
        overlap=0.1,
        segments=["new", "regular"],
    ),
)


def segment_of(segments: Sequence[str], number: int) -> str | None:
    """Return the segment of a player with this number; None without segments."""
    return segments[number % len(segments)] if segments else None


class Scenario:
    """Chooses the next request, given the responses so far."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.campaigns: list[str] = []
        self.arms: dict[str, list[str]] = {}
        self.segments: dict[str, Sequence[str]] = {}
        self.states: dict[str, str] = {}  # of offers, as last reported
        self.count = 0

    def next(self) -> Request:
        """Return the next request. Some are repeats, and some will be rejected."""
        self.count += 1
        key = f"key {self.count}" if self.rng.random() < 0.6 else None
        return Request(self._command(), key)

    def _command(self) -> Command:
        rng = self.rng
        if len(self.campaigns) < len(SPECS):
            return CreateCampaign(SPECS[len(self.campaigns)])
        campaign = rng.choice(self.campaigns)
        arms = self.arms[campaign]
        kind = rng.random()
        if kind < 0.35:
            return self._offer(campaign)
        if kind < 0.40:
            return MakeOffers(campaign, [self._offer(campaign) for _ in range(rng.randint(2, 6))])
        if kind < 0.44:
            rated = [(rng.choice(arms), rng.randint(1, 5)) for _ in range(3)]
            segments = self.segments[campaign]
            some = [Organic(arm, stars, segment_of(segments, stars)) for arm, stars in rated]
            return EnterRatings(campaign, some)
        if kind < 0.46:
            return AddArms(campaign, [f"arm-{self.count}"])
        if kind < 0.48:
            return RetireArm(campaign, rng.choice(arms), rng.random() < 0.5)
        if kind < 0.50:
            return ChangeCampaign(campaign=campaign, budget=rng.randint(2_000, 80_000))
        if kind < 0.52:
            return ChangeCampaign(campaign=campaign, status=rng.choice(("live", "live", "shadow")))
        if kind < 0.55:
            return Expire(campaign)
        return self._answer()

    def _offer(self, campaign: str) -> MakeOffer:
        number = self.rng.randrange(40)
        player, segment = number.to_bytes(16), segment_of(self.segments[campaign], number)
        if self.rng.random() < 0.1:
            return MakeOffer(campaign, player, self.arms[campaign][:2], segment=segment)
        return MakeOffer(campaign, player, segment=segment)

    def _answer(self) -> Command:
        """Return a command for an offer: usually a possible one, sometimes any."""
        rng = self.rng
        waiting = [name for name, state in self.states.items() if state in ("offered", "accepted")]
        if not waiting or rng.random() < 0.1:
            waiting = list(self.states) or [f"{self.campaigns[0]}.1"]
        offer = rng.choice(waiting)
        match self.states.get(offer):
            case "offered":
                return Decline(offer) if rng.random() < 0.2 else Accept(offer)
            case "accepted" if rng.random() < 0.9:
                return Rate(offer, rng.randint(1, 5))
            case _:
                return Reverse(offer) if rng.random() < 0.5 else Rate(offer, rng.randint(1, 5))

    def record_response(self, request: Request, answer: CommandResult | Refusal) -> None:
        """Record the ids and states in a response."""
        if isinstance(answer, Refusal):
            if isinstance(request.command, Accept | Decline | Rate | Reverse):
                self.states[request.command.offer] = str(answer.extra.get("state"))
            return
        body: Any = json.loads(answer.body)
        match request.command:
            case CreateCampaign(spec=spec):
                self.campaigns.append(body["id"])
                self.arms[body["id"]] = list(spec.arms)
                self.segments[body["id"]] = spec.segments
            case AddArms(campaign=campaign, arms=arms):
                self.arms[campaign] += arms
            case MakeOffers():
                self.states.update({offer["id"]: offer["state"] for offer in body["offers"]})
            case MakeOffer() | Accept() | Decline() | Rate() | Reverse():
                self.states[body["id"]] = body["state"]
            case _:
                pass


PLAYERS = PlayerHasher(bytes(32))
"""The secret for checksums, which need not be read from a file."""
OnResponse = Callable[[Request, CommandResult], None]


def run_scenario(
    store: Store, length: int, seed: int, record_response: OnResponse = lambda request, answer: None
) -> None:
    """Run a scenario through a writer.

    Parameters
    ----------
    record_response
        Called with each response as soon as it is sent, on the writer's thread.
    """
    clock, scenario = TestClock(), Scenario(seed)
    with deterministic_ids(clock):
        while scenario.count < length:
            # Commands submitted before the writer starts share a commit; later ones do not.
            together = scenario.rng.choice((0, 0, 3, 12)) if scenario.campaigns else 0
            writer = idle_writer(store, clock)
            futures = [submit(writer, scenario.next(), record_response) for _ in range(together)]
            writer.start()
            for request, future in futures:
                wait_for(scenario, request, future)
            for _ in range(20):
                clock.time += SECOND
                request, future = submit(writer, scenario.next(), record_response)
                wait_for(scenario, request, future)
            writer.stop()
            clock.time += scenario.rng.choice((1, 1, 20 * 60)) * SECOND


def idle_writer(store: Store, clock: Clock) -> Writer:
    """Return a writer that runs no maintenance after its start."""
    return Writer(store, clock, tick=3600.0, players=PLAYERS)


def submit(
    writer: Writer, request: Request, record_response: OnResponse
) -> tuple[Request, Future[CommandResult]]:
    """Submit a request."""

    def on_done(done: Future[CommandResult]) -> None:
        if done.exception() is None:
            record_response(request, done.result())

    future = writer.submit(request.command, scope="test", key=request.key, request=request.digest)
    future.add_done_callback(on_done)
    return request, future


def wait_for(scenario: Scenario, request: Request, future: Future[CommandResult]) -> None:
    """Wait for the response, which may be a rejection, and record it."""
    try:
        scenario.record_response(request, future.result(timeout=30))
    except Refusal as refusal:
        scenario.record_response(request, refusal)


@contextlib.contextmanager
def deterministic_ids(clock: TestClock) -> Iterator[None]:
    """Derive ids from the clock."""
    fake = SimpleNamespace(token_hex=lambda size: f"{clock.time:0{2 * size}x}")
    with mock.patch.object(command_handlers, "secrets", fake):
        yield


class _UnsyncedConnection(sqlite3.Connection):
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        return super().execute(WITHOUT_SYNC.get(sql, sql), *parameters)


@contextlib.contextmanager
def open_as_service(path: Path) -> Iterator[SqliteStore]:
    """Open a database with all the checks that a server makes at its start.

    Nothing is synced, for speed: the database is a copy.
    """
    opened: list[_UnsyncedConnection] = []

    def connect(name: str) -> _UnsyncedConnection:
        opened.append(_UnsyncedConnection(name, isolation_level=None, check_same_thread=False))
        return opened[-1]

    try:
        store = SqliteStore(path, connect)
        store.check_integrity()
        yield store
    finally:
        for connection in opened:  # also if the store was rejected
            connection.close()


def faults_in(store: Store) -> list[str]:
    """Return the mismatches that verification finds."""
    return [result.fault for result in verify(store) if result.fault is not None]


def all_queries(store: Store, decisions: Mapping[str, int]) -> dict[str, Callable[[], Any]]:
    """Return all queries, given the number of decisions of each campaign."""
    queries = Queries(store)
    named: dict[str, Callable[[], Any]] = {"campaigns": queries.campaigns}
    for name, last in decisions.items():
        named[f"campaign {name}"] = partial(queries.campaign, name)
        named[f"arms {name}"] = partial(queries.arms, name)
        named[f"drift {name}"] = partial(queries.drift, name)
        named[f"effect {name}"] = partial(queries.effect, name)
        named[f"acceptance {name}"] = partial(queries.acceptance, name)
        named[f"spending {name}"] = partial(queries.spending, name)
        named[f"head {name}"] = partial(queries.head, name)
        named[f"events {name}"] = partial(queries.events, name, 0, 1_000_000)
        for n in range(1, last + 1):
            named[f"offer {name}.{n}"] = partial(queries.offer, f"{name}.{n}")
    return named


def run_all_queries(store: Store) -> dict[str, Any]:
    """Run all queries."""
    decisions = {view.id: view.decisions for view in Queries(store).campaigns()}
    return {name: ask() for name, ask in all_queries(store, decisions).items()}
