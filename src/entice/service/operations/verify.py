"""Replays a campaign's log, and says where it is not what the rules make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import DecodeError

import entice
from entice.service.domain import events as log
from entice.service.domain.campaign import Campaign
from entice.service.domain.errors import Corrupt, Refusal
from entice.service.domain.events import Event
from entice.service.domain.offer import ACCEPTED, OFFERED, OfferRecord, read_offer
from entice.service.domain.rules import CampaignRules, CountedRating
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.api_keys import damaged_keys
from entice.service.storage.group_commit import response_digest
from entice.service.storage.store import Session, Store
from entice.service.storage.unit_of_work import (
    CAMPAIGN,
    PAGE,
    campaign_from_row,
    counted_ratings_in,
    iterate_events,
    offer_to_row,
)


class VerifyResult(NamedTuple):
    """What became of a campaign's check."""

    campaign: str
    events: int
    """How many were replayed without objection."""
    fault: str | None
    """What is wrong, and with which event; None if nothing is."""


def verify(
    store: Store, name: str | None = None, progress: Callable[[int], None] = lambda more: None
) -> Iterator[VerifyResult]:
    """Replay the logs of all campaigns, or of one, and compare with what the database holds.

    Every event is made again by the rules that made it first, from the state before it, and must
    come out byte for byte; the hash of each must follow from the one before; and what all events
    add up to must be what the tables hold, byte for byte. `progress` is told how many more events
    have been replayed.
    """
    with store.read() as session:
        where, params = ("WHERE id = ?", (name,)) if name is not None else ("", ())
        found = session.rows(f"SELECT id, number FROM campaigns {where} ORDER BY number", params)
        if name is not None and not found:
            yield VerifyResult(name, 0, f"There is no campaign {name!r}.")
        for campaign, number in found:
            yield _verify_campaign(session, campaign, number, progress)
        lost = session.rows(
            "SELECT DISTINCT campaign FROM events WHERE campaign NOT IN "
            "(SELECT number FROM campaigns)"
        )
        for (number,) in lost if name is None else []:
            yield VerifyResult(
                f"number {number}", 0, "Its events are there, but its row is missing."
            )


def rows_without_events(store: Store) -> Iterator[str]:
    """Look at what no log adds up to: keys, and answers kept under idempotency keys."""
    for key in damaged_keys(store):
        yield f"The row of key {key} is not what was written."
    with store.read() as session:
        rows = session.rows("SELECT scope, key, request, status, body, at, digest FROM answers")
        for *row, written in rows:
            if response_digest(*row) != written:
                yield f"The answer kept under idempotency key {row[1]!r} is not what was written."


def count_events(store: Store, name: str | None = None) -> int:
    """Count the events that `verify` will replay."""
    where, params = ("WHERE id = ?", (name,)) if name is not None else ("", ())
    with store.read() as session:
        rows = session.rows(f"SELECT coalesce(sum(seq), 0) FROM campaigns {where}", params)
    return int(rows[0][0])


def _verify_campaign(
    session: Session, name: str, number: int, progress: Callable[[int], None]
) -> VerifyResult:
    replay = LogReplay(session, name, number)
    try:
        for seq, body, written in iterate_events(session, number):
            replay.event(seq, body, written)
            if seq % PAGE == 0:
                progress(PAGE)
        replay.compare()
    except _Mismatch as fault:
        return VerifyResult(name, replay.events, str(fault))
    except Corrupt as corrupt:
        return VerifyResult(name, replay.events, f"The database is damaged: {corrupt}")
    progress(replay.events % PAGE)
    return VerifyResult(name, replay.events, None)


class _Mismatch(Exception):
    pass


