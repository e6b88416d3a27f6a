"""The averages that segments see: the rule against its definition, its limits and precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import segments as reference
from sizes import sized

from entice.model.ledger import argmax, new_ledger, record
from entice.model.segments import (
    effective_count,
    new_segment_ledgers,
    record_in_segment,
    see_segment,
    shrinkage,
    shrunk_average,
)

pytestmark = pytest.mark.usefixtures("unmeasured")

S, K = 3, 2
RATINGS = st.lists(
    st.tuples(st.integers(0, S - 1), st.integers(0, K - 1), st.integers(-8, 8)), max_size=25
)
"""Segment, arm and eighths: sums and squares are exact."""


def recorded(ratings: Any, segments: int = S, arms: int = K) -> Any:
    ledgers, ledger = new_segment_ledgers(segments, arms), new_ledger(arms, 0.25)
    for segment, arm, feedback in ratings:
        record(ledger, arm, feedback)
        record_in_segment(ledgers, segment, arm, feedback)
    return ledgers, ledger


def seen_by(ledgers: Any, ledger: Any, segment: int) -> Any:
    seen, counts = new_ledger(len(ledger.pulls), 0.0), np.zeros(len(ledger.pulls))
    see_segment(ledgers, ledger, segment, seen, counts)
    return seen, counts


@settings(max_examples=sized(60, 1_000), deadline=None, derandomize=True)
@given(RATINGS)
def test_any_ratings_give_the_averages_and_counts_of_the_reference(
    ratings: list[tuple[int, int, int]],
) -> None:
    cells: Any = [[[] for _ in range(K)] for _ in range(S)]
    for segment, arm, eighths in ratings:
        cells[segment][arm].append(eighths / 8)
    made = recorded([(s, i, x / 8) for s, i, x in ratings])
    lam, expected = shrinkage(*made), reference.strength(cells)
    if math.isfinite(lam) and math.isfinite(expected):
        assert lam == pytest.approx(expected, rel=1e-6, abs=1e-9)
    else:  # either may round a variance between segments of 0 to one just above
        assert max(lam, expected) == math.inf
        assert min(lam, expected) > 1e9 or min(lam, expected) == 0
    for s in range(S):
        seen, counts = seen_by(*made, s)
        for i in range(K):
            shown = reference.average(cells, s, i, lam, 0.25)
            assert seen.means[i] == pytest.approx(shown, rel=1e-9, abs=1e-12)
            of_arm = [len(cells[r][i]) for r in range(S)]
            assert counts[i] == pytest.approx(reference.effective_count(of_arm, s, lam), rel=1e-9)
            assert of_arm[s] * (1 - 1e-9) <= counts[i] <= sum(of_arm) * (1 + 1e-9)
        assert seen.greedy[0] == argmax(seen.means)


@settings(max_examples=sized(60, 1_000), deadline=None, derandomize=True)
@given(RATINGS, st.randoms(use_true_random=False))
def test_the_order_of_ratings_does_not_matter(
    ratings: list[tuple[int, int, int]], random: Any
) -> None:
    """Bit for bit where sums are exact."""
    one = recorded([(s, i, x / 8) for s, i, x in ratings])
    random.shuffle(ratings)
    other = recorded([(s, i, x / 8) for s, i, x in ratings])
    for mine, theirs in zip(one[0], other[0], strict=True):
        assert np.array_equal(mine, theirs)
    assert shrinkage(*one) == shrinkage(*other)


def test_one_segment_sees_the_averages_and_counts_of_all_bit_for_bit() -> None:
    rng = np.random.default_rng(1)
    made = recorded([(0, int(rng.integers(4)), rng.normal()) for _ in range(200)], 1, 5)
    seen, counts = seen_by(*made, 0)
    assert np.array_equal(seen.means, made[1].means)  # arm 4 has no rating, and shows the prior
    assert np.array_equal(counts, made[1].pulls)
    assert seen.means[4] == 0.25


def test_limits_of_shrinkage() -> None:
    own, everyone = 4.0 / 5, 10.0 / 50
    assert shrunk_average(5.0, 4.0, everyone, math.inf) == everyone
    assert shrunk_average(0.0, 0.0, everyone, 3.0) == everyone
    assert shrunk_average(0.0, 0.0, everyone, 0.0) == everyone
    assert shrunk_average(5.0, 4.0, everyone, 0.0) == pytest.approx(own)
    assert shrunk_average(5.0, 4.0, everyone, 5.0) == pytest.approx((own + everyone) / 2)
    assert effective_count(5.0, 50.0, 1000.0, math.inf) == 50
    assert effective_count(5.0, 50.0, 1000.0, 0.0) == 5
    assert effective_count(0.0, 50.0, 1000.0, 0.0) == 0
    assert effective_count(0.0, 0.0, 0.0, 7.0) == 0
    counts = [effective_count(5.0, 50.0, 1000.0, lam) for lam in np.logspace(-6, 12, 200)]
    assert (np.diff(counts) >= -1e-9).all()
    assert counts[0] == pytest.approx(5, rel=1e-4)
    assert counts[-1] == pytest.approx(50)


def test_a_segment_that_nobody_rated_is_known_less_than_all_visitors() -> None:
    """With λ = 10, other segments' ratings are worth fewer than 10 of its own, however many."""
    for everyone in (100.0, 10_000.0, 1e8):
        assert 0 < effective_count(0.0, everyone, everyone**2 / 4, 10.0) < 10


def test_the_estimate_and_the_counts_are_right_on_average() -> None:
    """200 draws of the model, with 6 segments, 5 arms and 3 to 40 ratings of each: λ = 4.

    The squared error of an average, times its count, is σ² = 1 on average, if λ is known; its
    standard error is 0.02. With the estimate of λ, the count is too large by some 6 %. The median
    of the estimates has a standard error of 0.1. The seed is fixed. The control takes the ratings
    of all visitors for the segment's own.
    """
    rng = np.random.default_rng(7)
    estimates, given_lambda, estimated, control = [], [], [], []
    for _ in range(200):
        means = rng.normal(size=5) + 0.5 * rng.normal(size=(6, 5))
        pulls = rng.integers(3, 41, size=(6, 5))
        ratings = [
            (s, i, x)
            for s, i in np.ndindex(6, 5)
            for x in means[s, i] + rng.normal(size=pulls[s, i])
        ]
        ledgers, ledger = recorded(ratings, 6, 5)
        estimates.append(shrinkage(ledgers, ledger))
        s = int(rng.integers(6))
        seen, counts = seen_by(ledgers, ledger, s)
        estimated.append((seen.means - means[s]) ** 2 * counts)
        control.append((ledger.means - means[s]) ** 2 * ledger.pulls)
        for r, i in np.ndindex(6, 5):
            n, total = float(pulls[r, i]), ledgers.sums[i, r]
            error = shrunk_average(n, total, ledger.means[i], 4.0) - means[r, i]
            everyone, squared = float(ledger.pulls[i]), ledgers.squared_pulls[i]
            given_lambda.append(error**2 * effective_count(n, everyone, squared, 4.0))
    assert np.median(estimates) == pytest.approx(4, abs=0.5)
    assert np.mean(given_lambda) == pytest.approx(1, abs=0.1)
    assert np.mean(estimated) == pytest.approx(1.06, abs=0.25)
    assert np.mean(control) > 5
