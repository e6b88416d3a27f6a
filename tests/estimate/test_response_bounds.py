"""Bounds on the drift if payment changes who rates: by hand, coverage, and where they are shown.

Seeds are fixed. If a test could fail by chance, its docstring gives the probability.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from estimate_fixtures import covers, log, traces
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sizes import sized

import entice
from entice.estimate import DriftEstimator, Estimate, probe_slope
from entice.estimate.response import trimmed_mean

# --- Computed by hand -----------------------------------------------------------------------


def offers(heads: list[int | None], tails: list[int | None], amount: float = 0.5) -> Estimate:
    rows = [("tea", amount, y, 1) for y in heads] + [("tea", 0.0, y, 0) for y in tails]
    return probe_slope(log(*rows), amount=amount)


def test_bounds_computed_by_hand() -> None:
    """4 of 4 heads and 3 of 6 tails are rated: half of the heads is left out.

    The lowest two heads are 1 and 4, the highest two 5 and 5; the tails have the mean 3.
    """
    found = offers([1, 5, 4, 5], [2, 3, 4, None, None, None]).bounds
    assert found is not None
    assert found.lowest == pytest.approx((2.5 - 3) / 0.5)
    assert found.highest == pytest.approx((5 - 3) / 0.5)
    assert (found.heads, found.heads_rated, found.tails, found.tails_rated) == (4, 4, 6, 3)
    # Lower end: the lowest half ends at 4; (4 − y)₊ is 3, 0, 0, 0 with variance 9/4.
    log_ratio = 0 + (1 - 0.5) / 3
    variance = 9 / 4 / 0.5**2 / 4 + (2.5 - 4) ** 2 * log_ratio + 1 / 3
    critical = stats.t.ppf(0.975, 2)
    assert found.low == pytest.approx((-0.5 - critical * math.sqrt(variance)) / 0.5, rel=1e-6)
    # Upper end: the highest half ends at 5, beyond which there is nothing.
    assert found.high == pytest.approx((2 + critical * math.sqrt(1 / 3)) / 0.5, rel=1e-6)
    pooled = stats.chi2_contingency([[4, 0], [3, 3]], correction=False).pvalue
    assert found.p_value == pytest.approx(pooled)


def test_the_tails_are_trimmed_if_they_are_rated_more_often() -> None:
    ours = offers([2, 3, 4, None, None, None], [1, 5, 4, 5]).bounds
    swapped = offers([1, 5, 4, 5], [2, 3, 4, None, None, None]).bounds
    assert ours is not None
    assert swapped is not None
    assert (ours.lowest, ours.highest) == pytest.approx((-swapped.highest, -swapped.lowest))
    assert (ours.low, ours.high) == pytest.approx((-swapped.high, -swapped.low))


def test_without_missing_ratings_the_bounds_are_the_difference_of_means() -> None:
    """And the interval is of the width of the two samples' standard errors."""
    heads, tails = [5, 4, 3, 5, 4], [3, 4, 3, 2, 5]
    found = offers(heads, tails).bounds  # type: ignore[arg-type]
    assert found is not None
    assert found.lowest == pytest.approx((4.2 - 3.4) / 0.5)
    assert found.highest == pytest.approx(found.lowest)
    error = math.sqrt(np.var(heads, ddof=1) / 5 + np.var(tails, ddof=1) / 5)
    assert found.high - found.highest == pytest.approx(stats.t.ppf(0.975, 4) * error / 0.5)
    assert found.p_value == 1.0
    assert not found.differs


@given(
    counts=st.lists(st.integers(0, 6), min_size=5, max_size=5).filter(any),
    share=st.fractions(Fraction(1, 50), 1, max_denominator=50),
)
def test_trimming_is_exact_at_ties(counts: list[int], share: Fraction) -> None:
    """Each rating is repeated as often as the share has parts, so that none has to be split."""
    split = sorted(
        star for star, count in enumerate(counts) for _ in range(count * share.denominator)
    )
    kept = int(sum(counts) * share.denominator * share)
    for order in (1, -1):
        pairs = list(enumerate(counts))[::order]
        mean, last = trimmed_mean(pairs, float(share))
        expected = split[::order][:kept]
        assert mean == pytest.approx(sum(expected) / kept)
        assert last in (expected[-1], *split[::order][kept : kept + 1])  # a rounding error apart


