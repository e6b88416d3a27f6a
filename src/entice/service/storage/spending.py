"""How a campaign's spending grew: its whole log, as a series of bounded length."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from entice.api_types import SpendingView
from entice.service.domain.campaign import CampaignState
from entice.service.domain.errors import Corrupt
from entice.service.domain.views import to_datetime
from entice.service.storage.store import Session
from entice.service.storage.unit_of_work import verified_events

By = Literal["date", "offer"]
MOST_POINTS = 1000
"""Of one answer; a series in memory has at most twice as many."""
MOST_READ = 4 * 2**20
"""Bytes of the log that one request reads on: about 13,000 events, some 0.05 s."""
MOST_KNOWN = 100
"""Campaigns whose series are kept up to date. The one that was not asked for longest is dropped."""
_PAGE = 1000
_OF_A_ROW = 100
"""Bytes of an event besides its body."""
_FINEST = {"date": 1000, "offer": 1}
"""Microseconds, offers: steps in which a series begins. They double as it grows."""


class Point(NamedTuple):
    """The money of a campaign after one of its events."""

    at: int
    offers: int
    committed: int
    reserved: int
    budget: int
    pace_over: int | None

    @property
    def paced(self) -> int | None:
        """The limit of the pace, as `CampaignState.paced` has it."""
        if self.pace_over is None:
            return None
        share = min(1.0, math.log1p(self.offers + 1) / math.log1p(self.pace_over))
        return int(self.budget * share)


class _Settings(msgspec.Struct, gc=False):
    budget: int | UnsetType = UNSET
    pace_over: int | UnsetType | None = UNSET


class _Event(msgspec.Struct, gc=False):
    """What moves money, of any kind of event; the rest is not even read."""

    kind: str
    seq: int
    at: int
    n: int = 0
    amount: int = 0
    paid: int = 0
    shadow: bool = False
    spec: _Settings | UnsetType = UNSET
    changes: _Settings | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Event).decode
Key = Callable[[Point], int]
"""Where a point lies: its time, or how many offers there were."""


class Series:
    """The last point of each stretch; stretches are joined in pairs when there are too many."""

    def __init__(self, key: Key, step: int, most: int = 2 * MOST_POINTS) -> None:
        self._key = key
        self._step = step
        self._most = most
        self._stretch = 0
        self.points: list[Point] = []
        """Of all stretches but the present one."""

    def add(self, key: int, before: Point) -> None:
        """Take one event in: where it lies, and the money before it."""
        stretch = key // self._step
        if stretch != self._stretch:
            self._stretch = stretch
            self.points.append(before)
            while len(self.points) > self._most:
                self._step *= 2
                self._stretch //= 2
                self.points = self._joined(self.points, self._step, self._stretch)

    def thinned(self, most: int) -> list[Point]:
        """Return at most so many points."""
        points, step, stretch = self.points, self._step, self._stretch
        while len(points) > most:
            step *= 2
            stretch //= 2
            points = self._joined(points, step, stretch)
        return points

    def _joined(self, points: list[Point], step: int, present: int) -> list[Point]:
        stretches = [self._key(point) // step for point in points]
        following = [*stretches[1:], present]
        return [
            point
            for point, own, later in zip(points, stretches, following, strict=True)
            if own != later
        ]


class Spending:
    """A campaign's log, folded as far as it was read."""

    def __init__(self) -> None:
        self.seq = 0
        self.lock = threading.Lock()
        self._open: dict[int, int] = {}  # what open offers reserve, by number
        self._first = self._last = Point(0, 0, 0, 0, 0, None)
        self._series = {
            "date": Series(lambda point: point.at - self._first.at, _FINEST["date"]),
            "offer": Series(lambda point: point.offers, _FINEST["offer"]),
        }

    def catch_up(self, session: Session, campaign: str, number: int) -> None:
        """Read the log on from where it was left, as far as one request may."""
        size = 0
        for _, body, _ in verified_events(session, campaign, number, self.seq, _PAGE):
            self.apply(body)
            size += len(body) + _OF_A_ROW
            if size >= MOST_READ:
                return

    def apply(self, body: bytes) -> None:
        """Enter the next event."""
        event = _decode(body)
        before = self._last
        _, offers, committed, reserved, budget, pace_over = before
        settings = event.spec or event.changes
        if settings is not UNSET:
            budget = budget if settings.budget is UNSET else settings.budget
            pace_over = pace_over if settings.pace_over is UNSET else settings.pace_over
        match event.kind:
            case "offered":
                offers = event.n
                if event.amount and not event.shadow:
                    self._open[event.n] = event.amount
                    reserved += event.amount
            case "accepted":
                reserved -= self._open.pop(event.n, 0)
                committed += event.paid
            case "declined" | "expired" | "voided":
                reserved -= self._open.pop(event.n, 0)
            case "reversed":
                committed -= event.paid
        self.seq = event.seq
        self._last = Point(event.at, offers, committed, reserved, budget, pace_over)
        if event.seq == 1:
            self._first = self._last
        else:
            self._series["date"].add(event.at - self._first.at, before)
            self._series["offer"].add(offers, before)

    def check(self, state: CampaignState) -> None:
        """Raise `Corrupt` where the log, read to its end, does not add up to the books."""
        last = self._last
        money = (last.offers, last.committed, last.reserved, last.budget)
        if money != (state.decisions, state.committed, state.reserved, state.budget):
            raise Corrupt(
                f"The log of campaign {state.campaign} does not add up to its row. "
                "Run `entice verify`."
            )

    def points(self, by: By, most: int) -> list[Point]:
        """Return at most so many points, the first and the last event among them."""
        if self.seq <= 1:
            return [self._first][: self.seq]
        between = self._series[by].thinned(most - 2)
        return [self._first, *(p for p in between if p is not self._first), self._last]


class SpendingCache:
    """The spending of several campaigns, each kept up to date from where its log was read last.

    Nothing of this is stored: after a restart a log is read again, in bounded parts, by those who
    ask.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, Spending] = OrderedDict()
        self._lock = threading.Lock()

    def view(
        self, session: Session, number: int, state: CampaignState, by: By, most: int
    ) -> SpendingView:
        """Return how a campaign's spending grew, as far as its log is read after this request."""
        with self._lock:
            known = self._known.setdefault(state.campaign, Spending())
            self._known.move_to_end(state.campaign)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        with known.lock:
            known.catch_up(session, state.campaign, number)
            if known.seq == state.seq:
                known.check(state)
            points, through = known.points(by, most), known.seq
        money = state.money
        return SpendingView(
            state.campaign, by, money.code, money.digits, through, max(state.seq, through),
            [to_datetime(point.at) for point in points],
            [point.offers for point in points],
            [point.committed for point in points],
            [point.reserved for point in points],
            [point.budget for point in points],
            [point.paced for point in points],
        )  # fmt: skip
