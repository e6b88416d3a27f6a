"""Campaigns with every kind of event, and ways to forge their logs and rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from writer_fixtures import Service

import entice
from entice.service.domain.campaign_state import decode_state, encode_state
from entice.service.domain.commands import (
    Accept,
    AddArms,
    ChangeCampaign,
    Decline,
    Expire,
    Rate,
    RetireArm,
    Reverse,
)
from entice.service.domain.offer import digest
from entice.service.operations.verify import verify

KINDS = {
    "created", "changed", "arms_added", "arm_retired", "offered", "accepted", "declined", "expired",
    "voided", "rated", "revised", "unrated", "reversed", "organic",
}  # fmt: skip


def campaign_with_all_events(service: Service, policy: Any = None, **settings: Any) -> str:
    """Create a campaign with every kind of event."""
    campaign = service.create(
        offer_expires_after=60, rating_window=600, policy=policy or entice.UCB(), unrated_shows=1,
        cap_per_player=10_000, **settings,
    )  # fmt: skip
    service.rate_organic(campaign, a=[5, 4], b=[4])
    sold = service.rated(campaign, 1, 3)["id"]
    service.do(Rate(sold, 4))
    service.do(Decline(service.offer(campaign, 2)["id"]))
    service.do(AddArms(campaign, ["d"]))
    offer = service.offer(campaign, 3)
    bought = offer["id"]
    service.do(Accept(bought, offer["amount"] // 2))
    service.do(ChangeCampaign(campaign=campaign, budget=90_000, name="Coffee"))
    service.do(Reverse(service.rated(campaign, 4, 5)["id"]))
    service.offer(campaign, 5)
    service.later(700)
    service.do(Expire(campaign))
    service.do(RetireArm(campaign, "c", True))
    for player in range(6, 10):
        service.offer(campaign, player)
    service.do(Rate(bought, 2))
    service.do(ChangeCampaign(campaign=campaign, status="closed"))
    assert {kind for _, kind in log_of(service, campaign)} == KINDS
    return campaign


def log_of(service: Service, campaign: str) -> list[tuple[int, str]]:
    events = service.queries.events(campaign, limit=1000)
    return [(event.seq, json.loads(bytes(event.body))["kind"]) for event in events]


@contextmanager
def tampering(service: Service) -> Iterator[sqlite3.Connection]:
    """Open the database file directly."""
    with closing(sqlite3.connect(service.path, isolation_level=None)) as connection:
        yield connection


def forge_state(connection: sqlite3.Connection, change: Callable[[Any], None]) -> None:
    """Change a campaign's row consistently, including its checksum."""
    (encoded,) = connection.execute("SELECT state FROM campaigns").fetchone()
    state = decode_state(encoded)
    change(state)
    encoded = encode_state(state)
    connection.execute(
        "UPDATE campaigns SET seq = ?, head = ?, budget = ?, reserved = ?, committed = ?, "
        "state = ?, digest = ?",
        (
            state.seq, state.head, state.budget, state.reserved, state.committed, encoded,
            digest(encoded),
        ),
    )  # fmt: skip


def fault_of(service: Service, campaign: str) -> str:
    (result,) = verify(service.store, campaign)
    assert result.campaign == campaign
    assert result.fault is not None
    return result.fault
