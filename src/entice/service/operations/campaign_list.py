"""The list of campaigns: searched, filtered, sorted and divided into pages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from entice.api_types import CampaignWithAlerts
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.errors import DamagedCampaign, not_found
from entice.service.domain.views import campaign_view
from entice.service.operations.alerts import CampaignAlerts
from entice.service.storage.queries import load_state
from entice.service.storage.store import Session, Store

Sort = Literal[
    "created", "-created", "changed", "-changed", "name", "-name", "status", "-status",
    "used", "-used", "share_who_rate", "-share_who_rate", "alerts", "-alerts",
]  # fmt: skip
"""Orders of the list. A minus sign reverses the order."""


class CampaignPage(NamedTuple):
    """A page of the list."""

    campaigns: list[CampaignWithAlerts]
    more: bool
    """Whether there is a next page."""
    total: int
    """Number of campaigns on all pages."""


class _Entry(NamedTuple):
    """What campaigns are searched for and sorted by."""

    id: str
    number: int
    head: bytes
    name: str
    status: str
    changed: int
    used: float
    """The share of the budget that is committed or reserved."""
    share_who_rate: float | None


class CampaignList:
    """The campaigns of a database. Thread-safe.

    A campaign's name and status are inside its encoded state, and its share of raters and its
    alerts are calculated, so the database has no index for them. This class keeps an entry of some
    hundred bytes for each campaign in memory, and decodes again only the rows that have changed
    since the last request: a query for the heads of all logs finds them. PostgreSQL and SQLite are
    treated alike. A row is not written for the sake of the list, which would slow down decisions.
    """

    def __init__(self, store: Store, alerts: CampaignAlerts) -> None:
        self._store = store
        self._alerts = alerts
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    def page(
        self,
        only: str | None = None,
        *,
        search: str = "",
        status: str | None = None,
        sort: Sort = "created",
        after: str | None = None,
        limit: int,
    ) -> CampaignPage:
        """Return up to `limit` campaigns that match, from the one after `after` in the order.

        `only` is the campaign that a key is limited to. `search` has words that must all occur in a
        campaign's name or id. Damaged campaigns are left out: requests for them, `entice verify`
        and the metric `entice_campaigns_damaged` report them.
        """
        with self._store.read() as session:
            if only is None:
                entries = self._update(session)
            else:
                entries = [_entry(0, load_state(session, only))]
            found = {entry.id for entry in entries if _matches(entry, search, status)}
            # The last campaign of the previous page may have changed and no longer match.
            ordered = [entry for entry in entries if entry.id in found or entry.id == after]
            ordered = self._sorted(session, ordered, sort)
            start = 0
            if after is not None:
                places = [i for i, entry in enumerate(ordered) if entry.id == after]
                if not places:
                    raise not_found("campaign", after)
                start = places[0] + 1
            views: list[CampaignWithAlerts] = []
            while start < len(ordered) and len(views) < limit:
                state = self._load(session, ordered[start])
                if state is None:
                    found.discard(ordered[start].id)
                else:
                    views.append(self._alerts.add_to(session, state, campaign_view(state)))
                start += 1
        return CampaignPage(views, start < len(ordered), len(found))

    def _load(self, session: Session, entry: _Entry) -> CampaignState | None:
        """Return a campaign's state; None if its row was damaged after its entry was made."""
        try:
            return load_state(session, entry.id)
        except DamagedCampaign:
            self._entries.pop(entry.id, None)
            return None

    def _update(self, session: Session) -> list[_Entry]:
        """Return the entries of all intact campaigns, oldest first."""
        rows = session.rows("SELECT number, id, head FROM campaigns ORDER BY number")
        entries: list[_Entry] = []
        with self._lock:
            for number, name, head in rows:
                entry = self._entries.get(name)
                if entry is None or entry.head != head:
                    try:
                        entry = _entry(number, load_state(session, name))
                    except DamagedCampaign:
                        continue
                    self._entries[name] = entry
                entries.append(entry)
        return entries

    def _sorted(self, session: Session, entries: list[_Entry], sort: Sort) -> list[_Entry]:
        """Sort entries. Equal ones are sorted by age, and unknown values are last."""
        field, reverse = sort.removeprefix("-"), sort.startswith("-")
        if field == "alerts":
            counts = {entry.id: self._alert_count(session, entry) for entry in entries}
            return sorted(entries, key=lambda entry: counts[entry.id], reverse=reverse)
        value = _VALUES[field]
        known = [entry for entry in entries if value(entry) is not None]
        unknown = [entry for entry in entries if value(entry) is None]
        return sorted(known, key=value, reverse=reverse) + unknown

    def _alert_count(self, session: Session, entry: _Entry) -> int:
        alerts = self._alerts.known(entry.id, entry.head)
        if alerts is None:
            state = self._load(session, entry)
            alerts = [] if state is None else self._alerts.of(session, state)
        return len(alerts)


_VALUES: dict[str, Callable[[_Entry], Any]] = {
    "created": lambda entry: entry.number,
    "changed": lambda entry: entry.changed,
    "name": lambda entry: entry.name.casefold(),
    "status": lambda entry: entry.status,
    "used": lambda entry: entry.used,
    "share_who_rate": lambda entry: entry.share_who_rate,
}


def _entry(number: int, state: CampaignState) -> _Entry:
    used = (state.committed + state.reserved) / max(1, state.budget)
    return _Entry(
        state.campaign, number, state.head, state.spec["name"], state.status, state.at, used,
        state.expectation.share,
    )  # fmt: skip


def _matches(entry: _Entry, search: str, status: str | None) -> bool:
    text = f"{entry.name} {entry.id}".casefold()
    words = search.casefold().split()
    return status in (None, entry.status) and all(word in text for word in words)
