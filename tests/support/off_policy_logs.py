"""Logs of simulated campaigns with overlap whose truth is known, written in plain NumPy.

Many campaigns are simulated at once, one visitor each at a time, with UCB by the paper's formula.
Ratings are 1 plus a binomial number of 4, and arrive at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from entice.jit.specialize import specialize
from entice.model import learned_price
from entice.model.learned_price import (
    NOT_LEARNED,
    SHARES_OF_SCALE,
    STEPS,
    LearnedPrice,
    new_curve,
)

Floats = npt.NDArray[np.float64]

PRICE = 200
GRID = 4 * np.array(SHARES_OF_SCALE)
"""The prices that can be learned, in stars."""


class SimulatedLog(NamedTuple):
    """The export of a campaign, and what its arms would have brought in each decision."""

    frame: pl.DataFrame
    share_rated: Floats
    """The probability of a rating of each arm in each decision."""
    mean: Floats
    """The expected rating, given that there is one."""
    paid: Floats
    """The expected payment, in cents."""

    def rating(self, target: Floats) -> float:
        """Return a policy's true rating per rated visitor, given its probabilities."""
        rated = target * self.share_rated
        return float((rated * self.mean).sum() / rated.sum())

    def payment(self, target: Floats) -> float:
        """Return a policy's true payment per visitor, in units of the currency."""
        return float((target * self.paid).sum() / len(target) / 100)


class Prices:
    """The payment for each arm in each of some campaigns: the gap, or a learned price.

    `possible` and `likely` have the payments that may be drawn, in the last axis.
    """

    def __init__(self, price: LearnedPrice | None, campaigns: int) -> None:
        self._price = price
        self._curves = [new_curve(4) for _ in range(campaigns)]
        self._learned = np.full(campaigns, NOT_LEARNED)
        if price is not None:  # the machine code of the service
            self._record_answer = specialize(learned_price.record_answer)
            self._price_offer = specialize(learned_price.price_offer)
            self._stream = np.zeros(4, np.uint64)

    def set_gaps(self, gap: Floats) -> None:
        self.usual, self.possible, self.likely = gap, gap[..., None], np.ones((*gap.shape, 1))
        if self._price is None:
            return
        covers_gap = np.minimum(np.searchsorted(GRID, gap * (1 - 1e-9)), len(GRID) - 1)
        learned = np.where(self._learned == NOT_LEARNED, np.inf, GRID[self._learned])[:, None]
        is_learned = learned < gap
        self.usual = np.where(is_learned, learned, gap)
        middle = np.where(is_learned, self._learned[:, None], covers_gap)
        drawn = middle[..., None] + np.arange(-STEPS, STEPS + 1)
        allowed = (drawn >= 0) & (drawn <= covers_gap[..., None])
        paid = np.minimum(gap[..., None], GRID[np.clip(drawn, 0, len(GRID) - 1)])
        share = self._price.explore * allowed / allowed.sum(axis=-1, keepdims=True)
        self.possible = np.concatenate([self.usual[..., None], paid], axis=-1)
        usually = np.full((*gap.shape, 1), 1 - self._price.explore)
        self.likely = np.concatenate([usually, share], axis=-1)

    def answer(self, paid: Floats, accepted: npt.NDArray[np.bool_]) -> None:
        """Learn from the answers to payments; a payment of 0 has no answer."""
        if self._price is None:
            return
        for i in np.flatnonzero(paid > 0):
            curve, wanted = self._curves[i], self._price.acceptance
            self._record_answer(curve, paid[i], bool(accepted[i]))
            *_, self._learned[i] = self._price_offer(curve, wanted, 0.0, 0.0, 0, 0, self._stream)


