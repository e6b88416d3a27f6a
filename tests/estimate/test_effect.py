"""The readout of a holdout: every verdict, its cost and sentence, and what it rejects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from entice import InputError
from entice.estimate import Effect, GroupTotals, measure_effect
from entice.money import Currency

EURO = Currency("EUR", 2)
PAID = GroupTotals(90_000, 18_000, 77_400, 347_000, 1_260_000)
SETTINGS: dict[str, Any] = {"holdout_share": 0.1, "lowest_rating": 1, "highest_rating": 5}


def held_out(rating: float, rated: int = 2_000, visitors: int = 10_000, **rest: Any) -> GroupTotals:
    """Return a holdout whose ratings have this mean and a variance of 0.8."""
    squares = rated * (0.8 + rating**2)
    return GroupTotals(visitors, rated, rated * rating, squares, rest.pop("paid", 0), **rest)


def measure(holdout: GroupTotals, **changes: Any) -> Effect:
    return measure_effect(PAID, holdout, **(SETTINGS | changes))


def interval(effect: Effect) -> tuple[float, float]:
    assert effect.low is not None
    assert effect.high is not None
    return effect.low, effect.high


def test_averages_by_hand() -> None:
    effect = measure(held_out(4.1))
    assert (effect.paid.rating, effect.paid.share_rated, effect.paid.payment) == (4.3, 0.2, 14.0)
    assert effect.holdout.rating == pytest.approx(4.1)
    assert (effect.holdout.share_rated, effect.holdout.payment) == (0.2, 0.0)
    assert effect.difference == pytest.approx(0.2)
    assert effect.split.observed == 0.1


def test_a_better_campaign_has_a_cost_per_star() -> None:
    """14 cents per visitor for 0.2 stars are 70 cents a star."""
    effect = measure(held_out(4.1), currency=EURO)
    assert effect.verdict == "better"
    low, high = interval(effect)
    assert 0.05 < low < 0.2 < high < 0.35
    assert effect.cost_per_star == pytest.approx(70)
    assert effect.cost_low == pytest.approx(14 / high)
    assert effect.cost_high == pytest.approx(14 / low)
    assert effect.cost_note == ""
    assert effect.sentence == (
        "Ratings are higher with the campaign: 4.30 against 4.10 stars in the holdout. The true "
        "difference is between +0.12 and +0.28 stars (at 95 % confidence, at every look). A star "
        "more per visitor costs about €0.70. Part of it can be the effect of payments on "
        "ratings, rather than of better choices."
    )
    assert "€" not in measure(held_out(4.1)).sentence


def test_payments_of_the_holdout_are_subtracted() -> None:
    assert measure(held_out(4.1, paid=20_000)).cost_per_star == pytest.approx(60)


@pytest.mark.parametrize(
    ("holdout", "verdict", "words"),
    [
        (held_out(4.3), "no_clear_difference", "No clear difference yet: 4.30 against 4.30 stars"),
        (held_out(4.5), "worse", "Ratings are lower with the campaign: 4.30 against 4.50 stars"),
        (held_out(4.0, 5), "too_few_ratings", "18,000 with the campaign, 5 without it. The"),
        (held_out(4.0, 0), "too_few_ratings", "18,000 with the campaign, 0 without it."),
        (held_out(4.1, visitors=9_000), "split_broken", "9.09 % of the visitors"),
    ],
)
def test_other_verdicts_have_a_sentence_and_no_cost(
    holdout: GroupTotals, verdict: str, words: str
) -> None:
    effect = measure(holdout)
    assert effect.verdict == verdict
    assert words in effect.sentence
    assert effect.cost_per_star is effect.cost_low is effect.cost_high is None
    assert effect.cost_note


def test_a_broken_split_overrides_a_clear_difference() -> None:
    effect = measure(held_out(4.1, visitors=9_000))
    assert interval(effect)[0] > 0
    assert effect.sentence.startswith("Do not trust this comparison")


def test_without_anything_there_is_nothing_to_divide_by() -> None:
    nothing = GroupTotals(0, 0, 0, 0, 0)
    effect = measure_effect(nothing, nothing, **SETTINGS)
    assert effect.verdict == "too_few_ratings"
    assert effect.paid.rating is effect.paid.share_rated is effect.paid.payment is None
    assert effect.split.observed is None
    assert effect.split.p_value == 1


def test_groups_can_be_exchanged() -> None:
    holdout = held_out(4.1)
    there = measure(holdout)
    back = measure_effect(holdout, PAID, **(SETTINGS | {"holdout_share": 0.9}))
    assert (back.difference, back.low, back.high) == pytest.approx(
        tuple(-x for x in (there.difference, there.high, there.low) if x is not None)
    )


def test_the_interval_does_not_depend_on_the_units_of_the_scale() -> None:
    """Stars from 1 to 5 as points from 0 to 100: 25 (y − 1)."""

    def in_points(group: GroupTotals) -> GroupTotals:
        n, total, squares = group.rated, group.rating_sum, group.rating_squares
        return GroupTotals(
            group.visitors, n, 25 * (total - n), 625 * (squares - 2 * total + n), group.paid
        )

    holdout = held_out(4.1)
    points = measure_effect(
        in_points(PAID), in_points(holdout), holdout_share=0.1, lowest_rating=0, highest_rating=100
    )
    assert interval(points) == pytest.approx([25 * end for end in interval(measure(holdout))])


def test_an_end_of_the_interval_beside_0_is_not_written_as_0() -> None:
    low, _ = interval(measure(held_out(4.1)))
    effect = measure(held_out(4.1 + low - 0.0021))
    assert effect.verdict == "better"
    assert "between +0.00" in effect.sentence
    assert "+0.00 " not in effect.sentence


def test_more_confidence_needs_a_wider_interval() -> None:
    widths = []
    for confidence in (0.8, 0.95, 0.999):
        effect = measure(held_out(4.1), confidence=confidence)
        low, high = interval(effect)
        widths.append(high - low)
    assert widths == sorted(widths)
    assert widths[2] > 1.3 * widths[0]


def test_an_effect_can_be_sent_as_json() -> None:
    effect = measure(held_out(4.1))
    assert msgspec.json.decode(msgspec.json.encode(effect), type=Effect) == effect


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"holdout_share": 0}, "holdout_share must be greater than 0 and less than 1; got 0."),
        ({"holdout_share": 1.0}, "holdout_share must be greater than 0 and less than 1; got 1.0."),
        ({"confidence": 95}, "confidence must be greater than 0 and less than 1; got 95."),
        ({"lowest_rating": 1.5}, "lowest_rating must be a whole number; got 1.5."),
        ({"highest_rating": 1}, "highest_rating must be greater than lowest_rating, 1; got 1."),
        ({"highest_rating": 4}, "paid_group: rating_sum must be between 18,000 and 72,000 for"),
    ],
)
def test_bad_settings_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure(held_out(4.1), **changes)


@pytest.mark.parametrize(
    ("totals", "message"),
    [
        ((10, 11, 40, 170, 0), "GroupTotals: rated must be at most visitors, 10; got 11."),
        ((10, -1, 0, 0, 0), "GroupTotals: rated must be a whole number of at least 0; got -1."),
        ((10, 5, float("nan"), 0, 0), "GroupTotals: rating_sum must be a finite number; got nan."),
        ((10, 5, 20, 80, -1), "GroupTotals: paid must be a whole number of at least 0; got -1."),
        ((10, 5, 20, 80, 0, 11), "GroupTotals: players must be at most 10; got 11."),
        ((10, 5, 4, 80, 0), "holdout: rating_sum must be between 5 and 25 for 5 ratings; got 4"),
        ((10, 5, 20, 79, 0), "holdout: rating_squares must be between 80 and 95 for such a"),
        ((10, 5, 20, 96, 0), "holdout: rating_squares must be between 80 and 95 for such a"),
        ((10, 0, 1, 1, 0), "holdout: rating_sum must be between 0 and 0 for 0 ratings; got 1"),
    ],
)
def test_impossible_totals_are_rejected(totals: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure(GroupTotals(*totals))
