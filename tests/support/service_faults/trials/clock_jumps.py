"""Clock jumps: resetting the wall clock changes neither the order of events nor deadlines."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple
from unittest import mock

import entice
from entice.service.domain import clock as clock_module
from entice.service.domain.clock import Clock
from entice.service.domain.commands import Accept, Expire, MakeOffer, MakeOffers, Rate, Reverse
from entice.service.domain.errors import Refusal
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.queries import Queries
from entice.service.storage.store import Store
from entice.service.storage.writer import Writer
from service_faults.audit import audit, faults
from service_faults.outcome import Outcome
from service_faults.writers import create, execute, execute_all, running_writer, sqlite_store

PATCHED: Any = clock_module
HOUR, YEAR = 3600, 365 * 24 * 3600
JUMPS = (HOUR, -HOUR, 10 * YEAR, -10 * YEAR)
EXPIRES_AFTER, RATING_WINDOW = 900, 3 * HOUR
SPEC = CampaignSpec(
    name="Jumps",
    arms=[f"item-{i}" for i in range(5)],
    budget=8_000,
    price_of_a_star=200,
    offer_expires_after=EXPIRES_AFTER,
    rating_window=RATING_WINDOW,
    holdout=0.2,
    overlap=0.1,
    segments=["new", "regular"],
    price=entice.LearnedPrice(explore=0.2),
    seed=9,
)


class Time:
    """A replacement for the module `time` that the test controls."""

    def __init__(self) -> None:
        self.monotonic_time = 10**12
        self.wall = 1_800_000_000 * 10**9

    def time_ns(self) -> int:
        """Return the wall clock."""
        return self.wall

    def time(self) -> float:
        """Return the wall clock, in seconds."""
        return self.wall / 1e9

    def monotonic_ns(self) -> int:
        """Return the monotonic clock."""
        return self.monotonic_time

    def monotonic(self) -> float:
        """Return the monotonic clock, in seconds."""
        return self.monotonic_time / 1e9

    def advance(self, seconds: float) -> None:
        """Advance both clocks."""
        self.monotonic_time += int(seconds * 1e9)
        self.wall += int(seconds * 1e9)

    def jump(self, seconds: int) -> None:
        """Reset the wall clock."""
        self.wall += seconds * 10**9


class WallClock(Clock):
    """The control: a service that uses the wall clock."""

    readings: ClassVar[list[int]] = []

    def now(self) -> int:
        """Return the wall clock."""
        self.readings.append(PATCHED.time.time_ns() // 1000)
        return self.readings[-1]

    @classmethod
    def went_back(cls) -> int:
        """Return how often the clock went back."""
        return sum(after < before for before, after in itertools.pairwise(cls.readings))


class JumpResult(NamedTuple):
    """The result of clock jumps."""

    jumps: int
    events: int
    limited: int
    exceeded: int
    out_of_order: int
    early: int
    """Offers that expired before their deadline …"""
    late: int
    """… or that could be accepted after it."""
    stuck: bool
    """Whether anything stays reserved or in flight after all deadlines."""
    problems: list[str]

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        wrong = self.exceeded + self.out_of_order + self.early + self.late + self.stuck
        return wrong == 0 and not self.problems


class Trial:
    """A campaign whose service is restarted while the clock jumps."""

    def __init__(self, store: Store, time: Time, clock: type[Clock], seed: int) -> None:
        self.store, self.time, self.clock = store, time, clock
        self.rng = random.Random(seed)
        self.players = itertools.count(1)
        self.early = self.late = 0
        with self.service() as writer:
            self.campaign = create(writer, SPEC)

    @contextmanager
    def service(self) -> Iterator[Writer]:
        """Run the service. It reads the wall clock at its start."""
        with running_writer(self.store, self.clock()) as writer:
            yield writer

    def round(self, running: int, stopped: int) -> None:
        """Make the clock jump once while the service runs, and once while it is stopped."""
        time, rng = self.time, self.rng
        with self.service() as writer:
            self._run_commands(writer)
            began, (in_time, too_late) = time.monotonic_time, self._offers(writer, 2)
            time.advance(rng.uniform(0, EXPIRES_AFTER / 2))
            time.jump(running)
            self._run_commands(writer)
            time.advance(EXPIRES_AFTER - 1 - (time.monotonic_time - began) / 1e9)
            self.early += not self._accepted(writer, in_time)
            time.advance(2)
            self.late += self._accepted(writer, too_late)
            (left_open,) = self._offers(writer, 1)
        time.advance(rng.uniform(0, 60))
        time.jump(stopped)
        with self.service() as writer:
            self._run_commands(writer)
            # The length of the downtime is not known, so deadlines may count from here.
            time.advance(EXPIRES_AFTER + 1)
            self.late += self._accepted(writer, left_open)

    def stuck(self) -> bool:
        """Advance past all deadlines; return whether anything is still reserved or in flight."""
        with self.service() as writer:
            self._run_commands(writer)
            for wait in (EXPIRES_AFTER + 1, RATING_WINDOW + 1):
                self.time.advance(wait)
                while execute(writer, Expire(self.campaign))["expired"]:
                    pass
        view = Queries(self.store).campaign(self.campaign)
        return view.reserved + view.in_flight > 0

    def _run_commands(self, writer: Writer) -> None:
        """Make offers, accept, rate and reverse some."""
        names = self._offers(writer, 30)
        sold = self.rng.sample(names, 12)
        for some in (
            [Accept(name) for name in sold],
            [Rate(name, self.rng.randint(1, 5)) for name in sold[:8]],
            [Reverse(name) for name in sold[4:10]],
        ):
            list(execute_all(writer, some))

    def _offers(self, writer: Writer, number: int) -> list[str]:
        players = [next(self.players).to_bytes(16) for _ in range(number)]
        requests = [
            MakeOffer(self.campaign, player, segment=SPEC.segments[player[-1] % 2])
            for player in players
        ]
        command = MakeOffers(self.campaign, requests)
        return [offer["id"] for offer in execute(writer, command)["offers"]]

    def _accepted(self, writer: Writer, offer: str) -> bool:
        try:
            return bool(execute(writer, Accept(offer))["state"] == "accepted")
        except Refusal as refusal:
            if refusal.extra.get("state") != "expired":
                raise
            return False


def run_trial(clock: type[Clock], rounds: int, seed: int) -> JumpResult:
    """Make the clock jump in all combinations, `rounds` times each."""
    time, rng = Time(), random.Random(seed)
    ways = list(itertools.product(JUMPS, JUMPS)) * rounds
    rng.shuffle(ways)
    with sqlite_store() as store, mock.patch.object(PATCHED, "time", time):
        trial = Trial(store, time, clock, seed)
        for running, stopped in ways:
            trial.round(running, stopped)
        stuck = trial.stuck()
        seen, problems = audit(store, trial.campaign), faults(store)
    return JumpResult(
        2 * len(ways), seen.events, seen.limited, seen.exceeded, seen.out_of_order,
        trial.early, trial.late, stuck, problems,
    )  # fmt: skip


def run(long: bool) -> Outcome:
    """Jump 1,600 times, or 32 in the short version; the control uses the wall clock."""
    result = run_trial(Clock, 50 if long else 1, seed=1)
    control = run_trial(WallClock, 1, seed=1)
    return Outcome(
        "clock jumps",
        f"{result.jumps:,} jumps of ± 1 hour and ± 10 years, half of them while the service was "
        f"stopped; {result.events:,} events, {result.limited:,} decisions at the budget limit",
        f"budget exceeded {result.exceeded} times, {result.out_of_order} events out of order, "
        f"{result.early + result.late} offers expired early or late, reservations never released: "
        f"{'some' if result.stuck else 'none'}"
        + "".join(f"; {what}" for what in result.problems[:3]),
        f"wall clock: it went back {WallClock.went_back()} times; "
        f"{control.early + control.late} of {3 * control.jumps // 2} offers expired early or late, "
        f"reservations never released: {'some' if control.stuck else 'none'}",
        result.passed and result.limited > 0 and control.early > 0 and control.late > 0
        and WallClock.went_back() > 0,
    )  # fmt: skip
