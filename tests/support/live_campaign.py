"""A campaign of the real service with a plan's simulated visitors, on a simulated clock."""

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
"""The time at which the campaign starts."""
TRANSACTION = 50
"""Visitors per transaction. The next one reloads the campaign from the database."""


class Response(NamedTuple):
    """The response of a visitor to an offer."""

    accepted: bool
    taken: str
    """The arm that the visitor took."""
    rating: int
    """0: no rating."""
    rated_at: int
    """Microseconds since the start of the campaign."""


class LiveRun(NamedTuple):
    """The offers to all visitors, and the final state of the campaign."""

    campaign: str
    offers: list[dict[str, Any]]
    state: CampaignState


def play_live(
    store: Store,
    spec: CampaignSpec,
    visitors: int,
    visitors_a_day: int,
    respond: Callable[[int, dict[str, Any]], Response],
    player: Callable[[int], bytes] = hashed,
    segment: Callable[[int], str | None] = lambda visitor: None,
) -> LiveRun:
    """Run a new campaign with visitors at even intervals; they rate at `Response.rated_at`.

    `respond` is called with the number of a visitor, from 0, and the offer; `player` returns the
    hash of a visitor, and `segment` the segment.
    """
    created = _execute_all(store, [(START, CreateCampaign(spec))])[0]
    name: str = created["id"]
    offers: list[dict[str, Any]] = []
    pending: list[tuple[int, int, Command]] = []

    def enter_ratings(work: UnitOfWork, until: int) -> None:
        while pending and pending[0][0] <= until:
            rated_at, _, command = heapq.heappop(pending)
            execute(work, command, START + rated_at)

    for first in range(0, visitors, TRANSACTION):
        with store.write() as session:
            work = UnitOfWork(store, session, {})
            for visitor in range(first, min(first + TRANSACTION, visitors)):
                at = visitor * DAY // visitors_a_day
                enter_ratings(work, at)
                request = MakeOffer(name, player(visitor), segment=segment(visitor))
                offer = json.loads(execute(work, request, START + at).body)
                response = respond(visitor, offer)
                answer = Accept if response.accepted else Decline
                execute(work, answer(offer["id"]), START + at)
                rating: Command = Rate(offer["id"], response.rating)
                if not response.accepted:
                    organic = Organic(response.taken, response.rating, segment(visitor))
                    rating = EnterRatings(name, [organic])
                if response.rating:
                    heapq.heappush(pending, (response.rated_at, visitor, rating))
                offers.append(offer)
            enter_ratings(work, at)
            execute(work, Expire(name), START + at)  # as maintenance does every second
            work.flush()
    with store.write() as session:
        state = UnitOfWork(store, session, {}).campaign(name).state
    return LiveRun(name, offers, state)


def _execute_all(store: Store, commands: list[tuple[int, Command]]) -> list[Any]:
    with store.write() as session:
        work = UnitOfWork(store, session, {})
        results = [json.loads(execute(work, command, at).body) for at, command in commands]
        work.flush()
    return results
