"""Bounds on the drift if payment also changes who rates (Lee 2009).

A probe compares ratings after heads and after tails. If payment brings ratings, the two groups of
raters differ, and so may their ratings without any drift. The coin still decides nothing else, so
the shares rated after heads and tails tell how many raters the payment brought or kept away. At
worst, these gave the highest or the lowest ratings of their group. Leaving out that share of the
highest, or of the lowest, ratings of the group with more raters bounds the drift of the players who
rate under both sides of the coin (Lee 2009, Review of Economic Studies 76, 1071–1102).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from entice.errors import InputError
from entice.estimate.interval import t_critical_value

SIGNIFICANCE = 0.05
"""The response is said to differ if a two-sided test of equal shares has a p-value below this."""


class ResponseBounds(NamedTuple):
    """Bounds on the slope that hold if the response depends on the payment, and their interval.

    The bounds hold under one assumption, monotone response: the amount makes no player rate less,
    or it makes no player rate more. They are for the players who rate under both sides of the coin.
    """

    low: float
    """The lower end of the interval: the lower bound minus its sampling error."""
    high: float
    """The upper end of the interval: the upper bound plus its sampling error."""
    lowest: float
    """The lower bound, without sampling error."""
    highest: float
    """The upper bound, without sampling error."""
    heads: int
    """Offers to which the coin added the amount."""
    heads_rated: int
    tails: int
    """Offers to which the coin added nothing."""
    tails_rated: int
    p_value: float
    """Of the two-sided test that both shares are equal (normal approximation, pooled variance)."""

    @property
    def differs(self) -> bool:
        """Whether the shares rated after heads and tails differ (p < 0.05)."""
        return self.p_value < SIGNIFICANCE

    def describe(self) -> str:
        """Return the shares rated, as a sentence without full stop."""
        heads, tails = (
            f"{100 * rated / offers:.3g} % of {offers} offers"
            for rated, offers in ((self.heads_rated, self.heads), (self.tails_rated, self.tails))
        )
        p = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}"
        return f"{heads} were rated if the coin added the amount, {tails} if it did not ({p})"


class ProbedOffers:
    """Counts of the probed offers and of their ratings, by amount and side of the coin.

    Ratings are kept as counts of each value, so a grid of stars takes a few numbers.
    """

    def __init__(self) -> None:
        self._offers: dict[float, list[int]] = {}  # of tails, of heads
        self._ratings: dict[float, tuple[dict[float, int], dict[float, int]]] = {}

    def add_offer(self, coin: float, amount: float, count: int = 1) -> None:
        """Count probed offers, rated or not."""
        self._offers.setdefault(amount, [0, 0])[bool(coin)] += count

    def add_rating(self, coin: float, amount: float, rating: float) -> None:
        """Count a rating of a probed offer."""
        counts = self._ratings.setdefault(amount, ({}, {}))[bool(coin)]
        counts[rating] = counts.get(rating, 0) + 1

    def bounds(self, level: float) -> ResponseBounds | None:
        """Return the bounds. None if offers were not counted, or too few of them were rated.

        With several amounts, each is bounded by itself, and weighted as in the slope: by its number
        of ratings and the square of the amount.
        """
        if not self._offers:
            return None
        probes = [self._probe(amount) for amount in {**self._offers, **self._ratings}]
        fewest = min(min(probe.heads.rated, probe.tails.rated) for probe in probes)
        if fewest < 2:
            return None
        total = sum(probe.rated * probe.amount**2 for probe in probes)
        lowest = highest = low_variance = high_variance = 0.0
        for probe in probes:
            weight = probe.rated * probe.amount / total
            lower, upper = _difference_bounds(probe.heads, probe.tails)
            lowest += weight * lower.value
            highest += weight * upper.value
            low_variance += weight * weight * lower.variance
            high_variance += weight * weight * upper.variance
        critical = t_critical_value(level, fewest - 1)
        heads, heads_rated, tails, tails_rated = (
            sum(numbers)
            for numbers in zip(
                *((p.heads.offers, p.heads.rated, p.tails.offers, p.tails.rated) for p in probes),
                strict=True,
            )
        )
        return ResponseBounds(
            lowest - critical * math.sqrt(low_variance),
            highest + critical * math.sqrt(high_variance),
            lowest, highest, heads, heads_rated, tails, tails_rated,
            _equal_shares_p_value(heads, heads_rated, tails, tails_rated),
        )  # fmt: skip

    def _probe(self, amount: float) -> _Probe:
        tails_offers, heads_offers = self._offers.get(amount, (0, 0))
        tails_ratings, heads_ratings = self._ratings.get(amount, ({}, {}))
        heads, tails = _Group(heads_offers, heads_ratings), _Group(tails_offers, tails_ratings)
        if heads.rated > heads.offers or tails.rated > tails.offers:
            raise InputError(
                "probed offers",
                "must be at least as many as their ratings",
                given=f"{heads.offers} heads and {tails.offers} tails with an amount of "
                f"{amount:g}, {heads.rated} and {tails.rated} of them rated",
                todo="Count each probed offer with add_offer.",
            )
        return _Probe(amount, heads, tails)


class _Group:
    """The offers of one side of the coin, and their ratings as pairs (value, count)."""

    def __init__(self, offers: int, ratings: Mapping[float, int]) -> None:
        self.offers = offers
        self.ratings = sorted(ratings.items())
        self.rated = sum(ratings.values())

    @property
    def share(self) -> float:
        return self.rated / self.offers

    @property
    def variance_of_log_share(self) -> float:
        return (1 - self.share) / self.rated


class _Probe(NamedTuple):
    """The offers with one amount."""

    amount: float
    heads: _Group
    tails: _Group

    @property
    def rated(self) -> int:
        return self.heads.rated + self.tails.rated


class _Bound(NamedTuple):
    value: float
    variance: float


def trimmed_mean(ratings: Iterable[tuple[float, float]], share: float) -> tuple[float, float]:
    """Return the mean of the first `share` of ratings, and the value at which it ends.

    Ratings are pairs (value, count) in order, ascending for the lowest and descending for the
    highest. Of a value that only partly belongs to the share, the exact fraction counts.

    >>> from entice.estimate.response import trimmed_mean
    >>> trimmed_mean([(1, 2), (5, 2)], 0.75)
    (2.3333333333333335, 5)
    """
    ratings = [(value, count) for value, count in ratings if count > 0]
    wanted = share * sum(count for _, count in ratings)
    left, total, last = wanted, 0.0, ratings[0][0]
    for value, count in ratings:
        if left <= 0:
            break
        taken = min(left, count)
        total += taken * value
        left -= taken
        last = value
    return total / wanted, last


def _difference_bounds(heads: _Group, tails: _Group) -> tuple[_Bound, _Bound]:
    """Return the bounds of heads minus tails.

    The variance is that of Lee (2009, proposition 3), written with (y − q)₊ so that ties count.
    """
    ratio_variance = heads.variance_of_log_share + tails.variance_of_log_share
    if heads.share >= tails.share:
        mean, variance = _mean(tails)
        low, high = _trimmed(heads, tails.share / heads.share, ratio_variance)
        return (
            _Bound(low.value - mean, low.variance + variance),
            _Bound(high.value - mean, high.variance + variance),
        )
    mean, variance = _mean(heads)
    low, high = _trimmed(tails, heads.share / tails.share, ratio_variance)
    return (
        _Bound(mean - high.value, high.variance + variance),
        _Bound(mean - low.value, low.variance + variance),
    )


def _trimmed(group: _Group, kept: float, ratio_variance: float) -> tuple[_Bound, _Bound]:
    """Return the means of the lowest and of the highest `kept` share of ratings."""
    ends = []
    for ratings, sign in ((group.ratings, -1.0), (group.ratings[::-1], 1.0)):
        mean, last = trimmed_mean(ratings, kept)
        beyond = [(max(0.0, sign * (value - last)), count) for value, count in ratings]
        variance = _variance(beyond, group.rated) / (kept * kept * group.rated)
        ends.append(_Bound(mean, variance + (mean - last) ** 2 * ratio_variance))
    return ends[0], ends[1]


def _mean(group: _Group) -> _Bound:
    mean = sum(value * count for value, count in group.ratings) / group.rated
    return _Bound(mean, _variance(group.ratings, group.rated) / group.rated)


def _variance(ratings: list[tuple[float, int]], number: int) -> float:
    mean = sum(value * count for value, count in ratings) / number
    return sum(count * (value - mean) ** 2 for value, count in ratings) / (number - 1)


def _equal_shares_p_value(heads: int, heads_rated: int, tails: int, tails_rated: int) -> float:
    pooled = (heads_rated + tails_rated) / (heads + tails)
    variance = pooled * (1 - pooled) * (1 / heads + 1 / tails)
    if variance == 0:
        return 1.0
    z = (heads_rated / heads - tails_rated / tails) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))
