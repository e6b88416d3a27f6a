"""The alerts of campaigns, with what their rules need from the database, cached."""

from __future__ import annotations

import bisect
import math
import time
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from entice.api_types import AlertView, CampaignView, CampaignWithAlerts, DriftView
from entice.errors import EnticeError
from entice.service import logs
from entice.service.domain.alerts import (
    RECENT_OFFERS,
    RecentRatings,
    StoredFacts,
    find_alerts,
    recent_ratings,
)
from entice.service.domain.campaign_state import CampaignState, missing_offer_error
from entice.service.domain.errors import Corrupt, NotReady
from entice.service.domain.plan_status import plan_status
from entice.service.operations.invariants import check_invariants
from entice.service.operations.metrics import read_campaign_gauges
from entice.service.storage.drift_estimate import DriftEstimates
from entice.service.storage.queries import load_campaign, load_plan, number_of
from entice.service.storage.store import Session
from entice.service.storage.unit_of_work import OFFER, offer_from_row

FRESH_SECONDS = 5.0
"""Seconds for which facts about a campaign are reused although it has changed."""
CHECK_SECONDS = 60.0
"""Seconds after which the facts are read again although the campaign has not changed."""
DRIFT_EVENTS = 2000
"""Events that one reading adds to a drift estimate. A longer log takes several readings."""
MAX_SCRAPE_SECONDS = 1.0
"""Seconds for which one scrape of the metrics reads facts. Later scrapes read further ones."""
MAX_CACHED = 100_000
"""Maximum number of cached campaigns. The one added last is evicted."""


class _Cached(NamedTuple):
    head: bytes
    read_at: float
    complete: bool
    """Whether the drift estimate includes the whole log."""
    facts: StoredFacts
    alerts: list[AlertView]


