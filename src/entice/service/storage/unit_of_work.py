"""The unit of work: the rows that one transaction reads and writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import DecodeError

from entice.service.domain import events as log
from entice.service.domain.campaign import Campaign
from entice.service.domain.campaign_state import CampaignState, decode_state
from entice.service.domain.errors import Corrupt, DamagedCampaign, Stale, not_found
from entice.service.domain.events import Event
from entice.service.domain.offer import OFFERED, CountedRating, OfferRecord, digest, read_offer
from entice.service.domain.pending_policies import check_compiled
from entice.service.storage.event_log import PAGE, verified_events
from entice.service.storage.player_salts import PLAYERS, PlayerSalts
from entice.service.storage.rating_history import RatingHistory
from entice.service.storage.store import ANSWERS, EVENTS, OFFERS, Columns, Session, Store

CAMPAIGN = "SELECT number, seq, head, budget, reserved, committed, state, digest FROM campaigns"
"""Selects the columns for `campaign_from_row` and `state_from_row`."""
OFFER = Columns(OFFERS, ("n", "player", "state", "due", "cost", "body", "digest"))
"""The columns for `offer_from_row`."""
_LIVE = OFFER._replace(use_index="live_offers")
_READ_AT_ONCE = 50
"""Number of events that are read without a pause; this takes about a millisecond."""


class Part(NamedTuple):
    """A part of the changes of a long command to one campaign, ready to be written."""

    before: tuple[int, bytes]
    """The seq and head of the campaign's row before this part."""
    salts: list[tuple[Any, ...]]
    events: list[tuple[int, int, bytes, bytes]]
    offers: list[tuple[Any, ...]]
    campaign: tuple[Any, ...]
    """The parameters of the campaign's UPDATE."""

    def write(self, session: Session) -> None:
        """Write this part; raise `Stale` if the campaign's row has changed since `before`."""
        session.insert(PLAYERS, self.salts)
        session.insert(EVENTS, self.events)
        _write_offers(session, self.offers)
        _update_campaign(session, self.campaign)


