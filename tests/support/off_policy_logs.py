"""Logs of simulated campaigns with overlap whose truth is known, written in plain NumPy.

Many campaigns are simulated at once, one visitor each at a time, with UCB by the paper's formula.
Ratings are 1 plus a binomial number of 4, and arrive at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

PRICE = 200


class SimulatedLog(NamedTuple):
    """The export of a campaign, and what its arms would have brought in each decision."""

    frame: pl.DataFrame
    mean: Floats
    """The expected rating of each arm in each decision, with the drift of its payment."""
    share_rated: Floats
    """Of accepted offers."""
    share_accepted: Floats
    amounts: Floats

    def rating(self, target: Floats) -> float:
        """Return a policy's true rating per rated visitor, given its probabilities."""
        accepted = np.where(self.amounts > 0, self.share_accepted, 1.0)
        rated = target * self.share_rated * accepted
        return float((rated * self.mean).sum() / rated.sum())

    def payment(self, target: Floats) -> float:
        """Return a policy's true payment per visitor, in units of the currency."""
        return float((target * self.amounts * self.share_accepted).sum() / len(target) / 100)


def simulate_logs(
    means: list[float], campaigns: int, decisions: int, overlap: float, seed: int,
    drift: float = 0.0, share_rated: Any = 1.0, share_accepted: Any = 1.0,
) -> Iterator[SimulatedLog]:  # fmt: skip
    """Simulate campaigns with the given mean ratings of the arms."""
    rng, arms = np.random.default_rng(seed), len(means)
    rated_share, accepted_share = np.zeros(arms) + share_rated, np.zeros(arms) + share_accepted
    counts, sums = np.zeros((campaigns, arms)), np.zeros((campaigns, arms))
    every, columns = np.arange(campaigns), []
    for t in range(1, decisions + 1):
        averages = np.where(counts > 0, sums / np.maximum(counts, 1), 3.0)
        bounds = averages + np.sqrt(2 * math.log(t) / np.maximum(counts, 1e-9))
        chosen = np.argmax(np.where(counts > 0, bounds, np.inf), axis=1)
        propensities = np.full((campaigns, arms), overlap / arms)
        propensities[every, chosen] += 1 - overlap
        drawn = rng.random(campaigns) < overlap
        arm = np.where(drawn, rng.integers(arms, size=campaigns), chosen)
        gap = averages.max(axis=1, keepdims=True) - averages
        amounts = np.ceil(np.round(gap * PRICE, 9))
        expected = np.clip(np.array(means) + drift * gap, 1.0, 5.0)
        amount, unpaid = amounts[every, arm], gap[every, arm] == 0
        accepted = unpaid | (rng.random(campaigns) < accepted_share[arm])
        rated = accepted & (rng.random(campaigns) < rated_share[arm])
        rating = 1 + rng.binomial(4, (expected[every, arm] - 1) / 4)
        counts[every, arm] += rated
        sums[every, arm] += np.where(rated, rating, 0)
        columns.append(
            (arm, np.argmax(averages, axis=1), gap[every, arm], amount, accepted, rated, rating,
             averages, propensities, amounts, counts.copy(), expected)
        )  # fmt: skip
        counts_before = columns[-1][10]
        counts_before[every, arm] -= rated
    stacked = [np.stack(column, axis=1) for column in zip(*columns, strict=True)]
    for i in range(campaigns):
        yield _log([column[i] for column in stacked], rated_share, accepted_share)


def _log(columns: list[Any], share_rated: Floats, share_accepted: Floats) -> SimulatedLog:
    arm, own, gap, amount, accepted, rated, rating, *matrices = columns
    averages, propensities, amounts, counts, expected = matrices
    size, arms = averages.shape
    names = np.array([f"arm-{i}" for i in range(arms)])
    number = np.arange(1, size + 1)
    greedy = np.where(gap == 0, arm, own)
    frame = pl.DataFrame(
        {
            "t": number, "decision": number, "kind": "offer",
            "state": np.where(rated, "rated", np.where(accepted, "unrated", "declined")),
            "reason": "explore", "arm": names[arm], "greedy_arm": names[greedy],
            "payment": np.where(accepted, gap, 0.0), "amount": amount.astype(np.int64),
            "paid": pl.Series(np.where(accepted, amount, 0).astype(np.int64)),
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
    return SimulatedLog(frame, expected, share_rated, share_accepted, amounts)
