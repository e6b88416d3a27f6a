"""The visitors of one world: whether each takes an offer, and when and how they rate, if at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.rng import PLAYER, Stream, seed_stream, uniform

Floats = npt.NDArray[np.float64]

SECOND = 1_000_000
"""Microseconds, the unit of all times."""
DAY = 24 * 3600 * SECOND
_LATEST = 100_000.0
"""Days after which a rating does not matter any more: times stay far below what integers hold."""


class VisitorModel(NamedTuple):
    """How the visitors of a world behave, as numbers."""

    seed: int
    cumulative: Floats
    """For each item, the share of unpaid ratings of at most 1, 2, … stars."""
    slope: float
    """By how many stars a payment worth one star raises a rating."""
    share_who_rate: float
    price_of_a_star: int
    """In minor units: money divided by it is a payment in stars."""


class VisitorResponse(NamedTuple):
    """What a visitor does with an offer."""

    accepted: bool
    item: int
    """The item taken: the one offered or, by those who decline, the one that looks best."""
    rating: int
    """In stars; 0 if it never comes."""
    after: int
    """How much later the rating comes, in microseconds."""


@compiled
def draw_response(
    accept: Callable[..., bool],
    draw_delay: Callable[..., float],
    accept_params: tuple[Any, ...],
    delay_params: tuple[Any, ...],
    visitor_model: VisitorModel,
    visitor: int,
    arm: int,
    own: int,
    amount: int,
    stream: Stream,
) -> VisitorResponse:
    """Let visitor number 1, 2, … answer an offer of an item, and of an amount of money for it.

    The random numbers follow from the world's seed and the visitor's number alone, and are drawn
    in an order that does not depend on the offer. So a visitor is the same person whatever the
    policy offers.

    Visitors go by the money, whatever it is made of: margin and rounding count. Where the drift
    lifts a rating to between two stars, chance decides between them, so that its mean is exact:
    3.2 stars are a rating of 4 from one visitor in five.
    """
    seed_stream(stream, visitor_model.seed, visitor, PLAYER)
    liking, lot, rates = uniform(stream), uniform(stream), uniform(stream)
    rated, days = rates < visitor_model.share_who_rate, 0.0
    if rated:
        days = draw_delay(delay_params, stream)
    paid = amount / visitor_model.price_of_a_star
    accepted, item = True, arm
    if arm != own and not accept(paid, accept_params, stream):
        accepted, item, paid = False, own, 0.0
    if not rated:
        return VisitorResponse(accepted, item, 0, 0)
    highest = visitor_model.cumulative.shape[1]
    stars = 1
    while stars < highest and liking >= visitor_model.cumulative[item, stars - 1]:
        stars += 1
    lifted = min(stars + visitor_model.slope * paid, float(highest))
    rating = int(lifted)
    if lot < lifted - rating:
        rating += 1
    return VisitorResponse(accepted, item, rating, int(min(days, _LATEST) * DAY))