def test_amounts_are_weighted_as_in_the_slope() -> None:
    small = log(*[("tea", 0.2, y, 1) for y in (3, 4)], *[("tea", 0.0, y, 0) for y in (2, 3, None)])
    large = log(*[("tea", 0.4, y, 1) for y in (5, 4, 3)], *[("tea", 0.0, y, 0) for y in (2, 4)])
    parts = [probe_slope(small, amount=0.2).bounds, probe_slope(large, amount=0.4).bounds]
    frames = small.with_columns(probe_amount=0.2), large.with_columns(probe_amount=0.4)
    both = probe_slope(pl.concat(frames)).bounds
    assert both is not None
    weights = np.array([4 * 0.2**2, 5 * 0.4**2])
    for end in ("lowest", "highest"):
        means = [getattr(part, end) for part in parts]
        assert getattr(both, end) == pytest.approx(np.average(means, weights=weights))
    assert (both.heads, both.heads_rated, both.tails, both.tails_rated) == (5, 5, 5, 4)


# --- Coverage -------------------------------------------------------------------------------

STARS = np.arange(1, 6)


def probed_run(rng: np.random.Generator, response: Any, l: float = 0.0, n: int = 600) -> Estimate:
    """Draw n probed offers of one arm in stars; the amount raises all ratings by l stars."""
    reward = rng.choice(STARS, n, p=[0.1, 0.1, 0.2, 0.3, 0.3])
    heads = rng.integers(0, 2, n)
    responds = rng.uniform(size=n) < response(reward, heads)
    frame = pl.DataFrame(
        {
            "arm": "tea", "payment": heads * 1.0, "probe": heads, "probe_amount": 1.0,
            "feedback": np.where(responds, reward + l * heads, np.nan),
        }
    )  # fmt: skip
    return probe_slope(frame)


def logistic(base: float, by_reward: float, by_payment: float) -> Any:
    kernel = entice.LogisticResponse(base, by_reward, by_payment).kernel()
    shares = np.array(
        [[kernel.probability(r, x, kernel.params) for x in (0.0, 1.0)] for r in map(float, STARS)]
    )
    return lambda reward, heads: shares[reward - 1, heads]


def coverage(response: Any, l: float = 0.0) -> tuple[float, float, float]:
    """Return how often the bounds, the slope, and the bounds without sampling error cover l."""
    rng, runs = np.random.default_rng(7), sized(200, 2000)
    found = [probed_run(rng, response, l) for _ in range(runs)]
    bounds = [one.bounds for one in found if one.bounds is not None]
    assert len(bounds) == runs
    return (
        sum(one.low <= l <= one.high for one in bounds) / runs,
        sum(one.low <= l <= one.high for one in found) / runs,
        sum(one.lowest <= l <= one.highest for one in bounds) / runs,
    )


def test_the_bounds_cover_no_drift_where_the_slope_does_not() -> None:
    """Payment brings ratings of bad experiences, so paid ratings are lower without any drift.

    A share of 95 % of 200 runs is missed with probability 0.00001 if the true coverage is 99 %; it
    is higher, because the bounds are wide. The slope's intervals would cover half of the runs with
    probability 1e-70 if their coverage were 95 %.
    """
    covered, slope_covered, _ = coverage(logistic(-4, 1, 3))
    assert covered >= 0.95
    assert slope_covered < 0.5


def test_the_bounds_cover_a_drift_and_payment_that_keeps_ratings_away() -> None:
    for response, l in ((logistic(-4, 1, 3), 0.7), (logistic(4, -1, -2), -0.3)):
        covered, slope_covered, _ = coverage(response, l)
        assert covered >= 0.95
        assert slope_covered < 0.5


