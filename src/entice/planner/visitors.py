"""The simulated visitors of one world: whether they accept offers, and how and when they rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.rng import ARMS, HOLDOUT, PLAYER, Stream, seed_stream, uniform
from entice.worlds.segments import draw_segment

Floats = npt.NDArray[np.float64]

SECOND = 1_000_000
"""A second in microseconds, the unit of all times."""
DAY = 24 * 3600 * SECOND
_LATEST = 100_000.0
"""Longer delays are cut to this many days, so that times do not overflow."""


class VisitorModel(NamedTuple):
    """The parameters of a world's visitors."""

    seed: int
    cumulative: Floats
    """For each item, the share of unpaid ratings of at most 1, 2, … stars. With segments, for each
    item and segment, item by item."""
    slope: float
    """The number of stars by which a payment worth one star raises a rating."""
    share_who_rate: float
    price_of_a_star: int
    """In minor units: money divided by it is a payment in stars."""
    response: tuple[Any, ...] = ()
    """The parameters of `response_probability`, which has the last word on who rates."""
    cumulative_shares: Floats = np.ones(1)
    """The cumulative shares of the segments."""


class VisitorResponse(NamedTuple):
    """A visitor's response to an offer."""

    accepted: bool
    item: int
    """The item taken: the one offered or, if declined, the one that looks best."""
    rating: int
    """In stars; 0 if the visitor does not rate."""
    after: int
    """The delay of the rating in microseconds."""


@compiled
def is_held_out(seed: int, visitor: int, holdout: float, stream: Stream) -> bool:
    """Draw whether visitor number 1, 2, … is held out, with probability `holdout`.

    The service hashes the player instead. Each visitor of a plan is a different player, so their
    groups are independent in both.
    """
    if holdout == 0.0:
        return False
    seed_stream(stream, seed, visitor, HOLDOUT)
    return uniform(stream) < holdout


@compiled
def draw_visitor_segment(visitor_model: VisitorModel, visitor: int, stream: Stream) -> int:
    """Draw the segment of visitor number 1, 2, …; 0 if there is only one."""
    if visitor_model.cumulative_shares.shape[0] == 1:
        return 0
    seed_stream(stream, visitor_model.seed, visitor, ARMS)
    return draw_segment(visitor_model.cumulative_shares, stream)


@compiled
def draw_response(
    accept: Callable[..., bool],
    draw_delay: Callable[..., float],
    response_probability: Callable[..., float],
    accept_params: tuple[Any, ...],
    delay_params: tuple[Any, ...],
    visitor_model: VisitorModel,
    visitor: int,
    arm: int,
    own: int,
    amount: int,
    stream: Stream,
    segment: int = 0,
) -> VisitorResponse:
    """Draw the response of visitor number 1, 2, … to an offer of an item and an amount of money.

    The random numbers depend only on the world's seed and the visitor's number, and are drawn in
    an order that does not depend on the offer. So visitors behave alike under all policies.

    Visitors respond to the whole amount, including margin and rounding. If the drift raises a
    rating to between two stars, it is rounded at random so that its mean is exact: 3.2 stars
    become 4 for one visitor in five. Whether a visitor rates may depend on the stars before that
    and on the payment.
    """
    seed_stream(stream, visitor_model.seed, visitor, PLAYER)
    opinion, rounding, rates = uniform(stream), uniform(stream), uniform(stream)
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
    stars, row = 1, item * visitor_model.cumulative_shares.shape[0] + segment
    while stars < highest and opinion >= visitor_model.cumulative[row, stars - 1]:
        stars += 1
    if not rates < response_probability(float(stars), paid, visitor_model.response):
        return VisitorResponse(accepted, item, 0, 0)
    raised = min(stars + visitor_model.slope * paid, float(highest))
    rating = int(raised)
    if rounding < raised - rating:
        rating += 1
    return VisitorResponse(accepted, item, rating, int(min(days, _LATEST) * DAY))