class UnitOfWork:
    """Loads campaigns and offers for one transaction, collects changes, and flushes them.

    Parameters
    ----------
    session
        The transaction.
    cached
        Campaigns as of the previous transaction. They are reused if their rows have not changed.
    lock
        Whether campaigns are locked when they are loaded. If not, `begin_write` locks them.
    short_only
        Whether commands that take long raise `TakesLong`.
    """

    def __init__(
        self,
        store: Store,
        session: Session,
        cached: dict[str, Campaign],
        *,
        lock: bool = True,
        short_only: bool = False,
    ) -> None:
        self.session = session
        self.short_only = short_only
        self.players = PlayerSalts(session)
        self.ratings: RatingHistory | None = None
        """The ratings of the campaign, if read from its log before."""
        self._for_update = store.for_update
        self._lock = lock
        self._cached = cached
        # Each campaign with the seq and head of its row when it was loaded.
        self._loaded: dict[str, tuple[Campaign, tuple[int, bytes]]] = {}
        self._offers: dict[str, CampaignOffers] = {}
        self._responses: list[tuple[str, str, bytes, int, bytes, int, bytes]] = []

    def campaign(self, name: str) -> Campaign:
        """Return a campaign, locked until the end of the transaction unless `lock` is False."""
        if name in self._loaded:
            return self._loaded[name][0]
        campaign = self._cached.get(name)
        for_update = self._for_update if self._lock else ""
        rows = self.session.rows(f"{CAMPAIGN} WHERE id = ?{for_update}", (name,))
        if not rows:
            raise not_found("campaign", name)
        seq, head = rows[0][1:3]
        if campaign is None or (campaign.state.seq, campaign.state.head) != (seq, head):
            campaign = campaign_from_row(name, rows[0])
            self._cached[name] = campaign
        self._loaded[name] = campaign, (seq, head)
        return campaign

    def use(self, session: Session) -> None:
        """Continue in another transaction."""
        self.session = self.players.session = session

    def begin_write(self, session: Session, before: tuple[int, bytes] | None = None) -> None:
        """Continue in a transaction that writes, after sessions that only read.

        Locks the campaigns, and raises `Stale` if one has changed since it was loaded. `before` is
        the expected seq and head if parts of the changes have been taken.
        """
        self.use(session)
        for name, (_, loaded) in self._loaded.items():
            sql = f"SELECT seq, head FROM campaigns WHERE id = ?{self._for_update}"
            if session.rows(sql, (name,)) != [before or loaded]:
                raise Stale

    def take_part(self, campaign: Campaign) -> Part:
        """Remove and return the changes of a campaign so far; `flush` writes the later ones.

        The offers in memory stay as they are.
        """
        name, offers = campaign.state.campaign, self.offers(campaign)
        before = self._loaded[name][1]
        events, changed = offers.take_rows()
        salts = self.players.take_rows(campaign.number, offers.take_new_players())
        part = Part(before, salts, events, changed, _update(campaign, before))
        self._loaded[name] = campaign, (campaign.state.seq, campaign.state.head)
        return part

    def insert_campaign(self, campaign: Campaign) -> None:
        """Insert the row of a new campaign."""
        state = campaign.state
        rows = self.session.rows(
            "INSERT INTO campaigns (id, seq, head, budget, reserved, committed, state, digest) "
            "VALUES (?, 0, ?, ?, 0, 0, ?, ?) RETURNING number",
            (state.campaign, state.head, state.budget, b"", b""),
        )
        campaign.number = rows[0][0]
        self._loaded[state.campaign] = campaign, (0, state.head)
        self._cached[state.campaign] = campaign

    def offers(self, campaign: Campaign) -> CampaignOffers:
        """Return the offers of a campaign, as this transaction sees them."""
        name = campaign.state.campaign
        if name not in self._offers:
            self._offers[name] = CampaignOffers(self, campaign)
        return self._offers[name]

    def load_ratings(self, campaign: Campaign) -> Iterator[None]:
        """Read a campaign's log up to the last event that is written, and pause now and then."""
        offers = self.offers(campaign)
        while offers.read_ratings(_READ_AT_ONCE) == _READ_AT_ONCE:
            yield

    def erase_player(self, campaign: Campaign, lookup: bytes) -> None:
        """Delete the salt of a player."""
        self.players.erase(campaign.number, lookup)

    def store_response(self, row: tuple[str, str, bytes, int, bytes, int, bytes]) -> None:
        """Store the response to an idempotency key."""
        self._responses.append(row)

    def flush(self) -> None:
        """Write all changes.

        The UPDATE requires that the row has not changed and that the budget is not exceeded, and
        raises `Stale` otherwise. A CHECK of the table also protects the budget.
        """
        self.players.flush()
        for offers in self._offers.values():
            offers.flush()
        if self._responses:
            self.session.insert(ANSWERS, self._responses)
        for campaign, before in self._loaded.values():
            if campaign.state.seq != before[0]:
                _update_campaign(self.session, _update(campaign, before))


