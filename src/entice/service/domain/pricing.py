"""The learned price of a campaign: its acceptance curve, and what the log records of a price."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from entice.model.learned_price import (
    NOT_LEARNED,
    SHARES_OF_SCALE,
    AcceptanceCurve,
    new_curve,
    price_offer,
    record_answer,
)
from entice.service.domain.offer import OfferRecord
from entice.service.domain.spec import CampaignSpec


class AcceptanceCounts(msgspec.Struct, array_like=True):
    """The answers by price, as the campaign's row stores them: whole numbers, lowest price first.

    Expired and withdrawn offers are not answers. A reversed sale still counts as accepted.
    """

    answers: list[int]
    """The number of offers that were accepted or declined."""
    accepted: list[int]


class PriceRecord(NamedTuple):
    """What the log records of a learned price."""

    learned: float | None = None
    """In stars. None while the gap is paid."""
    propensity: float | None = None
    """The probability of the payment, given the arm; None for the player's own choice."""
    explored: bool = False
    """Whether the price was drawn at random."""


def new_counts(spec: CampaignSpec) -> AcceptanceCounts | None:
    """Return the counts of a new campaign; None if it pays the gap."""
    zeros = [0] * len(SHARES_OF_SCALE)
    return AcceptanceCounts(zeros, zeros.copy()) if spec.price is not None else None


class Pricing:
    """Sets the payments of one campaign, and learns from the answers to them."""

    def __init__(self, spec: CampaignSpec, counts: AcceptanceCounts) -> None:
        assert spec.price is not None
        assert spec.seed is not None
        self._setting, self._seed, self._counts = spec.price, spec.seed, counts
        self._curve = curve_of(spec, counts)
        self._stream = np.zeros(4, np.uint64)

    def price(self, t: int, gap: float) -> tuple[float, PriceRecord]:
        """Return the payment of decision t for a displayed gap, both in stars."""
        wanted, explore = self._setting.acceptance, self._setting.explore
        payment, propensity, explored, learned = price_offer(
            self._curve, wanted, explore, gap, self._seed, t, self._stream
        )
        price = None if learned == NOT_LEARNED else float(self._curve.prices[learned])
        if gap <= 0:
            return 0.0, PriceRecord(price)
        return payment, PriceRecord(price, propensity, explored)

    def record_answer(self, offer: OfferRecord, accepted: bool) -> None:
        """Count an answer. Only an offer of another arm than the player's own choice has a price.

        In shadow mode nothing is paid, so an answer says nothing about the price.
        """
        if offer.arm == offer.greedy or offer.shadow:
            return
        position = record_answer(self._curve, offer.payment, accepted)
        self._counts.answers[position] += 1
        self._counts.accepted[position] += accepted


def curve_of(spec: CampaignSpec, counts: AcceptanceCounts) -> AcceptanceCurve:
    """Return the acceptance curve of stored counts."""
    curve = new_curve(spec.highest_rating - spec.lowest_rating)
    curve.answers[:], curve.accepted[:] = counts.answers, counts.accepted
    return curve
