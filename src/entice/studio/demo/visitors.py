"""Simulated shoppers, who make a demonstration live: they come, think, buy, and rate or do not."""

from __future__ import annotations

import heapq
import random
from collections import deque
from contextlib import suppress

from entice.client import Campaign, Client, Offer, ServiceError

TEAS = {
    "assam": 3.4,
    "ceylon": 3.1,
    "darjeeling": 4.1,
    "oolong": 4.4,
    "rooibos": 2.7,
    "sencha": 3.8,
}
"""The true mean rating of each tea, unpaid. The service never sees it."""
GRATITUDE = 0.8
"""A payment worth one star raises a rating by so many stars: the drift."""
SHARE_WHO_TAKE = 0.85
"""Of those who are offered something else than their own choice."""
SHARE_WHO_RATE = 0.6
THINKING = 8
"""Shoppers who have not made up their minds."""
LATEST = 60
"""Ratings come before so many others have come in."""


class Shoppers:
    """The shoppers of all campaigns of a service, as random numbers have them."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client = client
        self._chance = random.Random(seed)
        self._came = 0
        self._thinking: deque[tuple[Campaign, Offer]] = deque()
        self._to_rate: list[tuple[int, str, int]] = []  # when (in shoppers), which offer, how

    def one_comes(self, campaigns: list[Campaign]) -> None:
        """Let one more come in, to any campaign that is not closed; then others go on.

        Whoever looks at the demonstration may pause, close or begin a campaign meanwhile.
        """
        still = [campaign for campaign in campaigns if campaign.status != "closed"]
        if still:
            self._came += 1
            campaign = self._chance.choice(still)
            with suppress(ServiceError):
                offer = self._client.offer(campaign.id, f"shopper {self._came}")
                self._thinking.append((campaign, offer))
        if len(self._thinking) > THINKING:
            with suppress(ServiceError):
                self._one_decides(*self._thinking.popleft())
        while self._to_rate and self._to_rate[0][0] <= self._came:
            _, offer_id, rating = heapq.heappop(self._to_rate)
            with suppress(ServiceError):
                self._client.rate(offer_id, rating)

    def _one_decides(self, campaign: Campaign, offer: Offer) -> None:
        """Take an offer or decline it; some who take it will rate it."""
        if offer.arm != offer.greedy_arm and self._chance.random() > SHARE_WHO_TAKE:
            self._client.decline(offer.id)
            return
        self._client.accept(offer.id)
        if self._chance.random() < SHARE_WHO_RATE:
            when = self._came + self._chance.randrange(1, LATEST)
            heapq.heappush(self._to_rate, (when, offer.id, self._rating(campaign, offer)))

    def _rating(self, campaign: Campaign, offer: Offer) -> int:
        """Draw a rating; whoever was paid sees the item in a better light."""
        low, high = campaign.spec["lowest_rating"], campaign.spec["highest_rating"]
        share = (quality(campaign.id, offer.arm) + GRATITUDE * offer.payment - 1) / 4
        steps = sum(self._chance.random() < share for _ in range(high - low))
        return int(low + steps)


def quality(campaign: str, arm: str) -> float:
    """The true mean of an item from 1 to 5 stars: a tea's own, any other's by its name."""
    return TEAS.get(arm) or random.Random(f"{campaign} {arm}").uniform(2.5, 4.7)
