"""Replay: a long log, replayed by the rules, equals the tables byte for byte."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import closing
from sqlite3 import Connection

from sizes import sized

import entice
from entice.service.domain.commands import (
    Accept,
    ChangeCampaign,
    Command,
    Decline,
    EnterRatings,
    MakeOffer,
    MakeOffers,
    Organic,
    Rate,
    Reverse,
)
from entice.service.domain.events import GENESIS, chain_hash
from entice.service.domain.spec import CampaignSpec
from entice.service.operations.verify import verify
from entice.service.storage.sqlite import SqliteStore, connect
from entice.service.storage.writer import Writer
from service_faults.audit import audit, faults
from service_faults.outcome import Outcome
from service_faults.writers import create, execute_all, running_writer, sqlite_store

SPEC = CampaignSpec(
    name="Replay",
    arms=[f"item-{i}" for i in range(9)],
    budget=50_000_000,
    price_of_a_star=200,
    margin=3,
    pace_over=400_000,
    probe=entice.Probe(share=0.1, amount=0.5),
    holdout=0.1,
    overlap=0.05,
    segments=["new", "regular", "lapsed"],
    price=entice.LearnedPrice(),
    seed=11,
)
BATCH = 1_000


def fill(writer: Writer, campaign: str, events: int, seed: int) -> int:
    """Fill a campaign's log with at least so many events, of all kinds; return the offers."""
    rng = random.Random(seed)
    made, n = 1, 0
    while made < events:
        players = [rng.randbytes(16) for _ in range(BATCH)]
        requests = [
            MakeOffer(campaign, player, lookup=player, segment=SPEC.segments[player[0] % 3])
            for player in players
        ]
        offers = range(n + 1, n + BATCH + 1)
        n += BATCH
        for _ in execute_all(writer, [MakeOffers(campaign, requests)]):
            made += BATCH
        feedback = list(_feedback(campaign, offers, rng))
        made += sum(1 for _ in execute_all(writer, feedback))
    return n


def _feedback(campaign: str, offers: range, rng: random.Random) -> Iterator[Command]:
    for n in offers:
        offer, luck = f"{campaign}.{n}", rng.random()
        if luck < 0.15:
            yield Decline(offer)
        elif luck < 0.95:
            yield Accept(offer)
            yield Rate(offer, rng.randint(1, 5))
            if luck < 0.20:
                yield Rate(offer, rng.randint(1, 5))
            if luck < 0.17:
                yield Reverse(offer)
        # The other offers stay open.
    arms = [rng.choice(SPEC.arms) for _ in range(20)]
    ratings = [Organic(arm, rng.randint(1, 5), rng.choice(SPEC.segments)) for arm in arms]
    yield EnterRatings(campaign, ratings)
    yield ChangeCampaign(campaign=campaign, cap_per_offer=rng.randint(300, 900))


def alter(connection: Connection, number: int, seq: int, rng: random.Random) -> None:
    """Flip one bit of an event."""
    (body,) = connection.execute(
        "SELECT body FROM events WHERE campaign = ? AND seq = ?", (number, seq)
    ).fetchone()
    place = rng.randrange(len(body))
    changed = bytearray(body)
    changed[place] ^= 1 << rng.randrange(8)
    connection.execute(
        "UPDATE events SET body = ? WHERE campaign = ? AND seq = ?", (bytes(changed), number, seq)
    )


def forge(connection: Connection, number: int, seq: int) -> None:
    """Change the amount paid, and recompute all later hashes."""
    rows = connection.execute(
        "SELECT seq, body FROM events WHERE campaign = ? ORDER BY seq", (number,)
    ).fetchall()
    head = GENESIS
    for at, body in rows:
        if at == seq:
            event = json.loads(body)
            event["paid"] += 1
            body = json.dumps(event, separators=(",", ":")).encode()
        head = chain_hash(head, body)
        connection.execute(
            "UPDATE events SET body = ?, hash = ? WHERE campaign = ? AND seq = ?",
            (body, head, number, at),
        )


def run(long: bool) -> Outcome:
    """Replay 1,000,000 events, or 5,000 in the short version; the control changes a byte."""
    events = 1_000_000 if long else sized(5_000, 20_000)
    with sqlite_store() as store:
        with running_writer(store) as writer:
            campaign = create(writer, SPEC)
            start = time.perf_counter()
            fill(writer, campaign, events, seed=1)
            made_in = time.perf_counter() - start
        start = time.perf_counter()
        (result,) = verify(store)
        checked_in = time.perf_counter() - start
        audited = audit(store, campaign)
        same = result.fault is None and result.events == audited.events >= events and audited.passed
        detected, tried = _control(store, min(events, 20_000), 8 if long else 4)
    forged = _forgery()
    return Outcome(
        "replay",
        f"{result.events:,} events, written at {result.events / made_in:,.0f} events/s",
        result.fault
        or f"byte-identical; {checked_in:.1f} s, {result.events / checked_in:,.0f} events/s",
        f"one byte changed: located in {detected} of {tried}; a forged payment with recomputed "
        f"hashes: {'located' if forged else 'NOT FOUND'}",
        same and detected == tried and forged,
    )


def _control(store: SqliteStore, events: int, tries: int) -> tuple[int, int]:
    """Change single bytes; return how often the right event was named, and the tries."""
    rng = random.Random(2)
    places = [rng.randrange(1, events) for _ in range(tries)]
    detected = 0
    for seq in places:
        with closing(connect(str(store.path))) as connection:
            before = connection.execute(
                "SELECT body FROM events WHERE campaign = 1 AND seq = ?", (seq,)
            ).fetchone()
            alter(connection, 1, seq, rng)
            detected += any(f": Event {seq} " in fault for fault in faults(store))
            connection.execute(
                "UPDATE events SET body = ? WHERE campaign = 1 AND seq = ?", (*before, seq)
            )
    return detected, len(places)


def _forgery() -> bool:
    with sqlite_store() as store:
        with running_writer(store) as writer:
            fill(writer, create(writer, SPEC), 3_000, seed=3)
        with closing(connect(str(store.path))) as connection:
            (seq,) = connection.execute(
                "SELECT seq FROM events WHERE campaign = 1 AND seq > 2000 "
                'AND instr(body, \'"kind":"accepted"\') > 0 LIMIT 1'
            ).fetchone()
            forge(connection, 1, seq)
        return any(f": Event {seq} " in fault for fault in faults(store))
