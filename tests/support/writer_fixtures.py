"""A service without HTTP for tests: a writer on a SQLite file, with a fake clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracles.service import SECOND

from entice.service.domain.clock import Clock
from entice.service.domain.commands import (
    Accept,
    Command,
    CommandResult,
    CreateCampaign,
    EnterRatings,
    MakeOffer,
    Organic,
    Rate,
)
from entice.service.domain.errors import Refusal
from entice.service.domain.spec import CampaignSpec
from entice.service.operations.verify import verify
from entice.service.storage.player_hasher import PlayerHasher
from entice.service.storage.queries import Queries
from entice.service.storage.store import Store, open_store
from entice.service.storage.writer import Writer


class FakeClock(Clock):
    """A clock that the test advances."""

    def __init__(self, at: int = 1_700_000_000 * SECOND) -> None:
        super().__init__()
        self.at = at

    def now(self) -> int:
        return self.at


class Service:
    """A writer on a SQLite file, or on the database at a URL, without HTTP."""

    def __init__(self, path: Path, url: str | None = None) -> None:
        self.path = path
        self.store: Store = open_store(url or f"sqlite:///{path}")
        self.clock = FakeClock()
        # Tests expire offers explicitly.
        players = PlayerHasher(bytes(32)) if url else None
        self.writer = Writer(self.store, self.clock, tick=1e6, players=players)
        self.writer.start()
        self.queries = Queries(self.store)

    def close(self) -> None:
        self.writer.stop()
        self.store.close()

    def answer(self, command: Command, **key: Any) -> CommandResult:
        return self.writer.submit(command, **key).result(timeout=60)

    def do(self, command: Command, **key: Any) -> Any:
        return json.loads(self.answer(command, **key).body)

    def refusal(self, command: Command, **key: Any) -> Refusal:
        with pytest.raises(Refusal) as raised:
            self.answer(command, **key)
        return raised.value

    def create(self, **changes: Any) -> str:
        plain = {
            "name": "Tea", "arms": ["a", "b", "c"], "budget": 100_000, "price_of_a_star": 200,
            "seed": 7, **changes,
        }  # fmt: skip
        return str(self.do(CreateCampaign(CampaignSpec(**plain)))["id"])

    def offer(self, campaign: str, player: int, **among: Any) -> Any:
        return self.do(MakeOffer(campaign, hashed(player), **among))

    def rate_organic(self, campaign: str, **ratings: list[int]) -> None:
        entered = [Organic(arm, rating) for arm in ratings for rating in ratings[arm]]
        self.do(EnterRatings(campaign, entered))

    def rated(self, campaign: str, player: int, rating: int, **among: Any) -> Any:
        """Make an offer, accept it, and rate it."""
        offer = self.offer(campaign, player, **among)
        self.do(Accept(offer["id"]))
        return self.do(Rate(offer["id"], rating))

    def arms(self, campaign: str) -> dict[str, tuple[int, float | None, int]]:
        """Return the number of ratings, the average, and the offers in flight of each arm."""
        return {a.id: (a.rated, a.average, a.in_flight) for a in self.queries.arms(campaign)}

    def money(self, campaign: str) -> tuple[int, int, int]:
        view = self.queries.campaign(campaign)
        return view.budget, view.reserved, view.committed

    def later(self, seconds: float) -> None:
        self.clock.at += round(seconds * SECOND)

    def faults(self, campaign: str) -> list[str | None]:
        return [result.fault for result in verify(self.store, campaign)]


def hashed(player: int) -> bytes:
    return player.to_bytes(16, "big")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "entice.db")
    yield service
    service.close()
