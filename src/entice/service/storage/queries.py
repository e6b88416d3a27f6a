"""Read-only queries: campaigns, arms, offers, events, drift, effect, acceptance, spending."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

import msgspec

from entice.api_types import (
    AcceptanceView,
    ArmView,
    CampaignPlan,
    CampaignPlanView,
    CampaignView,
    DriftView,
    EffectView,
    EventPage,
    EventView,
    OfferHistory,
    OfferPage,
    PlayerCampaign,
    PlayerView,
    SettingsHistory,
    SpendingView,
)
from entice.service.domain import events as log
from entice.service.domain.acceptance import acceptance_view
from entice.service.domain.campaign import Campaign
from entice.service.domain.campaign_state import (
    ID_WITHIN,
    CampaignState,
    has_id,
    missing_offer_error,
)
from entice.service.domain.commands import offer_number
from entice.service.domain.effect import effect_view
from entice.service.domain.errors import Corrupt, DamagedCampaign, not_found
from entice.service.domain.explain import explain, price_calculation
from entice.service.domain.offer import STATES, OfferRecord, encoded_text
from entice.service.domain.views import arm_views, campaign_view, offer_view, to_datetime
from entice.service.storage.drift_estimate import DriftEstimates
from entice.service.storage.event_log import verified_events
from entice.service.storage.player_salts import PlayerSalts, salted
from entice.service.storage.spending import By, SpendingCache
from entice.service.storage.store import Session, Store
from entice.service.storage.unit_of_work import (
    CAMPAIGN,
    OFFER,
    campaign_from_row,
    load_all_states,
    offer_from_row,
    state_from_row,
)

MAX_SEARCHED, MAX_DECODED = 100_000, 10_000
"""Maximum number of offers that one request searches in the database, and in Python."""
_SEARCHED_AT_ONCE = 1000
ANY_SIZE = 2**63
MAX_PAGE_BYTES = 1024 * 1024
"""Size of a page of events. The events of a campaign with 1,000 arms have up to 20 KB each."""
_EVENTS_AT_ONCE = 100


class Queries:
    """Thread-safe queries. Each call sees one snapshot of the database."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.drifts = DriftEstimates()
        self._spendings = SpendingCache()

    def campaigns(self) -> list[CampaignView]:
        """Return all campaigns, oldest first, without damaged ones."""
        with self.store.read() as session:
            states, _ = load_all_states(session)
        return [campaign_view(state) for state in states]

    def campaign(self, name: str) -> CampaignView:
        """Return a campaign, with the averages of its segments."""
        with self.store.read() as session:
            return view_with_segments(session, load_state(session, name))

    def arms(self, name: str) -> list[ArmView]:
        """Return the arms of a campaign, including retired ones."""
        with self.store.read() as session:
            return arm_views(load_campaign(session, name))

    def offer(self, name: str) -> OfferHistory:
        """Return an offer, its history, its explanation, and the calculation of its price."""
        with self.store.read() as session:
            campaign = load_campaign_of_offer(session, name)
            offer = load_offer(session, campaign, name)
            events = [_event(session, campaign, seq) for seq in offer.events]
            offered = log.decode(events[0][1])
        assert isinstance(offered, log.Offered)
        history = [_as_table(body, hash_) for _, body, hash_ in events]
        price = price_calculation(campaign, offer, offered)
        why = explain(offered, _shown(campaign.state, offered))
        return OfferHistory(offer_view(campaign, offer), why, price, history)

    def offers(
        self,
        name: str,
        before: int | None = None,
        limit: int = 100,
        state: str | None = None,
        reason: str | None = None,
        arm: str | None = None,
        player: tuple[bytes, bytes] | None = None,
        period: tuple[int | None, int | None] = (None, None),
        paid: bool | None = None,
    ) -> OfferPage:
        """Return offers of a campaign, newest first. `player` is the player's hash and lookup.

        Rows are read in the order of the primary key, whatever the filter: an index by player or
        reason would make every offer slower. A request searches at most `MAX_SEARCHED` of them,
        or `MAX_DECODED` if it filters by arm or payment, which the database cannot do. The next
        request continues from there. `period` is in microseconds since 1970; offers are in the
        order of their time, so it is a range of the primary key.
        """
        where = "campaign = ? AND n >= ? AND n < ?"
        params: list[Any] = []
        if state is not None:
            where, params = f"{where} AND state = ?", [STATES.index(state)]
        found: list[OfferRecord] = []
        with self.store.read() as session:
            campaign = load_campaign(session, name)
            if player is not None:
                salt = PlayerSalts(session).find(campaign.number, player[1])
                if salt is None:
                    return OfferPage([], None)
                where, params = f"{where} AND player = ?", [*params, salted(player[0], [salt])]
            if reason is not None:
                where = f"{where} AND {session.contains('body')}"
                params.append(encoded_text(reason))
            sql = f"{OFFER.select} WHERE {where} ORDER BY n DESC"
            if arm is not None and arm not in campaign.state.arms:
                raise not_found("arm", arm)
            first, end = _range_of(session, campaign, period)
            end = min(before or 2**62, end)
            decodes = arm is not None or paid is not None
            least = max(first, end - (MAX_DECODED if decodes else MAX_SEARCHED))
            while end > least and len(found) < limit:
                start = max(least, end - _SEARCHED_AT_ONCE)
                for row in session.rows(sql, (campaign.number, start, end, *params)):
                    offer = offer_from_row(campaign.number, row)
                    if arm is not None and campaign.state.arms[offer.arm] != arm:
                        continue
                    if paid not in (None, offer.amount > 0 and not offer.shadow):
                        continue
                    if reason is None or offer.reason == reason:
                        found.append(offer)
                        if len(found) == limit:
                            start = offer.n
                            break
                end = start
        views = [offer_view(campaign, offer) for offer in found]
        return OfferPage(views, end if end > first else None)

    def player(
        self, hashes: Callable[[str], tuple[bytes, bytes]], only: str | None = None
    ) -> PlayerView:
        """Return all offers to a player, by campaign.

        `hashes` returns the player's hash and lookup in a campaign. This reads all offers of the
        player's campaigns: an index would make every offer slower. Damaged campaigns are named;
        if `only` is damaged, this raises its error.
        """
        found: list[PlayerCampaign] = []
        damaged: list[str] = []
        with self.store.read() as session:
            salts = PlayerSalts(session)
            sql = "SELECT id, number, substr(state, 1, ?) FROM campaigns ORDER BY number"
            for name, number, start in session.rows(sql, (ID_WITHIN,)):
                if only not in (None, name):
                    continue
                try:
                    if not has_id(start, name):  # with another id, no salt would be found
                        detail = f"The row of campaign {name} is inconsistent. Restore a backup."
                        raise DamagedCampaign(detail)
                    view = _player_campaign(session, salts, name, number, *hashes(name))
                except Corrupt:
                    if only is not None:
                        raise
                    damaged.append(name)
                    continue
                if view is not None:
                    found.append(view)
        return PlayerView(found, damaged)

    def events(
        self, name: str, after: int = 0, limit: int = 100, size: int = ANY_SIZE
    ) -> list[EventView]:
        """Return the events of a campaign after sequence number `after`, in order.

        They end with the event that reaches `size`, in bytes.
        """
        with self.store.read() as session:
            rows = read_events(session, name, number_of(session, name), after, limit, size)
            state = _intact_state(session, name)
        return [_event_view(state, *row) for row in rows]

    def event_page(self, name: str, after: int, limit: int) -> EventPage:
        """Return a page of events, which ends early if it reaches `MAX_PAGE_BYTES`."""
        with self.store.read() as session:
            number = number_of(session, name)
            rows = read_events(session, name, number, after, limit, MAX_PAGE_BYTES)
            [[last]] = session.rows("SELECT seq FROM campaigns WHERE number = ?", (number,))
            state = _intact_state(session, name)
        events = [_event_view(state, *row) for row in rows]
        more = len(events) == limit or (events and events[-1].seq < last)
        return EventPage(events, events[-1].seq if more else None)

    def head(self, name: str) -> int:
        """Return the sequence number of a campaign's last event."""
        with self.store.read() as session:
            rows = session.rows("SELECT seq FROM campaigns WHERE id = ?", (name,))
        if not rows:
            raise not_found("campaign", name)
        return int(rows[0][0])

    def drift(self, name: str) -> DriftView:
        """Return the drift estimate from the campaign's probe."""
        with self.store.read() as session:
            return self.drifts.view(session, load_campaign(session, name))

    def effect(self, name: str) -> EffectView:
        """Return the effect of a campaign, from the totals of its groups."""
        with self.store.read() as session:
            state = load_state(session, name)
        return effect_view(state)

    def acceptance(self, name: str) -> AcceptanceView:
        """Return the acceptance curve of a campaign, from the counts in its row."""
        with self.store.read() as session:
            state = load_state(session, name)
        return acceptance_view(state)

    def spending(
        self,
        name: str,
        by: By = "date",
        points: int = 200,
        period: tuple[int | None, int | None] = (None, None),
    ) -> SpendingView:
        """Return the campaign's spending over time; `period` is in microseconds since 1970."""
        with self.store.read() as session:
            number, state = number_of(session, name), load_state(session, name)
            return self._spendings.view(session, number, state, by, points, period)

    def settings_history(
        self, name: str, names: Mapping[str, str] = MappingProxyType({})
    ) -> SettingsHistory:
        """Return the changes of the campaign's settings; `names` are the labels of keys by id."""
        with self.store.read() as session:
            number, state = number_of(session, name), load_state(session, name)
            return self._spendings.settings(session, number, state, names)

    def plan(self, name: str) -> CampaignPlanView:
        """Return the plan that the campaign was created from, which its first event records."""
        with self.store.read() as session:
            state, plan = load_state(session, name), load_plan(session, name)
        money = state.money
        return CampaignPlanView(name, money.code, money.digits, plan)


