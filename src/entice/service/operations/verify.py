"""Verification: replays a campaign's log and reports the first event that does not match."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import DecodeError

import entice
from entice.model.campaign_step import EXPECTED_RATINGS
from entice.policies import UCB, AlternatingThompson, ThompsonSampling
from entice.service.domain import events as log
from entice.service.domain.campaign import Campaign
from entice.service.domain.errors import Corrupt, Refusal
from entice.service.domain.events import Event
from entice.service.domain.offer import ACCEPTED, OFFERED, CountedRating, OfferRecord, read_offer
from entice.service.domain.rules import MAX_EVENTS_TO_RELEARN, CampaignRules
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.player_salts import damaged_salts
from entice.service.storage.rating_history import RatingHistory
from entice.service.storage.row_checksums import KEY, current_checksums, stored_responses
from entice.service.storage.store import Row, Session, Store
from entice.service.storage.unit_of_work import (
    CAMPAIGN,
    campaign_from_row,
    offer_to_row,
)
from entice.service.storage.webhooks import damaged_webhooks

PAGE = 2000
"""Events or offers that one transaction reads."""


class VerifyResult(NamedTuple):
    """The result of verifying a campaign."""

    campaign: str
    events: int
    """The number of events replayed without a mismatch."""
    fault: str | None
    """The first mismatch, with the number of its event; None if there is none."""


def verify(
    store: Store, name: str | None = None, progress: Callable[[int], None] = lambda more: None
) -> Iterator[VerifyResult]:
    """Replay the logs of all campaigns, or of one, and compare the results with the tables.

    The rules must reproduce every event byte for byte from the state before it; each hash must
    follow from the previous one; and the final state must equal the tables byte for byte.
    `progress` is called with the number of events replayed since the last call.

    The database may be in use. It is read in many short transactions: one long transaction would
    keep SQLite from emptying its write-ahead log, which grew by 6 MB/s under load. Each page of
    offers is compared in a transaction that sees no event which is not replayed yet. Offers that
    change later are compared again in the last one, together with the campaign's row.
    """
    where, params = ("WHERE id = ?", (name,)) if name is not None else ("", ())
    with store.read() as session:
        campaigns = session.rows(
            f"SELECT id, number FROM campaigns {where} ORDER BY number", params
        )
        lost = session.rows(
            "SELECT DISTINCT campaign FROM events WHERE campaign NOT IN "
            "(SELECT number FROM campaigns)"
        )
    if name is not None and not campaigns:
        yield VerifyResult(name, 0, f"There is no campaign {name!r}.")
    for campaign, number in campaigns:
        yield _verify_campaign(store, campaign, number, progress)
    for (number,) in lost if name is None else []:
        yield VerifyResult(
            f"number {number}", 0, "The campaign has events, but its row is missing."
        )


def rows_without_events(store: Store, players: PlayerHasher | None) -> Iterator[str]:
    """Report altered rows that the event logs do not cover: keys, salts, webhooks, responses.

    `players` has the secret of the checksums of keys and responses. Without it, they are not
    checked; see `can_check_rows`.
    """
    for player in damaged_salts(store):
        yield f"The salt of player {player} was altered."
    for webhook in damaged_webhooks(store):
        yield f"The row of webhook {webhook} was altered."
    with store.read() as session:
        checksums = current_checksums(session, players.rows if players is not None else None)
        if checksums is None:
            return
        for *row, checksum in session.rows(f"SELECT {KEY}, digest FROM keys"):
            if checksums.of_key(tuple(row)) != checksum:
                yield f"The row of key {row[0]} was altered."
    for response, checksum in stored_responses(store):
        if checksums.of_response(response) != checksum:
            yield f"The response stored under idempotency key {response[1]!r} was altered."


def can_check_rows(store: Store, players: PlayerHasher | None) -> bool:
    """Return whether `rows_without_events` has what it needs."""
    with store.read() as session:
        return current_checksums(session, players.rows if players is not None else None) is not None


def count_events(store: Store, name: str | None = None) -> int:
    """Return the number of events that `verify` will replay."""
    where, params = ("WHERE id = ?", (name,)) if name is not None else ("", ())
    with store.read() as session:
        rows = session.rows(f"SELECT coalesce(sum(seq), 0) FROM campaigns {where}", params)
    return int(rows[0][0])


def _verify_campaign(
    store: Store, name: str, number: int, progress: Callable[[int], None]
) -> VerifyResult:
    replay = LogReplay(name, number)
    try:
        while True:
            before = replay.events
            with store.read() as session:
                rows = replay.next_rows(session)
                at_end = len(rows) < PAGE
                done = at_end and replay.compare(session, rows)
            if not at_end:
                replay.events_of(rows)  # outside the transaction, since this takes longest
            progress(replay.events - before)
            if done:
                return VerifyResult(name, replay.events, None)
    except _Mismatch as fault:
        return VerifyResult(name, replay.events, str(fault))
    except Corrupt as corrupt:
        return VerifyResult(name, replay.events, f"The database is damaged: {corrupt}")


class _Mismatch(Exception):
    """The log or a table differs from the replay."""


class LogReplay:
    """A replay of a campaign's log."""

    def __init__(self, name: str, number: int) -> None:
        self._name, self._number = name, number
        self._offers = _ReplayedOffers(number)
        self._rules: CampaignRules | None = None
        self._head = log.GENESIS
        self.events = 0
        """The number of events replayed."""

    @property
    def campaign(self) -> Campaign | None:
        """The campaign as of the last event replayed."""
        return self._rules.campaign if self._rules is not None else None

    def next_rows(self, session: Session) -> list[Row]:
        """Read up to `PAGE` further events."""
        return session.rows(
            "SELECT seq, body, hash FROM events WHERE campaign = ? AND seq > ? "
            "ORDER BY seq LIMIT ?",
            (self._number, self.events, PAGE),
        )

    def events_of(self, rows: list[Row]) -> None:
        """Replay events that `next_rows` has read."""
        for row in rows:
            self.event(*row)

    def event(self, seq: int, body: bytes, written: bytes) -> None:
        """Replay one event; raise `_Mismatch` if it is not the event that the rules produce."""
        due = self.events + 1
        if seq != due:
            raise _Mismatch(f"Event {due} is missing: the log continues with event {seq}.")
        if log.chain_hash(self._head, body) != written:
            raise _Mismatch(f"Event {seq} was altered: its hash does not match.")
        try:
            event = log.decode(body)
        except DecodeError as error:
            raise _Mismatch(f"Event {seq} can't be decoded: {error}.") from error
        if (event.seq, event.campaign) != (seq, self._name):
            raise _Mismatch(f"Event {seq} claims to be event {event.seq} of {event.campaign}.")
        self._offers.produced.clear()
        try:
            self._reapply(event)
        except (Refusal, LookupError, ValueError, TypeError, AssertionError) as error:
            raise _Mismatch(f"Event {seq} ({_kind(event)}) was not allowed: {error}.") from error
        expected = self._offers.produced
        if not expected or expected[0] != body:
            raise _Mismatch(
                f"Event {seq} ({_kind(event)}) differs from the replay by Entice "
                f"{entice.__version__}: expected {_text(expected)}, found {body.decode()}."
            )
        self._offers.pending = expected[1:]
        self.events, self._head = seq, written
        if not self._offers.pending:  # otherwise the state is ahead of the log
            self._check_invariants(seq)

    def _reapply(self, event: Event) -> None:
        """Apply the rule that produces an event."""
        if self._offers.pending:
            # A rule that produces several events has already produced this one.
            self._offers.produced = self._offers.pending
            return
        if isinstance(event, log.Created):
            if self._rules is not None:
                raise ValueError("the campaign was already created")
            spec = CampaignSpec.from_plain(event.spec)
            campaign = Campaign.create(self._name, spec, event.at, event.rules)
            self._rules = CampaignRules(campaign, self._offers)
            self._rules.create(event.at, event.entice, event.by, event.plan)
            return
        if self._rules is None:
            raise ValueError("the first event must be the campaign's creation")
        _apply_event(self._rules, self._offers, event)

    def _check_invariants(self, seq: int) -> None:
        assert self.campaign is not None
        state = self.campaign.state
        if min(state.reserved, state.committed, *state.in_flight, *state.pulls) < 0:
            raise _Mismatch(f"After event {seq} a count is negative.")
        if state.segments is not None and list(map(sum, state.segments.pulls)) != state.pulls:
            raise _Mismatch(f"After event {seq} the ratings of segments do not add up.")
        if state.reserved + state.committed > state.budget:
            raise _Mismatch(f"After event {seq} committed plus reserved money exceeds the budget.")

    def compare(self, session: Session, last: list[Row]) -> bool:
        """Replay the last events, and compare the state with the campaign's row and some offers.

        Return whether these were the last offers.
        """
        self.events_of(last)
        rows = session.rows(f"{CAMPAIGN} WHERE number = ?", (self._number,))
        stored = campaign_from_row(self._name, rows[0])
        if self.campaign is None:
            raise _Mismatch("The log is empty.")
        if self._offers.pending:
            raise _Mismatch(
                f"Event {self.events + 1} is missing: {self._offers.pending[0].decode()}."
            )
        if stored.state.seq < self.events:
            raise _Mismatch(
                f"Event {stored.state.seq + 1} was added to the log: the campaign has "
                f"{stored.state.seq} events."
            )
        if stored.state.seq > self.events:
            raise _Mismatch(
                f"Event {self.events + 1} is missing: the campaign has {stored.state.seq} events, "
                f"and its log ends with event {self.events}."
            )
        if stored.state.rules < EXPECTED_RATINGS and isinstance(
            stored.spec.policy, UCB | ThompsonSampling | AlternatingThompson
        ):
            # Their memory holds intermediate results only, and its form has changed since then.
            stored.memory = self.campaign.memory
        for group, counts in stored.state.groups.items():
            if counts.declined is None:  # stored by a version that did not count decliners
                self.campaign.state.groups[group].declined = None
        if stored.encode() != self.campaign.encode():
            raise _Mismatch("The campaign's row differs from the replay of its events.")
        return self._offers.compare(session)


