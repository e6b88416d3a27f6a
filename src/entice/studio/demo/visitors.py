"""Simulated visitors: they receive offers, accept or decline them, and some rate the item later."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from entice.api_types import CampaignView, OfferView
from entice.client import Client, ServiceError

TEAS = {
    "assam": 3.4,
    "ceylon": 3.1,
    "darjeeling": 4.1,
    "oolong": 4.4,
    "rooibos": 2.7,
    "sencha": 3.8,
}
"""The true mean rating of each tea without payment. The service does not know it."""
DRIFT = 0.8
"""Stars by which a payment worth one star raises a rating."""
SHARE_WHO_ACCEPT = 0.85
"""Share of visitors who accept an item other than their own choice."""
SHARE_WHO_RATE = 0.6
"""Share of visitors who rate an accepted item."""
UNDECIDED = 8
"""Number of visitors who have an offer and have not answered yet."""
MAX_RATING_DELAY = 60
"""Number of further visitors within which a rating arrives."""


class VisitorSimulator:
    """Simulated visitors to the campaigns of a service, with a seed."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client = client
        self._random = random.Random(seed)
        self._visitors = 0
        self._undecided: deque[tuple[CampaignView, OfferView]] = deque()
        self._due: list[tuple[int, str, int]] = []
        """Scheduled ratings: the number of visitors when it is due, the offer's id, the rating."""

    def step(self, campaigns: Sequence[CampaignView]) -> None:
        """Send one more visitor to a campaign that is not closed; answer and rate earlier offers.

        Service errors are ignored, since the user of the demo may pause or close a campaign.
        """
        open_campaigns = [campaign for campaign in campaigns if campaign.status != "closed"]
        if open_campaigns:
            self._visitors += 1
            campaign = self._random.choice(open_campaigns)
            with suppress(ServiceError):
                offer = self.client.offer(campaign.id, f"visitor {self._visitors}")
                self._undecided.append((campaign, offer))
        if len(self._undecided) > UNDECIDED:
            with suppress(ServiceError):
                self._answer(*self._undecided.popleft())
        while self._due and self._due[0][0] <= self._visitors:
            _, offer_id, rating = heapq.heappop(self._due)
            with suppress(ServiceError):
                self.client.rate(offer_id, rating)

    def _answer(self, campaign: CampaignView, offer: OfferView) -> None:
        """Accept or decline an offer, and schedule a rating for some accepted ones."""
        if offer.arm != offer.greedy_arm and self._random.random() > SHARE_WHO_ACCEPT:
            self.client.decline(offer.id)
            return
        self.client.accept(offer.id)
        if self._random.random() < SHARE_WHO_RATE:
            when = self._visitors + self._random.randrange(1, MAX_RATING_DELAY)
            heapq.heappush(self._due, (when, offer.id, self._draw_rating(campaign, offer)))

    def _draw_rating(self, campaign: CampaignView, offer: OfferView) -> int:
        """Draw a rating; a payment raises its mean."""
        low, high = campaign.spec["lowest_rating"], campaign.spec["highest_rating"]
        share = (true_mean(campaign.id, offer.arm) + DRIFT * offer.payment - 1) / 4
        steps = sum(self._random.random() < share for _ in range(high - low))
        return int(low + steps)


def true_mean(campaign: str, arm: str) -> float:
    """Return the true mean of an item in stars: from `TEAS`, else derived from its name."""
    return TEAS.get(arm) or random.Random(f"{campaign} {arm}").uniform(2.5, 4.7)