class LogReplay:
    """A campaign made again, event by event."""

    def __init__(self, session: Session, name: str, number: int) -> None:
        self._session, self._name, self._number = session, name, number
        self._offers = _ReplayedOffers(session, number)
        self._rules: CampaignRules | None = None
        self._head = log.GENESIS
        self.events = 0
        """How many have been replayed."""

    @property
    def campaign(self) -> Campaign | None:
        """The campaign as it is by now."""
        return self._rules.campaign if self._rules is not None else None

    def event(self, seq: int, body: bytes, written: bytes) -> None:
        """Replay one event; complain if it is not the next one, or not what should be there."""
        due = self.events + 1
        if seq != due:
            raise _Mismatch(f"Event {due} is missing: the log goes on with event {seq}.")
        if log.chain_hash(self._head, body) != written:
            raise _Mismatch(f"Event {seq} is not what was written: its hash does not match.")
        try:
            event = log.decode(body)
        except DecodeError as error:
            raise _Mismatch(f"Event {seq} can't be read: {error}.") from error
        if (event.seq, event.campaign) != (seq, self._name):
            raise _Mismatch(f"Event {seq} says that it is event {event.seq} of {event.campaign}.")
        self._offers.expected.clear()
        try:
            self._reapply(event)
        except (Refusal, LookupError, ValueError, TypeError, AssertionError) as error:
            raise _Mismatch(f"Event {seq} ({_kind(event)}) was not possible: {error}.") from error
        made = self._offers.expected
        if not made or made[0] != body:
            raise _Mismatch(
                f"Event {seq} ({_kind(event)}) is not what Entice {entice.__version__} decides "
                f"there: {made[0].decode() if made else 'nothing'} instead of {body.decode()}."
            )
        self._offers.pending = made[1:]
        self.events, self._head = seq, written
        if not self._offers.pending:  # in between, the books are ahead of the log
            self._check_invariants(seq)

    def _reapply(self, event: Event) -> None:
        """Carry out what an event says, by the rules."""
        if self._offers.pending:
            # A rule that writes several events has made this one already.
            self._offers.expected = self._offers.pending
            return
        if isinstance(event, log.Created):
            if self._rules is not None:
                raise ValueError("the campaign was created already")
            spec = CampaignSpec.from_plain(event.spec)
            campaign = Campaign.create(self._name, spec, event.at, event.rules)
            self._offers.campaign = campaign
            self._rules = CampaignRules(campaign, self._offers)
            self._rules.create(event.at, event.entice, event.by)
            return
        if self._rules is None:
            raise ValueError("nothing comes before a campaign's creation")
        _apply_event(self._rules, self._offers, event)

    def _check_invariants(self, seq: int) -> None:
        assert self.campaign is not None
        state = self.campaign.state
        if min(state.reserved, state.committed, *state.in_flight, *state.pulls) < 0:
            raise _Mismatch(f"After event {seq} a count is negative.")
        if state.reserved + state.committed > state.budget:
            raise _Mismatch(f"After event {seq} more is spent and reserved than the budget.")

    def compare(self) -> None:
        """Compare what the events add up to with what the tables hold."""
        rows = self._session.rows(f"{CAMPAIGN} WHERE number = ?", (self._number,))
        kept = campaign_from_row(self._name, rows[0])
        if self.campaign is None:
            raise _Mismatch("The log is empty.")
        if self._offers.pending:
            raise _Mismatch(
                f"Event {self.events + 1} is missing: {self._offers.pending[0].decode()}."
            )
        if kept.state.seq < self.events:
            raise _Mismatch(
                f"Event {kept.state.seq + 1} was added to the log: the campaign has had "
                f"{kept.state.seq}."
            )
        if kept.state.seq > self.events:
            raise _Mismatch(
                f"Event {self.events + 1} is missing: the campaign has had {kept.state.seq}, "
                f"and its log ends with event {self.events}."
            )
        if kept.encode() != self.campaign.encode():
            raise _Mismatch("The campaign's row is not what its events add up to.")
        self._offers.compare()


class _ReplayedOffers:
    """Offers in memory: see `rules.OfferRepository`."""

    def __init__(self, session: Session, number: int) -> None:
        self._session, self._number = session, number
        self._rows: dict[int, bytes] = {}
        self._live: dict[bytes, int] = {}
        self._spent: dict[bytes, int] = {}
        self.campaign: Campaign | None = None
        self.expected: list[bytes] = []
        """What the rules have written for the event at hand …"""
        self.pending: list[bytes] = []
        """… and what must follow it at once."""

    def get(self, n: int) -> OfferRecord | None:
        row = self._rows.get(n)
        return None if row is None else read_offer(row)

    def put(self, offer: OfferRecord) -> None:
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

    def spent_on(self, player: bytes) -> int:
        return self._spent.get(player, 0)

    def open(self) -> list[OfferRecord]:
        return [read_offer(self._rows[n]) for n in sorted(self._live.values())]

    def in_flight_offers(self) -> list[OfferRecord]:
        offers = (read_offer(self._rows[n]) for n in sorted(self._rows))
        return [offer for offer in offers if offer.state in (OFFERED, ACCEPTED)]

    def due(self, now: int, most: int) -> list[OfferRecord]:
        raise AssertionError("a replay is told what has expired")

    def counted_ratings(self) -> Iterator[CountedRating]:
        assert self.campaign is not None
        until = self.campaign.state.seq
        rows = (row for row in iterate_events(self._session, self._number) if row[0] <= until)
        return counted_ratings_in(rows)

    def write(self, event: Event, body: bytes) -> None:
        self.expected.append(body)

    def compare(self) -> None:
        after, seen = 0, 0
        while True:
            rows = self._session.rows(
                "SELECT campaign, n, player, state, due, cost, body, digest FROM offers "
                "WHERE campaign = ? AND n > ? ORDER BY n LIMIT ?",
                (self._number, after, PAGE),
            )
            for row in rows:
                offer = self.get(row[1])
                if offer is None or offer_to_row(self._number, offer) != row:
                    raise _Mismatch(f"The row of offer {row[1]} is not what its events add up to.")
            seen += len(rows)
            if len(rows) < PAGE:
                break
            after = rows[-1][1]
        if seen != len(self._rows):
            raise _Mismatch(f"{len(self._rows) - seen} offers are missing from the table.")


def _apply_event(rules: CampaignRules, offers: _ReplayedOffers, event: Event) -> None:
    """Ask the rules for what an event says has happened."""
    at = event.at

    def offer(n: int) -> OfferRecord:
        found = offers.get(n)
        if found is None:
            raise ValueError(f"there is no offer {n}")
        return found

    match event:
        case log.Offered(player=player, eligible=eligible, displayed=displayed):
            rules.check_request(eligible, displayed)
            if offers.live(bytes.fromhex(player)) is not None:
                raise ValueError("the player has a live offer")
            rules.offer(at, bytes.fromhex(player), eligible, displayed)
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
        case log.OrganicRated(arm=arm, rating=rating):
            rules.organic(at, arm, rating)
        case log.Upgraded(rules=version):
            rules.upgrade(at, version)
        case log.Changed(changes=changes, by=by):
            rules.change(at, changes, by)
        case log.ArmsAdded(arms=arms, by=by):
            rules.add_arms(at, arms, by)
        case log.ArmRetired(arm=arm, retired=retired, by=by):
            rules.retire(at, arm, retired, by)
        case log.Created() | log.Voided():
            raise ValueError("it can't happen by itself")


def _kind(event: Event) -> str:
    return str(type(event).__struct_config__.tag)