def simulate_logs(
    means: list[float], campaigns: int, decisions: int, overlap: float, seed: int,
    drift: float = 0.0, share_rated: Any = 1.0, share_accepted: Any = 1.0,
    acceptance: Callable[[Floats], Floats] = np.ones_like, price: LearnedPrice | None = None,
) -> Iterator[SimulatedLog]:  # fmt: skip
    """Simulate campaigns with the given mean ratings of the arms.

    A paid offer is accepted with the arm's share times the `acceptance` of the payment in stars.
    """
    rng, arms = np.random.default_rng(seed), len(means)
    rated_share, accepted_share = np.zeros(arms) + share_rated, np.zeros(arms) + share_accepted
    counts, sums = np.zeros((campaigns, arms)), np.zeros((campaigns, arms))
    every, columns, prices = np.arange(campaigns), [], Prices(price, campaigns)
    for t in range(1, decisions + 1):
        averages = np.where(counts > 0, sums / np.maximum(counts, 1), 3.0)
        bounds = averages + np.sqrt(2 * math.log(t) / np.maximum(counts, 1e-9))
        chosen = np.argmax(np.where(counts > 0, bounds, np.inf), axis=1)
        propensities = np.full((campaigns, arms), overlap / arms)
        propensities[every, chosen] += 1 - overlap
        drawn = rng.random(campaigns) < overlap
        arm = np.where(drawn, rng.integers(arms, size=campaigns), chosen)
        gap = averages.max(axis=1, keepdims=True) - averages
        prices.set_gaps(gap)
        # What each arm would bring, averaged over the payments that may be drawn.
        shares = accepted_share[:, None] * acceptance(prices.possible)
        accepting = prices.likely * np.where(prices.possible > 0, shares, 1.0)
        ratings = np.clip(np.array(means)[:, None] + drift * prices.possible, 1.0, 5.0)
        total = accepting.sum(axis=-1)
        expected = (accepting * ratings).sum(axis=-1) / np.maximum(total, 1e-300)
        expected_paid = (accepting * _cents(prices.possible)).sum(axis=-1)
        # What happens.
        which = np.zeros(campaigns, np.int64)
        if price is not None:
            cumulated = np.cumsum(prices.likely[every, arm], axis=1)
            which = np.argmax(
                rng.random(campaigns)[:, None] * cumulated[:, -1:] < cumulated, axis=1
            )
        paid = prices.possible[every, arm, which]
        unpaid = gap[every, arm] == 0
        accepted = unpaid | (rng.random(campaigns) < shares[every, arm, which])
        rated = accepted & (rng.random(campaigns) < rated_share[arm])
        rating = 1 + rng.binomial(4, (ratings[every, arm, which] - 1) / 4)
        prices.answer(paid, accepted)
        columns.append(
            (arm, np.argmax(averages, axis=1), unpaid, paid, accepted, rated, rating,
             averages, propensities, _cents(prices.usual), counts.copy(), total * rated_share,
             expected, expected_paid)
        )  # fmt: skip
        counts[every, arm] += rated
        sums[every, arm] += np.where(rated, rating, 0)
    stacked = [np.stack(column, axis=1) for column in zip(*columns, strict=True)]
    for i in range(campaigns):
        yield _log([column[i] for column in stacked])


def _cents(stars: Floats) -> Floats:
    found: Floats = np.ceil(np.round(stars * PRICE, 9))
    return found


def _log(columns: list[Any]) -> SimulatedLog:
    arm, own, unpaid, paid, accepted, rated, rating, *matrices = columns
    averages, propensities, amounts, counts, *truths = matrices
    size, arms = averages.shape
    names = np.array([f"arm-{i}" for i in range(arms)])
    number = np.arange(1, size + 1)
    greedy = np.where(unpaid, arm, own)
    amount = _cents(paid).astype(np.int64)
    frame = pl.DataFrame(
        {
            "t": number, "decision": number, "kind": "offer",
            "state": np.where(rated, "rated", np.where(accepted, "unrated", "declined")),
            "reason": "explore", "arm": names[arm], "greedy_arm": names[greedy],
            "payment": np.where(accepted, paid, 0.0), "amount": amount,
            "paid": pl.Series(np.where(accepted, amount, 0)),
            "feedback": pl.Series(np.where(rated, rating, np.nan)).fill_nan(None),
            "currency": "EUR", "currency_digits": 2,
            "arms": pl.Series([names.tolist()]).new_from_index(0, size), "shown": averages,
            "propensities": propensities, "amounts": amounts.astype(np.int64),
            "policy_averages": averages, "policy_counts": counts,
        }
    ).with_columns(
        pl.col("shown", "propensities", "policy_averages", "policy_counts").arr.to_list(),
        pl.col("amounts").arr.to_list(),
    )  # fmt: skip
    return SimulatedLog(frame, *truths)
