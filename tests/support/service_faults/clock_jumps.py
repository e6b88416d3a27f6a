"""Clock jumps: a wall clock that is set anew changes neither the order nor what was promised."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple
from unittest import mock

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
from service_faults.writers import create, desk_on, put_through, sqlite_store, told

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
    seed=9,
)


class Time:
    """Stands in for the module `time`: the test lets it pass, and sets the wall clock."""

    def __init__(self) -> None:
        self.steady = 10**12
        self.wall = 1_800_000_000 * 10**9

    def time_ns(self) -> int:
        """The wall clock."""
        return self.wall

    def time(self) -> float:
        """The wall clock, in seconds."""
        return self.wall / 1e9

    def monotonic_ns(self) -> int:
        """The steady one."""
        return self.steady

    def monotonic(self) -> float:
        """The steady one, in seconds."""
        return self.steady / 1e9

    def pass_(self, seconds: float) -> None:
        """Let time pass, for both."""
        self.steady += int(seconds * 1e9)
        self.wall += int(seconds * 1e9)

    def jump(self, seconds: int) -> None:
        """Set the wall clock."""
        self.wall += seconds * 10**9


class WallClock(Clock):
    """The control: the wall clock itself, as many a service has it."""

    readings: ClassVar[list[int]] = []

    def now(self) -> int:
        """What time it is said to be."""
        self.readings.append(PATCHED.time.time_ns() // 1000)
        return self.readings[-1]

    @classmethod
    def went_back(cls) -> int:
        """How often it was earlier than just before."""
        return sum(after < before for before, after in itertools.pairwise(cls.readings))

    def advance_to(self, moment: int) -> None:
        """Never mind."""


class Jumped(NamedTuple):
    """What jumps of the clock have done."""

    jumps: int
    events: int
    limited: int
    overspent: int
    disordered: int
    early: int
    """Offers that were gone before the time that was promised …"""
    late: int
    """… or there after it."""
    stuck: bool
    """Whether anything stays reserved or awaited when all time has passed."""
    broken: list[str]

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        wrong = self.overspent + self.disordered + self.early + self.late + self.stuck
        return wrong == 0 and not self.broken


class Trial:
    """A campaign whose service is started, stopped and misled about the time."""

    def __init__(self, store: Store, time: Time, clock: type[Clock], seed: int) -> None:
        self.store, self.time, self.clock = store, time, clock
        self.rng = random.Random(seed)
        self.players = itertools.count(1)
        self.early = self.late = 0
        with self.service() as writer:
            self.campaign = create(writer, SPEC)

    @contextmanager
    def service(self) -> Iterator[Writer]:
        """The service from a start to its stop; the wall clock is read at each start."""
        with desk_on(self.store, self.clock()) as writer:
            yield writer

    def round(self, running: int, stopped: int) -> None:
        """Let the clock jump once while the service runs, and once while it does not."""
        time, rng = self.time, self.rng
        with self.service() as writer:
            self._trade(writer)
            began, (in_time, too_late) = time.steady, self._offers(writer, 2)
            time.pass_(rng.uniform(0, EXPIRES_AFTER / 2))
            time.jump(running)
            self._trade(writer)
            time.pass_(EXPIRES_AFTER - 1 - (time.steady - began) / 1e9)
            self.early += not self._accepted(writer, in_time)
            time.pass_(2)
            self.late += self._accepted(writer, too_late)
            (left_open,) = self._offers(writer, 1)
        time.pass_(rng.uniform(0, 60))
        time.jump(stopped)
        with self.service() as writer:
            self._trade(writer)
            # How long the service was away can't be known: the promise counts from here at most.
            time.pass_(EXPIRES_AFTER + 1)
            self.late += self._accepted(writer, left_open)

    def stuck(self) -> bool:
        """Let all time pass, and tell whether anything is still reserved or awaited."""
        with self.service() as writer:
            self._trade(writer)
            for wait in (EXPIRES_AFTER + 1, RATING_WINDOW + 1):
                self.time.pass_(wait)
                while told(writer, Expire(self.campaign))["expired"]:
                    pass
        view = Queries(self.store).campaign(self.campaign)
        return view.reserved + view.in_flight > 0

    def _trade(self, writer: Writer) -> None:
        """What goes on all the time: offers, sales, ratings, returns."""
        names = self._offers(writer, 30)
        sold = self.rng.sample(names, 12)
        for some in (
            [Accept(name) for name in sold],
            [Rate(name, self.rng.randint(1, 5)) for name in sold[:8]],
            [Reverse(name) for name in sold[4:10]],
        ):
            list(put_through(writer, some))

    def _offers(self, writer: Writer, number: int) -> list[str]:
        players = [next(self.players).to_bytes(16) for _ in range(number)]
        asked = MakeOffers(self.campaign, [MakeOffer(self.campaign, player) for player in players])
        return [offer["id"] for offer in told(writer, asked)["offers"]]

    def _accepted(self, writer: Writer, offer: str) -> bool:
        try:
            return bool(told(writer, Accept(offer))["state"] == "accepted")
        except Refusal as refusal:
            if refusal.extra.get("state") != "expired":
                raise
            return False


def torture(clock: type[Clock], rounds: int, seed: int) -> Jumped:
    """Have the clock jump in all ways, so many times each."""
    time, rng = Time(), random.Random(seed)
    ways = list(itertools.product(JUMPS, JUMPS)) * rounds
    rng.shuffle(ways)
    with sqlite_store() as store, mock.patch.object(PATCHED, "time", time):
        trial = Trial(store, time, clock, seed)
        for running, stopped in ways:
            trial.round(running, stopped)
        stuck = trial.stuck()
        seen, broken = audit(store, trial.campaign), faults(store)
    return Jumped(
        2 * len(ways), seen.events, seen.limited, seen.overspent, seen.disordered,
        trial.early, trial.late, stuck, broken,
    )  # fmt: skip


def run(long: bool) -> Outcome:
    """Jump 1,600 times, or 32 times in short; the control goes by the wall clock itself."""
    jumped = torture(Clock, 50 if long else 1, seed=1)
    control = torture(WallClock, 1, seed=1)
    return Outcome(
        "clock jumps",
        f"{jumped.jumps:,} jumps of ± 1 hour and ± 10 years, half of them while the service was "
        f"stopped; {jumped.events:,} events, {jumped.limited:,} decisions at the budget's limit",
        f"overspent {jumped.overspent}, out of order {jumped.disordered}, promises broken "
        f"{jumped.early + jumped.late}, reserved for ever: {'some' if jumped.stuck else 'none'}"
        + "".join(f"; {what}" for what in jumped.broken[:3]),
        f"the wall clock itself: it went back {WallClock.went_back()} times; promises broken "
        f"{control.early + control.late} of {3 * control.jumps // 2}, "
        f"reserved for ever: {'some' if control.stuck else 'none'}",
        jumped.passed and jumped.limited > 0 and control.early > 0 and control.late > 0
        and WallClock.went_back() > 0,
    )  # fmt: skip
