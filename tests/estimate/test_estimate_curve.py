"""The drift as a curve, from probes with several amounts.

Seeds are fixed. If a test could fail by chance, its docstring gives the probability.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from estimate_fixtures import PAPER, POLICIES, TEA, drift_of, log, traces
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sizes import sized

import entice
from entice.estimate import probe_curve
from entice.estimate.curve import isotonic


@pytest.mark.parametrize(
    ("values", "weights", "fitted"),
    [
        ([1, 2, 3], [1, 1, 1], [1, 2, 3]),
        ([3, 2, 1], [1, 1, 1], [2, 2, 2]),
        ([1, 3, 2, 4], [1, 1, 1, 1], [1, 2.5, 2.5, 4]),
        ([1, 3, 2, 4], [1, 1, 3, 1], [1, 2.25, 2.25, 4]),
        ([2, 4, 3, 1], [1, 1, 1, 1], [2, 8 / 3, 8 / 3, 8 / 3]),
        ([5], [2], [5]),
        ([], [], []),
    ],
)
def test_decreasing_neighbours_are_pooled(values: Any, weights: Any, fitted: Any) -> None:
    assert isotonic(values, weights) == pytest.approx(np.array(fitted, dtype=float))


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 5)), min_size=1, max_size=12))
def test_pooling_matches_the_max_min_formula(pairs: list[tuple[int, int]]) -> None:
    """Isotonic regression in closed form: max over i ≤ k of min over j ≥ k of the mean of i … j."""
    values, weights = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    count = len(values)

    def mean(i: int, j: int) -> float:
        return float(np.average(values[i : j + 1], weights=weights[i : j + 1]))

    expected = [
        max(min(mean(i, j) for j in range(k, count)) for i in range(k + 1)) for k in range(count)
    ]
    assert isotonic(values, weights) == pytest.approx(expected, abs=1e-12)


def test_a_curve_computed_by_hand() -> None:
    """Ratings minus the mean of earlier unpaid ones; offers with another payment are left out.

    The mean is 0.5 until the first tails (0.4), then 0.45, then 0.5 after the next tails (0.6).
    """
    frame = log(
        ("tea", 0.0, 0.5, None), ("tea", 0.1, 0.9, 1), ("tea", 0.1, 1.1, 1), ("tea", 0.0, 0.4, 0),
        ("tea", 0.3, 0.65, 1), ("tea", 0.3, 0.85, 1), ("tea", 0.0, 0.6, 0), ("tea", 0.6, 1.3, 1),
        ("tea", 0.6, 1.5, 1), ("tea", 0.4, 7.0, 1), ("tea", 0.2, 7.0, 0),
    ).with_columns(
        probe_amount=pl.Series([None, 0.1, 0.1, 0.1, 0.3, 0.3, 0.6, 0.6, 0.6, 0.3, 0.1])
    )  # fmt: skip
    curve = probe_curve(frame)
    tails = (-0.1 + 0.15) / 2
    measured = np.array([0.5, 0.3, 0.9]) - tails
    points = curve.points
    assert points["payment"].to_list() == [0.1, 0.3, 0.6]
    assert points["measured"].to_numpy() == pytest.approx(measured)
    assert points["drift"].to_numpy() == pytest.approx([0.4 - tails, 0.4 - tails, 0.9 - tails])
    assert points["probes"].to_list() == [2, 2, 2]
    assert curve.observations == 8
    welch = stats.ttest_ind([0.8, 1.0], [-0.1, 0.15], equal_var=False).confidence_interval(0.95)
    wide = points["high"] - points["drift"]
    assert wide[2] == pytest.approx((welch.high - welch.low) / 2, rel=1e-6)


AMOUNTS = [0.1, 0.3, 0.6, 0.9]
SHAPES: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray]]] = {
    "step": (drift_of(step=0.5), lambda x: 0.5 + 0 * x),
    "linear": (drift_of(slope=1.0), lambda x: x),
    "saturating": (drift_of(slope=2.0, cap=0.6), lambda x: np.minimum(2 * x, 0.6)),
    "none": (drift_of(), lambda x: 0 * x),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_curve_has_the_shape_of_the_drift(shape: str) -> None:
    """Four 99.999 % intervals; fails by chance with probability 4e-5."""
    drift, truth = SHAPES[shape]
    rounds = entice.trace(
        arms=PAPER, policies=POLICIES[1:], drifts=[drift], horizon=40_000, seed=7,
        probe=entice.Probe(share=0.5, amount=AMOUNTS),
    )  # fmt: skip
    curve = probe_curve(rounds, level=0.99999)
    points, true = curve.points, truth(np.array(AMOUNTS))
    assert (points["low"].to_numpy() <= true).all()
    assert (points["high"].to_numpy() >= true).all()
    assert (points["high"] - points["low"]).max() < 0.4
    assert points["drift"].is_sorted()
    assert curve.warning == ""
    assert points["drift"][-1] - points["drift"][0] == pytest.approx(true[-1] - true[0], abs=0.2)


@pytest.mark.usefixtures("untraced")
def test_intervals_of_the_curve_cover_the_truth() -> None:
    """A step, where pooling has the largest effect.

    About 98 of 100 cover it. Fewer than 90 of 100, in the long version 93, has a probability of at
    most 1e-6, which is reached if the four intervals of a run are always wrong together.
    """
    probe = entice.Probe(share=0.5, amount=AMOUNTS)
    covered = []
    for frame in traces(sized(150, 300), POLICIES[1], SHAPES["step"][0], horizon=1000, probe=probe):
        points = probe_curve(frame).points
        covered.append((points["low"] <= 0.5) & (points["high"] >= 0.5))
    assert np.mean(covered) > sized(0.9, 0.93)


def test_feedback_that_decreases_with_the_payment_is_reported() -> None:
    rounds = entice.trace(
        arms=PAPER, policies=POLICIES[1:], drifts=[drift_of(slope=-1.0)], horizon=20_000,
        seed=7, probe=entice.Probe(share=0.5, amount=AMOUNTS),
    )  # fmt: skip
    curve = probe_curve(rounds)
    assert "decreases with the payment" in curve.warning
    assert curve.points["drift"].max() == 0


def test_a_curve_requires_two_ratings_of_each_kind() -> None:
    with pytest.raises(entice.InputError, match=r"1 with nothing added, by amount {'0\.3': 2}"):
        probe_curve(TEA[:4], amount=0.3)
    always_paid = TEA.with_columns(pl.col("payment") + 0.1)
    with pytest.raises(entice.InputError, match="0 with nothing added"):
        probe_curve(always_paid, amount=0.3)


def test_identical_ratings_have_an_interval_of_zero_width() -> None:
    rows = [("tea", 0.3 * (coin or 0), 0.5 + 0.1 * (coin or 0), coin) for coin in (None, 1, 0) * 2]
    points = probe_curve(log(*rows), amount=0.3).points
    assert points["low"][0] == points["high"][0] == pytest.approx(0.1)


# --- Probes with several amounts ------------------------------------------------------------


def test_all_amounts_are_probed_equally_often() -> None:
    """Six counts of 3,333 ± 53, within 5 deviations; fails with probability 1 in 300,000."""
    rounds = entice.trace(
        arms=PAPER, policies=POLICIES[1:], drifts=[drift_of()], horizon=40_000, seed=7,
        probe=entice.Probe(share=0.5, amount=[0.1, 0.3, 0.6]),
    )  # fmt: skip
    tossed = rounds.drop_nulls("probe")
    assert tossed["probe_amount"].null_count() == 0
    assert rounds.filter(pl.col("probe").is_null())["probe_amount"].count() == 0
    counts = tossed.group_by("probe", "probe_amount").len()
    assert counts.height == 6
    assert (counts["len"].cast(pl.Int64) - 20_000 / 6).abs().max() < 5 * 53
    unpaid = tossed.filter((pl.col("arm") == pl.col("greedy_arm")) & (pl.col("probe") == 1))
    assert (unpaid["payment"] == unpaid["probe_amount"]).all()


def test_several_amounts_survive_toml_and_json() -> None:
    study = entice.Study(
        arms=PAPER, policies=POLICIES, horizon=100, seed=7,
        probe=entice.Probe(share=0.1, amount=[0.1, 0.3]),
    )  # fmt: skip
    assert entice.Study.from_toml(study.to_toml()) == study
    assert entice.Study.from_json(study.to_json()) == study


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ([], "must have at least 1 numbers"),
        ([0.1, 0.0], "must be greater than 0"),
        ([0.1, 0.1], "must not repeat an amount"),
        (["much"], "must be a number"),
        ("much", "must be a number"),
    ],
)
def test_invalid_amounts_are_rejected(amount: Any, message: str) -> None:
    with pytest.raises(entice.InputError, match=message):
        entice.Probe(amount=amount)