def test_the_bounds_cover_in_the_worst_case_by_their_sampling_error() -> None:
    """Without payment the satisfied rate; with payment all do: the upper bound is the drift itself.

    The interval misses on that side alone, in 2.5 % of runs: 95 % of 200 runs are missed with
    probability 0.01, and the seed is fixed. Without sampling error the bounds miss half of the
    runs, so a share of 75 % has probability 1e-12: the sampling error is needed, and not too large.
    """
    covered, _, without_error = coverage(lambda reward, heads: (reward > 3) | (heads == 1))
    assert 0.95 <= covered < 1
    assert without_error < 0.75


def test_the_slope_covers_if_the_response_does_not_depend_on_the_payment() -> None:
    """A control, and the bounds are wider than need be.

    The slope's intervals cover 95 %: less than 90 % of 200 runs has probability 0.002.
    """
    covered, slope_covered, _ = coverage(logistic(-2, 0.5, 0))
    assert covered >= 0.95
    assert slope_covered >= 0.9


@pytest.mark.usefixtures("plain")
def test_in_simulated_runs_without_drift_the_bounds_cover_where_the_slope_does_not() -> None:
    """An adaptive policy on Gaussian arms, as in the documentation.

    95 % of 40 runs are missed with probability 0.007 if the true coverage is 99 %. The slope's
    intervals would cover half of the runs with probability 1e-15 if their coverage were 95 %.
    """
    players = entice.Players(response=entice.LogisticResponse(-2, by_reward=2, by_payment=4))
    runs = traces(
        40, entice.EpsilonGreedy(c=5), entice.LinearDrift(0.0), arms=entice.Gaussian([0.9, 0.7]),
        players=players, probe=entice.Probe(1.0, 0.5), horizon=400,
    )  # fmt: skip
    found = [probe_slope(rounds) for rounds in runs]
    bounds = [one.bounds for one in found if one.bounds is not None]
    assert len(bounds) == 40
    assert sum(one.low <= 0 <= one.high for one in bounds) >= 38
    assert sum(covers(one, 0.0) for one in found) < 20
    for one, of_one in zip(found, bounds, strict=True):
        assert of_one.differs
        text = str(one)
        assert text.startswith(f"bounds {of_one.low:.2f} to {of_one.high:.2f}; slope")
        assert "the slope compares different raters" in one.warning
        assert one.warning in text


# --- Where they are shown -------------------------------------------------------------------


def test_an_estimate_with_equal_shares_shows_the_slope_first() -> None:
    found = offers([5, 4, 3, None], [3, 4, 3, None])
    assert str(found).startswith("slope")
    assert "; bounds " in str(found)
    assert "raters" not in found.warning


def test_shares_differ_in_one_of_twenty_runs_with_the_same_response() -> None:
    """5 % of 200 runs are 10: 25 or more has a probability of 3e-5, and 0 one of 4e-5.

    In the long version 5 % of 400 are 20: 40 or more has a probability of 3e-5.
    """
    rng, runs = np.random.default_rng(3), sized(200, 400)
    half = [probed_run(rng, lambda reward, heads: 0.5, n=200).bounds for _ in range(runs)]
    assert 0 < sum(one.differs for one in half if one is not None) < sized(25, 40)


def test_an_estimator_without_counted_offers_has_no_bounds() -> None:
    estimator = DriftEstimator(amount=0.5)
    for rating in (3, 4, 5, 4):
        for probe in (0, 1):
            estimator.add("tea", 0.5 * probe, rating, probe)
    assert estimator.estimate().bounds is None
    estimator.add_offer(1, count=4)
    estimator.add_offer(0, count=3)
    with pytest.raises(entice.InputError, match=r"4 heads and 3 tails .* 4 and 4 of them"):
        estimator.estimate()
    estimator.add_offer(0)
    assert estimator.estimate().bounds is not None
    with pytest.raises(entice.InputError, match="probe must be 1 or 0"):
        estimator.add_offer(2)