class CampaignOffers:
    """The offers and the event log of one campaign inside a transaction."""

    def __init__(self, work: UnitOfWork, campaign: Campaign) -> None:
        self._work = work
        self._number = campaign.number
        self._campaign = campaign
        self._known: dict[int, OfferRecord] = {}
        self._costs: dict[int, int] = {}
        # The changes of each player's costs that are not written yet.
        self._spent: dict[bytes, int] = {}
        self._changed: dict[int, None] = {}
        self._live: dict[bytes, int | None] = {}
        # Players whose first offer is in this transaction, with their lookups, and players with
        # earlier offers.
        self._new: dict[bytes, bytes] = {}
        self._returning: set[bytes] = set()
        self._events: list[tuple[int, int, bytes, bytes]] = []

    @property
    def _session(self) -> Session:
        return self._work.session

    def get(self, n: int) -> OfferRecord | None:
        """Return an offer by its number."""
        if n in self._known:
            return self._known[n]
        rows = self._session.rows(f"{OFFER.select} WHERE campaign = ? AND n = ?", (self._number, n))
        return self._load(rows[0]) if rows else None

    def live(self, player: bytes) -> OfferRecord | None:
        """Return the open offer of a player."""
        if player not in self._live:
            self.prefetch_live([player])
        n = self._live[player]
        return None if n is None else self._known[n]

    def prefetch_live(self, players: Sequence[bytes]) -> None:
        """Load the open offers of several players with one query."""
        unknown = [player for player in players if player not in self._live]
        if not unknown:
            return
        where, params = "campaign = ? AND state = 0", (self._number,)
        for row in self._session.rows_where_in(_LIVE, where, params, "player", unknown):
            if row[0] not in self._known:  # otherwise its state may be newer than the row
                self._load(row)
        for player in unknown:
            self._live.setdefault(player, None)

    def add_player(self, player: bytes, lookup: bytes, is_new: bool) -> None:
        """Note whether a player is new and so has no offer, which saves queries."""
        if is_new:
            self._new[player] = lookup
            self._live.setdefault(player, None)
        elif player not in self._new:  # otherwise an earlier request of the same batch is the first
            self._returning.add(player)

    def is_new(self, player: bytes) -> bool:
        """Return whether a player has had no offer yet."""
        if player in self._returning or player in self._new:
            return player not in self._returning
        # Only for players without salts, whom the HTTP API does not have: this reads all offers.
        sql = "SELECT n FROM offers WHERE campaign = ? AND player = ? LIMIT 1"
        return not self._session.rows(sql, (self._number, player))

    def prefetch(self, numbers: Sequence[int]) -> None:
        """Load several offers with one query."""
        unknown = [n for n in numbers if n not in self._known]
        if not unknown:
            return
        where, params = "campaign = ?", (self._number,)
        for row in self._session.rows_where_in(OFFER, where, params, "n", unknown):
            self._load(row)

    def _load(self, row: tuple[object, ...]) -> OfferRecord:
        offer = offer_from_row(self._number, row)
        self._known[offer.n] = offer
        self._costs[offer.n] = offer.cost
        if offer.state == OFFERED:
            self._live[offer.player] = offer.n
        return offer

    def put(self, offer: OfferRecord) -> None:
        """Save an offer that was made or changed."""
        self._known[offer.n] = offer
        self._returning.add(offer.player)
        self._changed[offer.n] = None
        more = offer.cost - self._costs.get(offer.n, 0)
        self._costs[offer.n] = offer.cost
        self._spent[offer.player] = self._spent.get(offer.player, 0) + more
        if offer.state == OFFERED:
            self._live[offer.player] = offer.n
        elif self._live.get(offer.player) == offer.n:
            self._live[offer.player] = None

    def spent_on(self, player: bytes) -> int:
        """Return the total cost of a player's offers."""
        rows = self._session.rows(
            f"SELECT coalesce(sum(cost), 0) FROM offers{self._session.index_hint('paid_offers')} "
            "WHERE campaign = ? AND player = ? AND cost > 0",
            (self._number, player),
        )
        return int(rows[0][0]) + self._spent.get(player, 0)

    def open(self) -> list[OfferRecord]:
        """Return all open offers, oldest first."""
        return self._select("live_offers", "state = 0 ORDER BY n")

    def in_flight_offers(self) -> list[OfferRecord]:
        """Return all offers whose ratings may still arrive, oldest first."""
        return self._select("due_offers", "state <= 1 ORDER BY n")

    def due(self, now: int, limit: int) -> list[OfferRecord]:
        """Return offers whose deadline has passed."""
        where = "state <= 1 AND due <= ? ORDER BY due, n LIMIT ?"
        return self._select("due_offers", where, now, limit)

    def _select(self, index: str, where: str, *params: int) -> list[OfferRecord]:
        self.flush()
        sql = f"{OFFER.select}{self._session.index_hint(index)} WHERE campaign = ? AND {where}"
        rows = self._session.rows(sql, (self._number, *params))
        return [self._known.get(row[0]) or self._load(row) for row in rows]

    def counted_ratings(self) -> Iterator[CountedRating]:
        """Return all ratings that count, in the order in which they arrived."""
        while self.read_ratings(PAGE) == PAGE:
            pass
        history = self._work.ratings
        assert history is not None
        for _, _, body, _ in self._events:  # not written yet
            history.add(log.decode(body))
        return iter(history.counting.values())

    def read_ratings(self, limit: int) -> int:
        """Read up to `limit` more events into the history of ratings; return their number."""
        if self._work.ratings is None:
            self._work.ratings = RatingHistory()
        history, name = self._work.ratings, self._campaign.state.campaign
        events = verified_events(self._session, name, self._number, history.seq, limit)
        read = 0
        for _, body, _ in itertools.islice(events, limit):
            history.add(log.decode(body))
            read += 1
        return read

    def append_event(self, event: Event, body: bytes) -> None:
        """Append an event to the log."""
        self._events.append((self._number, event.seq, body, self._campaign.state.head))

    @property
    def changes(self) -> int:
        """The number of offers that were changed and not written or taken yet."""
        return len(self._changed)

    def take_rows(self) -> tuple[list[tuple[int, int, bytes, bytes]], list[tuple[Any, ...]]]:
        """Remove and return the rows of new events and of changed offers."""
        # Closed offers first: a player has at most one open offer, by a unique index.
        offers = sorted((self._known[n] for n in self._changed), key=lambda o: -o.state)
        events, self._events, self._changed = self._events, [], {}
        return events, [offer_to_row(self._number, offer) for offer in offers]

    def take_new_players(self) -> list[bytes]:
        """Remove the new players that have an offer now, and return their lookups."""
        return [self._new.pop(player) for player in list(self._new) if player in self._returning]

    def flush(self) -> None:
        """Write all changes to the tables, inside the transaction."""
        events, offers = self.take_rows()
        if events:
            self._session.insert(EVENTS, events)
        if offers:
            _write_offers(self._session, offers)
            self._spent = {}


