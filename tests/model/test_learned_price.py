"""The learned price: its grid, its isotonic curve and its draws, against the oracle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from oracles import learned_price as oracle

import entice
from entice.model.learned_price import (
    MIN_ANSWERS,
    NOT_LEARNED,
    SHARES_OF_SCALE,
    AcceptanceCurve,
    cheapest_eligible,
    fit_curve,
    new_curve,
    price_offer,
    record_answer,
)
from entice.rng import PRICE, new_stream, uniform

pytestmark = pytest.mark.usefixtures("unmeasured")


def curve_with(answers: Any, accepted: Any) -> AcceptanceCurve:
    curve = new_curve(4)
    curve.answers[: len(answers)], curve.accepted[: len(accepted)] = answers, accepted
    return curve


def shares(curve: AcceptanceCurve) -> list[float | None]:
    pairs = zip(curve.pooled_accepted.tolist(), curve.pooled_answers.tolist(), strict=True)
    return [accepted / answers if answers else None for accepted, answers in pairs]


def random_curve(rng: np.random.Generator) -> AcceptanceCurve:
    """Return a curve with gaps, violations of the order, and prices with few answers."""
    answers = rng.integers(0, 30, 24) * (rng.random(24) < rng.uniform(0.2, 1))
    slope = rng.uniform(-0.5, 1.5)
    accepted = rng.binomial(answers, np.clip(0.5 + slope * (np.arange(24) / 24 - 0.5), 0, 1))
    return curve_with(answers, accepted)


def test_the_grid_is_geometric_and_fits_the_scale() -> None:
    assert new_curve(4).prices.tolist() == pytest.approx([float(price) for price in oracle.PRICES])
    assert new_curve(10).prices[-1] == 10
    ratios = np.diff(np.log(SHARES_OF_SCALE))
    assert 1.25 <= math.exp(ratios.min()) <= math.exp(ratios.max()) <= 1.28 + 1e-9


@pytest.mark.parametrize(
    ("payment", "price"),
    [(0.0001, 0.02), (0.02, 0.02), (0.0201, 0.0252), (4.5 - 4.3, 0.2), (0.21, 0.252), (7.0, 4.0)],
)
def test_an_answer_counts_at_the_price_that_covers_it(payment: float, price: float) -> None:
    curve = new_curve(4)
    position = record_answer(curve, payment, True)
    record_answer(curve, payment, False)
    assert curve.prices[position] == pytest.approx(price)
    assert position == oracle.position(payment)
    assert (curve.answers.sum(), curve.accepted.sum()) == (2, 1)
    assert (curve.answers[position], curve.accepted[position]) == (2, 1)


def test_adjacent_violators_are_pooled() -> None:
    # At price 2, 8 of 10; at price 3 none of 10, so both have 8 of 20; nothing is known below.
    curve = curve_with([0, 0, 10, 10, 0, 5], [0, 0, 8, 0, 0, 5])
    fit_curve(curve)
    assert shares(curve)[:7] == [None, None, 0.4, 0.4, 0.4, 1.0, 1.0]


def test_curve_and_price_equal_the_oracle() -> None:
    rng = np.random.default_rng(1)
    learned = 0
    for _ in range(300):
        curve, wanted = random_curve(rng), float(rng.uniform(0.1, 0.95))
        answers, accepted = curve.answers.tolist(), curve.accepted.tolist()
        fit_curve(curve)
        expected = oracle.isotonic(answers, accepted)
        assert shares(curve) == [None if share is None else float(share) for share in expected]
        found = cheapest_eligible(curve, wanted)
        assert (None if found == NOT_LEARNED else found) == oracle.learned(
            answers, accepted, wanted
        )
        learned += found != NOT_LEARNED
    assert 100 < learned < 290


def test_a_price_needs_enough_answers_of_its_own() -> None:
    curve = curve_with([MIN_ANSWERS - 1, 0, 0, MIN_ANSWERS], [MIN_ANSWERS - 1, 0, 0, MIN_ANSWERS])
    fit_curve(curve)
    assert cheapest_eligible(curve, 0.9) == 3
    curve.answers[0] += 1
    curve.accepted[0] += 1
    fit_curve(curve)
    assert cheapest_eligible(curve, 0.9) == 0


def test_payments_and_probabilities_equal_the_oracle() -> None:
    rng, stream = np.random.default_rng(2), np.zeros(4, np.uint64)
    drawn = 0
    for t in range(1, 400):
        curve, wanted = random_curve(rng), float(rng.uniform(0.1, 0.95))
        explore, gap = float(rng.choice([0.0, 0.05, 0.6])), float(rng.exponential(0.5))
        payment, propensity, explored, learned = price_offer(
            curve, wanted, explore, gap, 5, t, stream
        )
        cheapest = None if learned == NOT_LEARNED else learned
        possible = oracle.possible_payments(gap, cheapest, explore)
        assert sum(p for _, p in possible) == pytest.approx(1)
        u = uniform(new_stream(5, t, PRICE))
        among = possible[1:]
        expected = among[int(u / explore * len(among))] if u < explore else possible[0]
        assert (payment, explored) == (expected[0], u < explore)
        same = sum(p for other, p in possible if other == payment)
        assert propensity == pytest.approx(same, rel=1e-12)
        assert 0 < payment <= gap
        drawn += explored
    assert drawn > 50


def test_without_a_gap_nothing_is_paid_and_without_answers_the_gap_is_paid() -> None:
    stream, curve = np.zeros(4, np.uint64), new_curve(4)
    assert price_offer(curve, 0.8, 0.0, 0.0, 1, 1, stream) == (0.0, 1.0, False, NOT_LEARNED)
    assert price_offer(curve, 0.8, 0.0, 0.3, 1, 1, stream) == (0.3, 1.0, False, NOT_LEARNED)
    # A gap beyond the scale, such as that of averages corrected for drift.
    assert price_offer(curve, 0.8, 0.0, 5.0, 1, 1, stream) == (5.0, 1.0, False, NOT_LEARNED)


def test_the_price_converges_to_the_cheapest_that_suffices() -> None:
    """Fixed seed. In each of 12 runs the last price must be within two steps of the right one.

    With the thousands of answers that it then has, its share has a standard error of 0.01, and two
    steps change acceptance by more than 0.05: an error probability below 1e-3.
    """
    stream = np.zeros(4, np.uint64)
    true = np.array([1 / (1 + math.exp(-(p - 0.2) / 0.05)) for p in new_curve(4).prices])
    right = int(np.argmax(true >= 0.8))
    for run in range(12):
        rng, curve = np.random.default_rng(run), new_curve(4)
        learned = NOT_LEARNED
        for t in range(1, 6001):
            gap = float(rng.uniform(0.4, 1.0))
            paid, _, _, learned = price_offer(curve, 0.8, 0.1, gap, run, t, stream)
            accept = 1 / (1 + math.exp(-(paid - 0.2) / 0.05))
            record_answer(curve, paid, bool(rng.random() < accept))
        assert abs(learned - right) <= 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"acceptance": 0}, "LearnedPrice: acceptance must be a share of players greater than 0"),
        ({"acceptance": 1}, "got 1.0. Without a learned price, offers pay the gap"),
        ({"acceptance": "most"}, "LearnedPrice: acceptance must be a number"),
        ({"explore": -0.1}, "LearnedPrice: explore must be a share of offers: at least 0"),
        (
            {"explore": 1},
            "less than 1; got 1.0. Use 0 for no random prices, or a share such as 0.05.",
        ),
        ({"explore": math.nan}, "LearnedPrice: explore must be"),
    ],
)
def test_bad_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(entice.InputError) as caught:
        entice.LearnedPrice(**settings)
    assert message in str(caught.value)
