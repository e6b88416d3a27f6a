"""A few hundred requests to a desk, the same ones each time: what the disk fails under.

Everything that could differ from run to run is taken from the seed: the requests, the service's
clock, the ids of campaigns, and which requests share a commit.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import entice
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
from entice.service.storage import dispatch as handling
from entice.service.storage.queries import Queries
from entice.service.storage.sqlite import SqliteStore
from entice.service.storage.store import Store
from entice.service.storage.writer import Writer
from service_faults.adapter import SYNCS_NOTHING

SECOND = 1_000_000


class TestClock(Clock):
    """Stands still until it is moved."""

    __test__ = False

    def __init__(self) -> None:
        self.time = 1_800_000_000_000_000

    def now(self) -> int:
        return self.time

    def advance_to(self, moment: int) -> None:
        self.time = max(self.time, moment)


class Request(NamedTuple):
    """What is asked, and under which key if any."""

    command: Command
    key: str | None

    @property
    def digest(self) -> bytes:
        """Tells another request under the same key."""
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
    ),
)


class Scenario:
    """Decides what is asked next, from the answers so far."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.campaigns: list[str] = []
        self.arms: dict[str, list[str]] = {}
        self.states: dict[str, str] = {}  # of offers, as last told
        self.asked = 0

    def next(self) -> Request:
        """Choose the next request. Some have been sent before; some will be refused."""
        self.asked += 1
        key = f"key {self.asked}" if self.rng.random() < 0.6 else None
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
            some = [Organic(rng.choice(arms), rng.randint(1, 5)) for _ in range(3)]
            return EnterRatings(campaign, some)
        if kind < 0.46:
            return AddArms(campaign, [f"arm-{self.asked}"])
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
        player = self.rng.randrange(40).to_bytes(16)
        if self.rng.random() < 0.1:
            return MakeOffer(campaign, player, eligible=self.arms[campaign][:2])
        return MakeOffer(campaign, player)

    def _answer(self) -> Command:
        """Mostly what an offer waits for; sometimes anything."""
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

    def told(self, request: Request, answer: CommandResult | Refusal) -> None:
        """Learn from an answer what exists."""
        if isinstance(answer, Refusal):
            if isinstance(request.command, Accept | Decline | Rate | Reverse):
                self.states[request.command.offer] = str(answer.extra.get("state"))
            return
        body: Any = json.loads(answer.body)
        match request.command:
            case CreateCampaign(spec=spec):
                self.campaigns.append(body["id"])
                self.arms[body["id"]] = list(spec.arms)
            case AddArms(campaign=campaign, arms=arms):
                self.arms[campaign] += arms
            case MakeOffers():
                self.states.update({offer["id"]: offer["state"] for offer in body["offers"]})
            case MakeOffer() | Accept() | Decline() | Rate() | Reverse():
                self.states[body["id"]] = body["state"]
            case _:
                pass


Told = Callable[[Request, CommandResult], None]


def play(store: Store, length: int, seed: int, told: Told = lambda request, answer: None) -> None:
    """Put a scenario through a desk.

    Parameters
    ----------
    told
        Called with each answer as soon as somebody has it, on the desk's own thread.
    """
    clock, scenario = TestClock(), Scenario(seed)
    with ids_from(clock):
        while scenario.asked < length:
            # What is put before the start of a desk shares a commit; what is put later does not.
            together = scenario.rng.choice((0, 0, 3, 12)) if scenario.campaigns else 0
            writer = quiet_desk(store, clock)
            futures = [put(writer, scenario.next(), told) for _ in range(together)]
            writer.start()
            for request, future in futures:
                settle(scenario, request, future)
            for _ in range(20):
                clock.time += SECOND
                request, future = put(writer, scenario.next(), told)
                settle(scenario, request, future)
            writer.stop()
            clock.time += scenario.rng.choice((1, 1, 20 * 60)) * SECOND


def quiet_desk(store: Store, clock: Clock) -> Writer:
    """A desk that does nothing by itself after its start."""
    return Writer(store, clock, tick=3600.0)


def put(writer: Writer, request: Request, told: Told) -> tuple[Request, Future[CommandResult]]:
    """Hand in a request."""

    def tell(done: Future[CommandResult]) -> None:
        if done.exception() is None:
            told(request, done.result())

    future = writer.submit(request.command, scope="test", key=request.key, request=request.digest)
    future.add_done_callback(tell)
    return request, future


def settle(scenario: Scenario, request: Request, future: Future[CommandResult]) -> None:
    """Wait for an answer; a refusal is one too."""
    try:
        scenario.told(request, future.result(timeout=30))
    except Refusal as refusal:
        scenario.told(request, refusal)


@contextlib.contextmanager
def ids_from(clock: TestClock) -> Iterator[None]:
    """Let ids follow from the clock."""
    fake = SimpleNamespace(token_hex=lambda size: f"{clock.time:0{2 * size}x}")
    with mock.patch.object(handling, "secrets", fake):
        yield


class _Unsynced(sqlite3.Connection):
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        return super().execute(SYNCS_NOTHING.get(sql, sql), *parameters)


@contextlib.contextmanager
def as_the_service_opens(path: Path) -> Iterator[SqliteStore]:
    """Open a database with all the checks that a server makes at its start.

    To be quick it syncs nothing: what is looked at here is a copy.
    """
    opened: list[_Unsynced] = []

    def connect(name: str) -> _Unsynced:
        opened.append(_Unsynced(name, isolation_level=None, check_same_thread=False))
        return opened[-1]

    try:
        store = SqliteStore(path, connect)
        store.check_integrity()
        yield store
    finally:
        for connection in opened:  # also of a store that was refused
            connection.close()


def faults_in(store: Store) -> list[str]:
    """What verification objects to."""
    return [verdict.fault for verdict in verify(store) if verdict.fault is not None]


def questions(store: Store, decisions: Mapping[str, int]) -> dict[str, Callable[[], Any]]:
    """Everything that can be looked up, by campaigns and how many decisions each has made."""
    queries = Queries(store)
    asked: dict[str, Callable[[], Any]] = {"campaigns": queries.campaigns}
    for name, last in decisions.items():
        asked[f"campaign {name}"] = partial(queries.campaign, name)
        asked[f"arms {name}"] = partial(queries.arms, name)
        asked[f"drift {name}"] = partial(queries.drift, name)
        asked[f"spending {name}"] = partial(queries.spending, name)
        asked[f"head {name}"] = partial(queries.head, name)
        asked[f"events {name}"] = partial(queries.events, name, 0, 1_000_000)
        for n in range(1, last + 1):
            asked[f"offer {name}.{n}"] = partial(queries.offer, f"{name}.{n}")
    return asked


def all_reads(store: Store) -> dict[str, Any]:
    """Ask all that can be looked up."""
    decisions = {view.id: view.decisions for view in Queries(store).campaigns()}
    return {name: ask() for name, ask in questions(store, decisions).items()}