class CampaignAlerts:
    """Finds the alerts of campaigns. Thread-safe.

    The alerts of a campaign that has not changed are cached. If it has changed, the rules that need
    its row alone are evaluated, and the facts of the others are read at most every
    `FRESH_SECONDS`: a few index lookups and `RECENT_OFFERS` offers, never the log, of which only a
    drift estimate reads a limited number of new events.
    """

    def __init__(self, drifts: DriftEstimates) -> None:
        self._drifts = drifts
        self._cached: dict[str, _Cached] = {}  # its operations are atomic

    def known(self, campaign: str, head: bytes) -> list[AlertView] | None:
        """Return the cached alerts of a campaign whose last event has the hash `head`, if any."""
        cached = self._cached.get(campaign)
        if cached is None or cached.head != head:
            return None
        seconds = CHECK_SECONDS if cached.complete else FRESH_SECONDS
        return cached.alerts if time.monotonic() - cached.read_at < seconds else None

    def of(self, session: Session, state: CampaignState) -> list[AlertView]:
        """Return the alerts of a campaign, the most urgent first."""
        return self._current(session, state).alerts

    def _current(self, session: Session, state: CampaignState) -> _Cached:
        cached, now = self._cached.get(state.campaign), time.monotonic()
        if cached is not None and self.known(state.campaign, state.head) is not None:
            return cached
        if cached is not None and now - cached.read_at < FRESH_SECONDS:
            read_at, complete, facts = cached.read_at, False, cached.facts
        else:
            read_at = now
            complete, facts = self._facts(session, state, cached)
        alerts = find_alerts(state, state.expectation, facts)
        if len(self._cached) >= MAX_CACHED and state.campaign not in self._cached:
            self._cached.popitem()  # not the oldest: lists and scrapes read campaigns in turn
        current = _Cached(state.head, read_at, complete, facts, alerts)
        self._cached[state.campaign] = current
        return current

    def of_all(
        self, session: Session, states: Iterable[CampaignState]
    ) -> dict[str, list[AlertView]]:
        """Return the alerts of many campaigns by id, without those in which an error occurs.

        Facts are read for `MAX_SCRAPE_SECONDS`, those read longest ago first. For the other
        campaigns, the rules are evaluated with the facts known so far.
        """
        end, found = time.monotonic() + MAX_SCRAPE_SECONDS, {}
        for state in sorted(states, key=self._read_at):
            try:
                if time.monotonic() < end:
                    found[state.campaign] = self.of(session, state)
                else:
                    found[state.campaign] = self._without_reading(state)
            except EnticeError:
                raise
            except Exception as error:  # the other gauges are exported
                logs.unexpected(error, during="alerts", campaign=state.campaign)
        return found

    def _read_at(self, state: CampaignState) -> float:
        cached = self._cached.get(state.campaign)
        return -math.inf if cached is None else cached.read_at

    def _without_reading(self, state: CampaignState) -> list[AlertView]:
        cached = self._cached.get(state.campaign)
        facts = StoredFacts() if cached is None else cached.facts
        return find_alerts(state, state.expectation, facts)

    def add_to(
        self, session: Session, state: CampaignState, view: CampaignView
    ) -> CampaignWithAlerts:
        """Return the view of a campaign with its alerts and its plan's status."""
        found = self._current(session, state)
        plan, shadow_visitors = found.facts.plan, found.facts.shadow_visitors
        status = None if plan is None else plan_status(state, plan, shadow_visitors)
        fields = msgspec.structs.asdict(view)
        return CampaignWithAlerts(**fields, alerts=found.alerts, plan_status=status)

    def _facts(
        self, session: Session, state: CampaignState, cached: _Cached | None
    ) -> tuple[bool, StoredFacts]:
        """Return the facts of a campaign, and whether they include the whole log."""
        try:
            complete, drift = self._drift(session, state)
            broken = _broken_invariants(session, state)
            # The plan never changes, so it is read once.
            plan = cached.facts.plan if cached else load_plan(session, state.campaign)
            shadow = 0 if plan is None else _shadow_visitors(session, state)
            return complete, StoredFacts(_recent(session, state), drift, broken, plan, shadow)
        except Corrupt as error:
            return True, StoredFacts(broken=(str(error).rstrip("."),))

    def _drift(self, session: Session, state: CampaignState) -> tuple[bool, DriftView | None]:
        """Return whether the drift estimate is complete, and the estimate if a rule needs it."""
        if None in (state.spec.get("planned_drift"), state.spec.get("probe")):
            return True, None
        try:
            campaign = load_campaign(session, state.campaign)
        except NotReady:  # just after start-up
            return False, None
        if not self._drifts.advance(session, campaign, DRIFT_EVENTS):
            return False, None
        return True, self._drifts.view(session, campaign)


def _broken_invariants(session: Session, state: CampaignState) -> tuple[str, ...]:
    [gauges] = read_campaign_gauges(session, state.campaign)
    checked = check_invariants(session, gauges, state)
    return tuple(check.name for check in checked if not check.holds)


def _shadow_visitors(session: Session, state: CampaignState) -> int:
    """Return the number of visitors before the campaign went live, with a few index lookups.

    Of a campaign that returned to shadow mode later, they end at one of the times it went live.
    """
    number = number_of(session, state.campaign)

    def is_live(n: int) -> bool:
        rows = session.rows(f"{OFFER.select} WHERE campaign = ? AND n = ?", (number, n))
        if not rows:
            raise missing_offer_error(state, n, f"{state.campaign}.{n}")
        return not offer_from_row(number, rows[0]).shadow

    if state.decisions == 0 or is_live(1):
        return 0
    return bisect.bisect_left(range(1, state.decisions + 1), True, key=is_live)


def _recent(session: Session, state: CampaignState) -> RecentRatings | None:
    if state.decisions < 2 * RECENT_OFFERS or state.status == "closed":
        return None
    number = number_of(session, state.campaign)
    where = "WHERE campaign = ? AND n > ? ORDER BY n"
    first = state.decisions - RECENT_OFFERS
    rows = session.rows(f"{OFFER.select} {where}", (number, first))
    return recent_ratings(state, (offer_from_row(number, row) for row in rows))
