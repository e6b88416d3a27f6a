"""A campaign of the service without a database, for tests that need many visitors."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from writer_fixtures import hashed

from entice.service.domain.campaign import Campaign
from entice.service.domain.events import Event
from entice.service.domain.offer import OFFERED, CountedRating, OfferRecord
from entice.service.domain.rules import SECOND, CampaignRules
from entice.service.domain.spec import CampaignSpec
from entice.service.storage.rating_history import RatingHistory

MINUTE = 60 * SECOND


class OffersInMemory:
    """An `OfferRepository` in memory; it never expires an offer."""

    def __init__(self) -> None:
        self.offers: dict[int, OfferRecord] = {}
        self._ratings = RatingHistory()
        self._players: set[bytes] = set()

    def get(self, n: int) -> OfferRecord | None:
        return self.offers.get(n)

    def put(self, offer: OfferRecord) -> None:
        self.offers[offer.n] = offer
        self._players.add(offer.player)

    def live(self, player: bytes) -> OfferRecord | None:
        return next((o for o in self.open() if o.player == player), None)

    def is_new(self, player: bytes) -> bool:
        return player not in self._players

    def spent_on(self, player: bytes) -> int:
        return sum(o.cost for o in self.offers.values() if o.player == player)

    def open(self) -> list[OfferRecord]:
        return [o for o in self.offers.values() if o.state == OFFERED]

    def in_flight_offers(self) -> list[OfferRecord]:
        raise NotImplementedError

    def due(self, now: int, limit: int) -> list[OfferRecord]:
        raise NotImplementedError

    def counted_ratings(self) -> Iterator[CountedRating]:
        return iter(self._ratings.counting.values())

    def append_event(self, event: Event, body: bytes) -> None:
        self._ratings.add(event)


class World(NamedTuple):
    """The visitors of a simulated campaign. Ratings are on the campaign's scale."""

    means: tuple[float, ...]
    std: float
    drift: Callable[[float], float] = lambda payment: 0.0
    """By how much a payment in stars raises a rating."""
    delay: int = 0
    """The number of visitors who come between an offer and its rating."""
    share_lost: float = 0.0
    """The share of ratings that never arrive."""
    share_declined: float = 0.0
    """The share of paid offers that are declined. The visitor then takes their own choice."""


class Played(NamedTuple):
    """A campaign that was run, and its offers."""

    rules: CampaignRules
    offers: list[OfferRecord]

    @property
    def campaign(self) -> Campaign:
        return self.rules.campaign


def play(spec: CampaignSpec, world: World, visitors: int, **among: Callable[[int], Any]) -> Played:
    """Run a campaign, one visitor a minute.

    A visitor's noise, loss and refusal depend on the campaign's seed and the visitor's number only.
    `among` has functions that return a visitor's `eligible` and `displayed`.
    """
    campaign = Campaign.create("c_0", spec, 0)
    rules = CampaignRules(campaign, OffersInMemory())
    rules.create(0)
    pending: list[tuple[int, int | None, str, int]] = []
    made = []
    for visitor in range(visitors):
        at = visitor * MINUTE
        while pending and pending[0][0] <= visitor:
            _, n, arm, rating = heapq.heappop(pending)
            if n is None:
                rules.organic(at, arm, rating)
            else:
                offer = rules.offers.get(n)
                assert offer is not None
                rules.rate(at, offer, rating)
        request = {name: choose(visitor) for name, choose in among.items()}
        eligible, displayed = request.get("eligible"), request.get("displayed")
        offer = rules.offer(at, hashed(visitor), eligible, displayed)
        made.append(offer)
        noise = random.Random(f"{spec.seed} {visitor}")
        declined = noise.random() < world.share_declined and offer.amount > 0
        arm = offer.greedy if declined else offer.arm
        payment = 0.0 if declined else offer.payment
        rating = round(noise.gauss(world.means[arm], world.std)) + round(world.drift(payment))
        rating = min(spec.highest_rating, max(spec.lowest_rating, rating))
        if declined:
            rules.decline(at, offer)
        else:
            rules.accept(at, offer, None)
        if noise.random() >= world.share_lost:
            number = None if declined else offer.n
            heapq.heappush(pending, (visitor + 1 + world.delay, number, spec.arms[arm], rating))
    return Played(rules, made)


def regret(world: World, played: Played) -> float:
    """Return the stars that visitors lost because they did not take the best arm."""
    taken = [offer.arm if offer.paid is not None else offer.greedy for offer in played.offers]
    return sum(max(world.means) - world.means[arm] for arm in taken)
