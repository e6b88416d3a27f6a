"""A learned price: the cheapest payment that a wanted share of players accepts, up to the gap.

Algorithm 1 pays the gap between displayed averages, which every myopic player accepts. Real players
accept an offer with a probability that depends on the payment, and many accept less than the gap. A
campaign learns this acceptance curve from the answers to its own offers, and pays the lower of the
gap and the cheapest price that reaches the wanted share.

*The grid.* Prices are payments in stars, because acceptance in `LogisticAcceptance` and
`TableAcceptance` depends on the payment alone, not on the gap: one curve serves all gaps. The grid
is geometric: the cheapest price of the grid that suffices is at most 1.28 times the cheapest one.

*The gap is the upper limit.* So no offer costs more than it does without a learned price, and caps
and budget permit the same arms. Without this limit, a price learned at a large gap would be paid
for small ones, too.

*The curve.* Each price has two counts, answers and acceptances. A payment between two prices, such
as a gap, counts at the higher one, so that the acceptance of a price is not overestimated. Isotonic
regression (pool adjacent violators) makes the shares increase with the price. It compares whole
numbers, so a replay of the log finds the same price.

*Few answers.* A price is eligible after `MIN_ANSWERS` answers. As long as no eligible price reaches
the wanted share, the payment is the gap.

*Exploration.* In a share of the paid offers the price is drawn from the grid, each price from half
to twice the usual one, and not above the gap, being equally likely. The log has the probability of
the price paid.

An offer that expired is not an answer: nobody knows whether the player saw it.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from entice.checks import set_number, set_share
from entice.errors import InputError
from entice.jit.decorators import compiled, compiled_noinline
from entice.rng import PRICE, Stream, seed_stream, uniform

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

SHARES_OF_SCALE = (
    0.005, 0.0063, 0.008, 0.01, 0.0125, 0.016, 0.02, 0.025, 0.0315, 0.04, 0.05, 0.063,
    0.08, 0.1, 0.125, 0.16, 0.2, 0.25, 0.315, 0.4, 0.5, 0.63, 0.8, 1.0,
)  # fmt: skip
"""The prices of the grid as shares of the rating scale: the preferred numbers of ISO 3 (R10), from
0.5 % to the whole scale. From 1 to 5 stars, that is 0.02 to 4 stars. Written as decimals, because
powers may differ in their last digit between machines."""
MIN_ANSWERS = 10
"""The number of answers after which a price is eligible. It is low because a price that is too low
is corrected soon: once chosen, it gets most of the answers."""
STEPS = 3
"""The number of grid prices on each side from which an explored price is drawn: half to twice."""
NOT_LEARNED = -1
"""The position of the learned price as long as no eligible price reaches the wanted share."""
_ROUNDING = 1e-9


class LearnedPrice(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="learned"
):
    """Pay the cheapest price that a wanted share of players accepts, but never more than the gap.

    The acceptance of prices is learned from the players' answers to earlier offers.

    Parameters
    ----------
    acceptance
        The wanted share of players who accept an offer of another item than their own choice.
    explore
        The share of these offers in which the price is drawn at random, from half to twice the
        usual one, to learn how many players accept other prices.

    >>> import entice
    >>> entice.LearnedPrice(acceptance=0.8, explore=0.05)
    LearnedPrice(acceptance=0.8, explore=0.05)
    """

    acceptance: float = 0.8
    explore: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < set_number(self, "acceptance") < 1:
            rule = "must be a share of players greater than 0 and less than 1"
            todo = "Without a learned price, offers pay the gap: leave `price` out."
            raise InputError("LearnedPrice: acceptance", rule, given=self.acceptance, todo=todo)
        set_share(self, "explore", of="offers", without="random prices", typical=0.05)


class AcceptanceCurve(NamedTuple):
    """The answers to offers, by price; one element for each price of the grid."""

    prices: Floats
    """In stars, increasing."""
    answers: Counts
    """The number of offers at this price that were accepted or declined."""
    accepted: Counts
    pooled_answers: Counts
    """The answers of all prices that isotonic regression pools with this one."""
    pooled_accepted: Counts


def new_curve(scale: int) -> AcceptanceCurve:
    """Return a curve without answers for a rating scale of so many stars from end to end."""
    counts = [np.zeros(len(SHARES_OF_SCALE), np.int64) for _ in range(4)]
    return AcceptanceCurve(np.array(SHARES_OF_SCALE) * scale, *counts)


@compiled
def find_price(prices: Floats, payment: float) -> int:
    """Return the lowest price that is not below a payment; the highest one for larger payments."""
    for i in range(prices.shape[0]):
        if prices[i] >= payment * (1.0 - _ROUNDING):
            return i
    return int(prices.shape[0]) - 1


@compiled_noinline
def record_answer(curve: AcceptanceCurve, payment: float, accepted: bool) -> int:
    """Count the answer to an offer of a payment in stars; return the position of its price."""
    i = find_price(curve.prices, payment)
    curve.answers[i] += 1
    curve.accepted[i] += accepted
    return i


@compiled_noinline
def fit_curve(curve: AcceptanceCurve) -> None:
    """Set the pooled counts so that their shares do not decrease: pool adjacent violators.

    A price without answers is pooled with the next lower one that has some: a higher price is
    accepted at least as often. Below the lowest price with answers nothing is known.
    """
    answers, accepted = curve.pooled_answers, curve.pooled_accepted
    size = answers.shape[0]
    # `answers[i]` and `accepted[i]` hold the counts of a block at its first price, and -1 at its
    # others.
    for i in range(size):
        answers[i], accepted[i] = curve.answers[i], curve.accepted[i]
        first = i
        while first > 0:
            before = first - 1
            while answers[before] < 0:
                before -= 1
            violates = accepted[before] * answers[first] > accepted[first] * answers[before]
            if answers[before] == 0 or not (violates or answers[first] == 0):
                break
            answers[before] += answers[first]
            accepted[before] += accepted[first]
            answers[first] = -1
            first = before
    for i in range(1, size):
        if answers[i] < 0:
            answers[i], accepted[i] = answers[i - 1], accepted[i - 1]


@compiled
def cheapest_eligible(curve: AcceptanceCurve, wanted: float) -> int:
    """Return the position of the cheapest eligible price whose share is at least `wanted`.

    The curve must be fitted.
    """
    for i in range(curve.prices.shape[0]):
        reached = curve.pooled_accepted[i] >= wanted * curve.pooled_answers[i]
        if curve.answers[i] >= MIN_ANSWERS and reached:
            return i
    return NOT_LEARNED


@compiled_noinline
def price_offer(
    curve: AcceptanceCurve, wanted: float, explore: float, gap: float, seed: int, t: int,
    stream: Stream,
) -> tuple[float, float, bool, int]:  # fmt: skip
    """Return the payment of decision t for a displayed gap; both are in stars.

    Also returns the probability of this payment, whether it was drawn, and the position of the
    learned price. The random number depends on the seed and t only.
    """
    fit_curve(curve)
    prices, learned = curve.prices, cheapest_eligible(curve, wanted)
    if gap <= 0.0:
        return 0.0, 1.0, False, learned
    covers_gap = find_price(prices, gap)
    middle, usual = covers_gap, gap
    if learned != NOT_LEARNED and prices[learned] < gap:
        middle, usual = learned, prices[learned]
    low, high = max(0, middle - STEPS), min(covers_gap, middle + STEPS)
    count = high - low + 1
    seed_stream(stream, seed, t, PRICE)
    u = uniform(stream)
    payment, drawn = usual, u < explore
    if drawn:
        # Given u < explore, u / explore is uniform on [0, 1).
        payment = min(gap, prices[low + min(int(u / explore * count), count - 1)])
    propensity = 1.0 - explore if payment == usual else 0.0
    for i in range(low, high + 1):
        if payment == min(gap, prices[i]):
            propensity += explore / count
    return payment, propensity, drawn, learned
