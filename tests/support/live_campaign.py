"""A campaign of the real service that a plan's visitors come to, on a clock of their own."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from writer_fixtures import hashed

from entice.planner.visitors import DAY, SECOND
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.commands import (
    Accept,
    Command,
    CreateCampaign,
    Decline,
    EnterRatings,
    Expire,
    MakeOffer,
    Organic,
    Rate,
    execute,
)
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.store import Store
from entice.service.storage.unit_of_work import UnitOfWork

START = 1_700_000_000 * SECOND
"""When the campaign begins."""
TRANSACTION = 50
"""Visitors in one; the next one reads the campaign from the database again."""


class Response(NamedTuple):
    """What a visitor does."""

    accepted: bool
    taken: str
    """The arm."""
    rating: int
    """0: it never comes."""
    rated_at: int
    """After the beginning of the campaign, in microseconds."""


class LiveRun(NamedTuple):
    """What the service offered each visitor, and its books at the end."""

    campaign: str
    offers: list[dict[str, Any]]
    state: CampaignState


def play_live(
    store: Store,
    spec: CampaignSpec,
    visitors: int,
    visitors_a_day: int,
    respond: Callable[[int, dict[str, Any]], Response],
) -> LiveRun:
    """Let visitors come to a new campaign at even intervals, and rate when they said they would.

    `respond` is handed the number of a visitor, from 0 on, and the offer.
    """
    created = _do(store, [(START, CreateCampaign(spec))])[0]
    name: str = created["id"]
    offers: list[dict[str, Any]] = []
    coming: list[tuple[int, int, Command]] = []

    def enter_ratings(work: UnitOfWork, until: int) -> None:
        while coming and coming[0][0] <= until:
            rated_at, _, command = heapq.heappop(coming)
            execute(work, command, START + rated_at)

    for first in range(0, visitors, TRANSACTION):
        with store.write() as session:
            work = UnitOfWork(store, session, {})
            for visitor in range(first, min(first + TRANSACTION, visitors)):
                at = visitor * DAY // visitors_a_day
                enter_ratings(work, at)
                offer = json.loads(execute(work, MakeOffer(name, hashed(visitor)), START + at).body)
                response = respond(visitor, offer)
                answer = Accept if response.accepted else Decline
                execute(work, answer(offer["id"]), START + at)
                rating: Command = Rate(offer["id"], response.rating)
                if not response.accepted:
                    organic = Organic(response.taken, response.rating)
                    rating = EnterRatings(name, [organic])
                if response.rating:
                    heapq.heappush(coming, (response.rated_at, visitor, rating))
                offers.append(offer)
            enter_ratings(work, at)
            execute(work, Expire(name), START + at)  # as the service does every second
            work.flush()
    with store.write() as session:
        state = UnitOfWork(store, session, {}).campaign(name).state
    return LiveRun(name, offers, state)


def _do(store: Store, commands: list[tuple[int, Command]]) -> list[Any]:
    with store.write() as session:
        work = UnitOfWork(store, session, {})
        answers = [json.loads(execute(work, command, at).body) for at, command in commands]
        work.flush()
    return answers