def _range_of(
    session: Session, campaign: Campaign, period: tuple[int | None, int | None]
) -> tuple[int, int]:
    """Return the numbers of the first offer of a period and of the first one after it."""
    since, until = period
    count = campaign.state.decisions

    def first_after(time: int) -> int:
        """Return the first offer that was made at this time or later."""
        return 1 + bisect.bisect_left(
            range(1, count + 1), time, key=lambda n: load_numbered(session, campaign, n).offered_at
        )

    return (
        1 if since is None else first_after(since),
        count + 1 if until is None else first_after(until + 1),
    )


def _player_campaign(
    session: Session, salts: PlayerSalts, name: str, number: int, hashed: bytes, lookup: bytes
) -> PlayerCampaign | None:
    """Return the offers of a campaign to a player; None if nothing is kept."""
    salt = salts.find(number, lookup)
    if salt is None:
        return None
    campaign, stored = load_campaign(session, name), salted(hashed, [salt])
    where = "WHERE campaign = ? AND player = ? ORDER BY n"
    rows = session.rows(f"{OFFER.select} {where}", (number, stored))
    views = [offer_view(campaign, offer_from_row(number, row)) for row in rows]
    if not views and not salt:
        return None
    return PlayerCampaign(name, campaign.spec.name, stored.hex(), bool(salt), views)


