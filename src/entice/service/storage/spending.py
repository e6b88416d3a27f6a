"""The spending of a campaign over time: its whole log, as a series of bounded length."""

from __future__ import annotations

import bisect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from entice.api_types import SettingsHistory, SpendingView
from entice.service.domain.campaign_state import CampaignState, paced_budget
from entice.service.domain.errors import Corrupt
from entice.service.domain.views import to_datetime
from entice.service.storage.event_log import verified_events
from entice.service.storage.settings_history import KINDS, SettingChanges
from entice.service.storage.store import Session

By = Literal["date", "offer"]
MAX_POINTS = 1000
"""Maximum number of points in one response. A series in memory has at most twice as many."""
MAX_READ = 4 * 2**20
"""Maximum bytes of the log that one request reads: about 13,000 events, or 0.05 s."""
MAX_CACHED = 100
"""Maximum number of cached campaigns. The least recently used one is evicted."""
_PAGE = 1000
_ROW_OVERHEAD = 100
"""Bytes of an event in addition to its body."""
_FIRST_STEP = {"date": 1000, "offer": 1}
"""The initial length of an interval, in microseconds or offers. It doubles as a series grows."""


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
        """The maximum of committed plus reserved money after the next offer; None without pace."""
        return paced_budget(self.budget, self.offers, self.pace_over)


class _Settings(msgspec.Struct, gc=False):
    budget: int | UnsetType = UNSET
    pace_over: int | UnsetType | None = UNSET


class _SpendingEvent(msgspec.Struct, gc=False):
    """The fields of events that change money; the others are not decoded."""

    kind: str
    seq: int
    at: int
    n: int = 0
    amount: int = 0
    paid: int = 0
    shadow: bool = False
    spec: _Settings | UnsetType = UNSET
    changes: _Settings | UnsetType = UNSET


_decode = msgspec.json.Decoder(_SpendingEvent).decode
Key = Callable[[Point], int]
"""The position of a point on the axis: its time, or its number of offers."""


class Series:
    """The last point of each interval. Intervals are merged in pairs when there are too many."""

    def __init__(self, key: Key, step: int, most: int = 2 * MAX_POINTS) -> None:
        self._key = key
        self._step = step
        self._most = most
        self._interval = 0
        self.points: list[Point] = []
        """The points of all intervals but the current one."""

    def add(self, key: int, before: Point) -> None:
        """Add an event, given its position on the axis and the point before it."""
        interval = key // self._step
        if interval != self._interval:
            self._interval = interval
            self.points.append(before)
            while len(self.points) > self._most:
                self._step *= 2
                self._interval //= 2
                self.points = self._joined(self.points, self._step, self._interval)

    def thinned(self, most: int) -> list[Point]:
        """Return at most `most` points."""
        points, step, interval = self.points, self._step, self._interval
        while len(points) > most:
            step *= 2
            interval //= 2
            points = self._joined(points, step, interval)
        return points

    def _joined(self, points: list[Point], step: int, current: int) -> list[Point]:
        intervals = [self._key(point) // step for point in points]
        following = [*intervals[1:], current]
        return [
            point
            for point, own, later in zip(points, intervals, following, strict=True)
            if own != later
        ]


class Spending:
    """The spending in a campaign's log, up to event `seq`."""

    def __init__(self) -> None:
        self.seq = 0
        self.lock = threading.Lock()
        self.settings = SettingChanges()
        self._open: dict[int, int] = {}  # amounts reserved by open offers, by number
        self._first = self._last = Point(0, 0, 0, 0, 0, None)
        self._series = {
            "date": Series(lambda point: point.at - self._first.at, _FIRST_STEP["date"]),
            "offer": Series(lambda point: point.offers, _FIRST_STEP["offer"]),
        }

    def catch_up(self, session: Session, campaign: str, number: int) -> None:
        """Read further events, up to `MAX_READ` bytes."""
        size = 0
        for _, body, _ in verified_events(session, campaign, number, self.seq, _PAGE):
            self.apply(body)
            size += len(body) + _ROW_OVERHEAD
            if size >= MAX_READ:
                return

    def apply(self, body: bytes) -> None:
        """Apply the next event."""
        event = _decode(body)
        if event.kind in KINDS:
            self.settings.apply(body)
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
        """Raise `Corrupt` if the complete log does not add up to the campaign's state."""
        last = self._last
        money = (last.offers, last.committed, last.reserved, last.budget)
        if money != (state.decisions, state.committed, state.reserved, state.budget):
            raise Corrupt(
                f"The log of campaign {state.campaign} does not add up to its row. "
                "Run `entice verify`."
            )

    def points(
        self, by: By, most: int, since: int | None = None, until: int | None = None
    ) -> list[Point]:
        """Return at most `most` points, including the first and the last event.

        With `since` and `until`, in microseconds, the first point is the last one before that
        period, if there is one, and the others are within it.
        """
        if self.seq <= 1:
            return [self._first][: self.seq]
        if since is None and until is None:
            between = self._series[by].thinned(most - 2)
            return [self._first, *(p for p in between if p is not self._first), self._last]
        between = self._series[by].points
        series = [self._first, *(p for p in between if p is not self._first), self._last]
        first = bisect.bisect_right(series, since or 0, key=lambda point: point.at)
        end = len(series)
        if until is not None:
            end = bisect.bisect_right(series, until, key=lambda point: point.at)
        period = series[max(0, first - 1) : end] or [self._first]
        step = max(1, -(-(len(period) - 1) // (most - 1)))
        return [period[0], *period[-1:0:-step][::-1]]


class SpendingCache:
    """The spending of several campaigns, updated incrementally from their logs.

    The cache is in memory only: after a restart, requests read the log again, in bounded parts.
    """

    def __init__(self) -> None:
        self._cached: OrderedDict[str, Spending] = OrderedDict()
        self._lock = threading.Lock()

    def view(
        self,
        session: Session,
        number: int,
        state: CampaignState,
        by: By,
        most: int,
        period: tuple[int | None, int | None] = (None, None),
    ) -> SpendingView:
        """Return a campaign's spending, as far as its log has been read."""
        with self._read(session, number, state) as spending:
            points, through = spending.points(by, most, *period), spending.seq
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

    def settings(
        self,
        session: Session,
        number: int,
        state: CampaignState,
        names: Mapping[str, str],
    ) -> SettingsHistory:
        """Return the changes of a campaign's settings, as far as its log has been read."""
        with self._read(session, number, state) as spending:
            changes, through = spending.settings.newest_first(names), spending.seq
        money = state.money
        return SettingsHistory(
            state.campaign, money.code, money.digits, through, max(state.seq, through), changes
        )

    @contextmanager
    def _read(self, session: Session, number: int, state: CampaignState) -> Iterator[Spending]:
        """Lock a campaign's spending, and read further events of its log."""
        with self._lock:
            spending = self._cached.setdefault(state.campaign, Spending())
            self._cached.move_to_end(state.campaign)
            if len(self._cached) > MAX_CACHED:
                self._cached.popitem(last=False)
        with spending.lock:
            spending.catch_up(session, state.campaign, number)
            if spending.seq == state.seq:
                spending.check(state)
            yield spending
