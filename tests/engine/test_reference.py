"""Comparison with values measured by an independent implementation, which shares no code with ours.

The reference values come from 200 to 600 of its runs at T = 20,000, with each arm tried once first.
Each comparison allows 4 standard errors of the difference, so it fails by chance with probability
6e-5. There are 20 of them, so about 0.1 % in all. Seeds are fixed.
"""

from __future__ import annotations

import math

import polars as pl
import pytest

import entice

RUNS = 400
THEIR_RUNS = 200  # a lower bound, used where no standard error is stated
MEANS = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]

# policy index, l, metric, value, its standard error if stated, rounding of the value
REFERENCE = [
    (0, 0.0, "regret", 384, 5, 0.5), (0, 0.0, "compensation", 337, 4, 0.5),
    (0, 0.0, "compensated_pulls", 1840, None, 5),
    (0, 0.5, "regret", 734, 4, 0.5), (0, 0.5, "compensation", 457, 3, 0.5),
    (0, 1.1, "regret", 1201, 10, 0.5), (0, 1.1, "compensation", 543, 5, 0.5),
    (0, 1.1, "compensated_pulls", 5140, None, 5),
    (1, 0.0, "regret", 254, 8, 0.5), (1, 0.0, "compensation", 187, 2, 0.5),
    (1, 0.0, "compensated_pulls", 1020, None, 5),
    (1, 0.5, "regret", 432, 6, 0.5), (1, 0.5, "compensation", 254, 2, 0.5),
    (1, 1.1, "regret", 710, 8, 0.5), (1, 1.1, "compensation", 314, 3, 0.5),
    (1, 1.1, "compensated_pulls", 2980, None, 5),
    (2, 0.0, "compensation", 164, 2, 0.5), (2, 0.0, "compensated_pulls", 277, None, 0.5),
    (2, 1.1, "compensation", 82, 1, 0.5), (2, 1.1, "compensated_pulls", 276, None, 0.5),
]  # fmt: skip
LS = [0.0, 0.5, 1.1]


@pytest.fixture(scope="module")
def final() -> pl.DataFrame:
    return entice.simulate(
        arms=entice.Gaussian(MEANS),
        policies=[entice.UCB(), entice.ThompsonSampling(), entice.EpsilonGreedy(c=5)],
        drifts=[entice.LinearDrift(l) for l in LS],
        horizon=20_000,
        replications=RUNS,
        seed=20_200_207,
        checkpoints=1,
        progress=False,
    ).final


@pytest.mark.parametrize(("policy", "l", "metric", "value", "error", "rounding"), REFERENCE)
def test_means_agree_with_the_independent_implementation(
    final: pl.DataFrame, policy: int, l: float, metric: str, value: float, error: float | None,
    rounding: float,
) -> None:  # fmt: skip
    ours = final.filter(policy_index=policy, drift_index=LS.index(l))[metric].to_numpy()
    spread = ours.std(ddof=1)
    theirs = error if error is not None else spread / math.sqrt(THEIR_RUNS)
    allowed = 4 * math.hypot(spread / math.sqrt(RUNS), theirs) + rounding
    assert abs(ours.mean() - value) <= allowed


@pytest.mark.parametrize(("l", "median"), [(0.0, 145), (1.1, 161)])
def test_epsilon_greedy_s_median_regret_agrees(final: pl.DataFrame, l: float, median: int) -> None:
    # Its regret is heavy-tailed, so compare medians. Half of all runs are below the median, up to
    # 4 standard errors of a proportion in both samples (error probability 6e-5).
    regret = final.filter(policy_index=2, drift_index=LS.index(l))["regret"].to_numpy()
    allowed = 4 * math.sqrt(0.25 / RUNS + 0.25 / THEIR_RUNS)
    assert (regret < median - 0.5).mean() <= 0.5 + allowed
    assert (regret <= median + 0.5).mean() >= 0.5 - allowed