def number_of(session: Session, name: str) -> int:
    """Return the primary key of a campaign."""
    rows = session.rows("SELECT number FROM campaigns WHERE id = ?", (name,))
    if not rows:
        raise not_found("campaign", name)
    return int(rows[0][0])


def load_state(session: Session, name: str) -> CampaignState:
    """Load the state of a campaign, without preparing its policy for decisions."""
    rows = session.rows(f"{CAMPAIGN} WHERE id = ?", (name,))
    if not rows:
        raise not_found("campaign", name)
    return state_from_row(name, rows[0])


def load_plan(session: Session, name: str) -> CampaignPlan | None:
    """Load the plan of a campaign from its first event; None if it was created without one."""
    [(_, body, _)] = read_events(session, name, number_of(session, name), 0, 1)
    created = log.decode(body)
    if isinstance(created, log.Created) and created.plan is not None:
        return msgspec.convert(created.plan, CampaignPlan)
    return None


def view_with_segments(session: Session, state: CampaignState) -> CampaignView:
    """Return the view of a campaign, with the averages of its segments."""
    if state.segments is None:
        return campaign_view(state)
    return campaign_view(state, load_campaign(session, state.campaign).segment_views())


def load_campaign(session: Session, name: str) -> Campaign:
    """Load a campaign."""
    rows = session.rows(f"{CAMPAIGN} WHERE id = ?", (name,))
    if not rows:
        raise not_found("campaign", name)
    return campaign_from_row(name, rows[0])