def _write_offers(session: Session, rows: list[tuple[Any, ...]]) -> None:
    session.insert(
        OFFERS,
        rows,
        "ON CONFLICT (campaign, n) DO UPDATE SET state = excluded.state, "
        "due = excluded.due, cost = excluded.cost, body = excluded.body, "
        "digest = excluded.digest",
    )


def _update(campaign: Campaign, before: tuple[int, bytes]) -> tuple[Any, ...]:
    """Return the parameters of a campaign's UPDATE."""
    state, encoded = campaign.state, campaign.encode()
    return (
        state.seq, state.head, state.budget, state.reserved, state.committed,
        encoded, digest(encoded), campaign.number, *before,
        state.reserved + state.committed, state.budget,
    )  # fmt: skip


def _update_campaign(session: Session, params: tuple[Any, ...]) -> None:
    changed = session.run(
        "UPDATE campaigns SET seq = ?, head = ?, budget = ?, reserved = ?, committed = ?, "
        "state = ?, digest = ? WHERE number = ? AND seq = ? AND head = ? AND ? <= ?",
        params,
    )
    if changed != 1:
        raise Stale


def campaign_from_row(name: str, row: tuple[object, ...]) -> Campaign:
    """Load a campaign from its row."""
    number = row[0]
    assert isinstance(number, int)
    state = state_from_row(name, row)
    check_compiled(state.spec["policy"]["kind"])
    return Campaign(state, number)


def state_from_row(name: str, row: tuple[object, ...]) -> CampaignState:
    """Decode the state in a campaign's row; raise `DamagedCampaign` if the row was altered."""
    _, seq, head, budget, reserved, committed, encoded, checksum = row
    assert isinstance(encoded, bytes)
    if digest(encoded) != checksum:
        raise DamagedCampaign(f"The row of campaign {name} is damaged. Restore a backup.")
    try:
        state = decode_state(encoded)
    except DecodeError as error:
        raise DamagedCampaign(
            f"The row of campaign {name} can't be decoded ({error}). Restore a backup."
        ) from error
    columns = (state.campaign, state.seq, state.head, state.budget, state.reserved, state.committed)
    if columns != (name, seq, head, budget, reserved, committed):
        raise DamagedCampaign(f"The row of campaign {name} is inconsistent. Restore a backup.")
    return state


def load_all_states(session: Session) -> tuple[list[CampaignState], list[DamagedCampaign]]:
    """Return the states of all campaigns, oldest first, and the errors of damaged ones."""
    states: list[CampaignState] = []
    damaged: list[DamagedCampaign] = []
    for (name,) in session.rows("SELECT id FROM campaigns ORDER BY number"):
        try:
            row = session.rows(f"{CAMPAIGN} WHERE id = ?", (name,))[0]
            states.append(state_from_row(name, row))
        except DamagedCampaign as error:
            damaged.append(error)
    return states, damaged


def offer_to_row(
    number: int, offer: OfferRecord
) -> tuple[int, int, bytes, int, int, int, bytes, bytes]:
    """Return the row of an offer."""
    body = offer.row()
    return (
        number, offer.n, offer.player, offer.state, offer.due, offer.cost,
        body, digest(number.to_bytes(8), body),
    )  # fmt: skip


def offer_from_row(number: int, row: tuple[object, ...]) -> OfferRecord:
    """Decode an offer from its row; raise `Corrupt` if the row was altered."""
    n, player, state, due, cost, body, checksum = row
    assert isinstance(body, bytes)
    if digest(number.to_bytes(8), body) != checksum:
        raise Corrupt(f"The row of offer {n} of campaign {number} is damaged. Restore a backup.")
    try:
        offer = read_offer(body)
    except DecodeError as error:
        raise Corrupt(
            f"The row of offer {n} can't be decoded ({error}). Restore a backup."
        ) from error
    if (offer.n, offer.player, offer.state, offer.due, offer.cost) != (n, player, state, due, cost):
        raise Corrupt(f"The row of offer {n} of campaign {number} is inconsistent.")
    return offer