class _ReplayedOffers:
    """An `OfferRepository` in memory, for one replay."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._compared = 0
        """The number of the last offer compared."""
        self._seen = 0
        """The number of rows compared."""
        self._changed: set[int] = set()
        """Offers that were changed after they were compared."""
        self._rows: dict[int, bytes] = {}
        self._live: dict[bytes, int] = {}
        self._spent: dict[bytes, int] = {}
        self._players: set[bytes] = set()
        self._ratings = RatingHistory()
        self.produced: list[bytes] = []
        """Events that the rules produced when the current event was replayed, itself included."""
        self.pending: list[bytes] = []
        """Those of them that are not replayed yet. They must be the next events of the log."""

    def get(self, n: int) -> OfferRecord | None:
        row = self._rows.get(n)
        return None if row is None else read_offer(row)

    def put(self, offer: OfferRecord) -> None:
        if offer.n <= self._compared:
            self._changed.add(offer.n)
        before = self.get(offer.n)
        spent = self._spent.get(offer.player, 0) + offer.cost - (before.cost if before else 0)
        self._spent[offer.player] = spent
        if not spent:
            del self._spent[offer.player]
        self._rows[offer.n] = offer.row()
        if offer.state == OFFERED:
            self._live[offer.player] = offer.n
        elif self._live.get(offer.player) == offer.n:
            del self._live[offer.player]

    def live(self, player: bytes) -> OfferRecord | None:
        n = self._live.get(player)
        return None if n is None else self.get(n)

    def is_new(self, player: bytes) -> bool:
        is_new = player not in self._players
        self._players.add(player)
        return is_new

    def spent_on(self, player: bytes) -> int:
        return self._spent.get(player, 0)

    def open(self) -> list[OfferRecord]:
        return [read_offer(self._rows[n]) for n in sorted(self._live.values())]

    def in_flight_offers(self) -> list[OfferRecord]:
        offers = (read_offer(self._rows[n]) for n in sorted(self._rows))
        return [offer for offer in offers if offer.state in (OFFERED, ACCEPTED)]

    def due(self, now: int, limit: int) -> list[OfferRecord]:
        raise AssertionError("a replay reads from the log which offers expired")

    def counted_ratings(self) -> Iterator[CountedRating]:
        return iter(self._ratings.counting.values())

    def append_event(self, event: Event, body: bytes) -> None:
        self.produced.append(body)
        if event.seq <= MAX_EVENTS_TO_RELEARN:
            self._ratings.add(event)

    def compare(self, session: Session) -> bool:
        where, params = "n > ? ORDER BY n LIMIT ?", (self._number, self._compared, PAGE)
        rows = session.rows(f"{_OFFERS} AND {where}", params)
        for row in rows:
            self._compare(row)
        self._seen += len(rows)
        self._compared = rows[-1][1] if rows else self._compared
        if len(rows) == PAGE:
            return False
        for n in sorted(self._changed):
            for row in session.rows(f"{_OFFERS} AND n = ?", (self._number, n)):
                self._compare(row)
        if self._seen != len(self._rows):
            missing = len(self._rows) - self._seen
            raise _Mismatch(f"{missing} offers are missing from the table.")
        return True

    def _compare(self, row: tuple[Any, ...]) -> None:
        offer = self.get(row[1])
        if offer is None or offer_to_row(self._number, offer) != row:
            raise _Mismatch(f"The row of offer {row[1]} differs from the replay of its events.")


_OFFERS = (
    "SELECT campaign, n, player, state, due, cost, body, digest FROM offers WHERE campaign = ?"
)


def _apply_event(rules: CampaignRules, offers: _ReplayedOffers, event: Event) -> None:
    """Apply the rule that corresponds to an event."""
    at = event.at

    def offer(n: int) -> OfferRecord:
        found = offers.get(n)
        if found is None:
            raise ValueError(f"there is no offer {n}")
        return found

    match event:
        case log.Offered(player=player, eligible=eligible, displayed=displayed, segment=segment):
            rules.check_request(eligible, displayed, segment)
            if offers.live(bytes.fromhex(player)) is not None:
                raise ValueError("the player has a live offer")
            rules.offer(at, bytes.fromhex(player), eligible, displayed, segment)
        case log.Accepted(n=n, paid=paid):
            rules.accept(at, offer(n), paid)
        case log.Declined(n=n):
            rules.decline(at, offer(n))
        case log.Expired(n=n) | log.Unrated(n=n):
            rules.expire(at, offer(n))
        case log.Rated(n=n, rating=rating) | log.Revised(n=n, rating=rating):
            rules.rate(at, offer(n), rating)
        case log.Reversed(n=n):
            rules.reverse(at, offer(n))
        case log.OrganicRated(arm=arm, rating=rating, segment=segment):
            rules.organic(at, arm, rating, segment)
        case log.Upgraded(rules=version):
            rules.upgrade(at, version)
        case log.Changed(changes=changes, by=by):
            rules.change(at, changes, by)
        case log.ArmsAdded(arms=arms, by=by):
            rules.add_arms(at, arms, by)
        case log.ArmRetired(arm=arm, retired=retired, by=by):
            rules.retire(at, arm, retired, by)
        case log.PlayerErased(player=player, by=by):
            rules.erase_player(at, bytes.fromhex(player), by)
        case log.Created() | log.Voided():
            raise ValueError("it can only follow from another event")


def _text(produced: list[bytes]) -> str:
    return produced[0].decode() if produced else "no event"


def _kind(event: Event) -> str:
    return str(type(event).__struct_config__.tag)