def load_campaign_of_offer(session: Session, name: str) -> Campaign:
    """Load the campaign of an offer."""
    campaign = name.partition(".")[0]
    rows = session.rows(f"{CAMPAIGN} WHERE id = ?", (campaign,))
    if not rows:
        raise not_found("offer", name)
    return campaign_from_row(campaign, rows[0])


def load_offer(session: Session, campaign: Campaign, name: str) -> OfferRecord:
    """Load an offer."""
    return load_numbered(session, campaign, offer_number(name), name)


def load_numbered(
    session: Session, campaign: Campaign, n: int, name: str | None = None
) -> OfferRecord:
    """Load an offer by its number; `name` is the id to report if there is none."""
    rows = session.rows(f"{OFFER.select} WHERE campaign = ? AND n = ?", (campaign.number, n))
    if not rows:
        raise missing_offer_error(campaign.state, n, name or f"{campaign.state.campaign}.{n}")
    return offer_from_row(campaign.number, rows[0])


def read_events(
    session: Session, name: str, number: int, after: int, limit: int, size: int = ANY_SIZE
) -> list[tuple[int, bytes, bytes]]:
    """Read a page of events: seq, body, hash. It ends with the event that reaches `size` bytes."""
    page: list[tuple[int, bytes, bytes]] = []
    at_once = min(limit, _EVENTS_AT_ONCE)
    for row in itertools.islice(verified_events(session, name, number, after, at_once), limit):
        page.append(row)
        size -= len(row[1])
        if size <= 0:
            return page
    [[last]] = session.rows("SELECT seq FROM campaigns WHERE number = ?", (number,))
    reached = page[-1][0] if page else after
    if len(page) < limit and reached < last:
        raise Corrupt(f"Event {reached + 1} of campaign {name} is missing. Run `entice verify`.")
    return page


def _intact_state(session: Session, name: str) -> CampaignState | None:
    """Load the state of a campaign; None if its row is damaged: its log can still be read."""
    try:
        return load_state(session, name)
    except DamagedCampaign:
        return None


def _shown(state: CampaignState, offer: log.Offered) -> dict[str, float]:
    """Return what each arm displayed at an offer, without those that are retired now."""
    arms = zip(state.arms, state.retired, offer.shown, strict=False)  # later arms were added
    return {arm: shown for arm, retired, shown in arms if not retired}


def _event_view(state: CampaignState | None, seq: int, body: bytes, hash_: bytes) -> EventView:
    event, why = log.decode(body), None
    if isinstance(event, log.Offered):
        why = explain(event, {} if state is None else _shown(state, event))
    return EventView(seq, to_datetime(event.at), hash_.hex(), cast(Any, msgspec.Raw(body)), why)


def _event(session: Session, campaign: Campaign, seq: int) -> tuple[int, bytes, bytes]:
    """Read an event."""
    rows = read_events(session, campaign.state.campaign, campaign.number, seq - 1, 1)
    if not rows or rows[0][0] != seq:
        raise Corrupt(f"Event {seq} of campaign {campaign.state.campaign} is missing.")
    return rows[0]


def _as_table(body: bytes, hash_: bytes) -> dict[str, Any]:
    """Decode an event for the API, with its hash."""
    event: dict[str, Any] = msgspec.json.decode(body)
    return {**event, "at": to_datetime(event["at"]), "hash": hash_.hex()}
