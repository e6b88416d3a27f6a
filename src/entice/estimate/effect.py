"""The effect of a campaign: its ratings and payments beside those of a holdout.

A holdout is a random share of players who get their own choice, unpaid. `measure_effect` compares
the ratings of both groups. Its interval is the confidence sequence of
`entice.estimate.confidence_sequence`, its check of the split the test of `entice.estimate.split`;
both are valid at every look.

What the difference does not say:

- *The unit is a rating.* The guarantee is about the average of the means of ratings given all that
  came before, including earlier ratings of the same player. If few players give most ratings, the
  interval is valid for their ratings, but too narrow for a statement about other players.
- *Raters select themselves.* Ratings of players who did not rate are not known. If payments change
  who rates, the difference contains that change. Compare the shares rated.
- *Payments can raise ratings by themselves*, the drift. The difference contains it. A randomised
  probe measures it: `probe_slope`.
- *Spillover is missed.* Held-out players see averages that paid players' ratings helped to form.
  What the campaign does for everybody through these averages, its main purpose, is not in the
  difference. So a campaign that is good for all can show no difference, or a small loss.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from entice.checks import as_number, as_whole_number, field_name, set_number, set_whole
from entice.errors import InputError
from entice.estimate.confidence_sequence import RatingSums, difference_interval
from entice.estimate.split import SplitCheck, check_split
from entice.money import Currency

METHOD = "empirical Bernstein confidence sequence"
UNINFORMATIVE = 0.5
"""An interval that includes 0 and is longer than this share of the scale is reported as too few
ratings: on a scale from 1 to 5, one longer than 2 stars."""
_ROUNDING = 1e-6
_SPILLOVER = (
    "Both groups see the same averages, so what the campaign improves for everybody is not in it."
)

Verdict = Literal["split_broken", "too_few_ratings", "no_clear_difference", "better", "worse"]


class GroupTotals(msgspec.Struct, frozen=True):
    """What a group of players did: counts, sums of ratings in stars, payments in minor units."""

    visitors: int
    """Visits: decisions for players of this group."""
    rated: int
    """Visits that were rated."""
    rating_sum: float
    rating_squares: float
    """The sum of the squares of the ratings."""
    paid: int
    """The total of payments, in minor units."""
    players: int | None = None
    """Players among the visitors, each counted once; None if each visitor is another player.

    Players are split, not visits, so the split is checked on players: visits of the same player
    all fall into the same group.
    """
    declined: int | None = None
    """Visits whose offer was declined, and so not rated; None if they are not known."""

    def __post_init__(self) -> None:
        """Check that there can be such totals."""
        visitors = set_whole(self, "visitors", at_least=0)
        rated = set_whole(self, "rated", at_least=0)
        set_whole(self, "paid", at_least=0, at_most=2**63 - 1)
        set_number(self, "rating_sum")
        set_number(self, "rating_squares")
        if self.players is not None:
            set_whole(self, "players", at_least=0, at_most=max(visitors, 0))
        if rated > visitors:
            rule = f"must be at most visitors, {visitors}"
            raise InputError(field_name(self, "rated"), rule, given=rated)
        if self.declined is not None:
            declined = set_whole(self, "declined", at_least=0)
            if declined > visitors - rated:
                rule = f"must be at most the visitors who did not rate, {visitors - rated}"
                raise InputError(field_name(self, "declined"), rule, given=declined)


class GroupResult(msgspec.Struct, frozen=True):
    """Averages of a group; None where there is nothing to average."""

    visitors: int
    rated: int
    rating: float | None
    """The average rating, per rated visitor, in stars."""
    share_rated: float | None
    """The share of visitors who rated, of those who did not decline, if decliners are known.

    Decliners take their own choice and may rate it, but not in their group. Hardly anybody declines
    in the holdout, so with them the shares of the groups could not be compared.
    """
    payment: float | None
    """The average payment per visitor, in minor units."""
    declined: int | None
    """Visitors who declined; None if they are not known."""


class Effect(msgspec.Struct, frozen=True):
    """The difference between the players of a campaign and its holdout, and what it cost."""

    paid: GroupResult
    holdout: GroupResult
    difference: float | None
    """Rating per rated visitor, paid group minus holdout, in stars; None if a group has none."""
    low: float | None
    """The lower end of the interval of the difference."""
    high: float | None
    """The upper end of the interval of the difference."""
    confidence: float
    """The probability that the interval contains the true difference at every look."""
    method: str
    cost_per_star: float | None
    """Payment per visitor for each star of the difference, in minor units; None if the interval of
    the difference includes 0 or less."""
    cost_low: float | None
    """The cost per star at the upper end of the difference."""
    cost_high: float | None
    """The cost per star at the lower end of the difference."""
    cost_note: str
    """Why there is no cost per star; empty if there is one."""
    split: SplitCheck
    verdict: Verdict
    sentence: str
    """The result in plain words."""


def measure_effect(
    paid_group: GroupTotals, holdout: GroupTotals, *, holdout_share: float,
    lowest_rating: int, highest_rating: int, confidence: float = 0.95,
    currency: Currency | None = None,
) -> Effect:  # fmt: skip
    """Compare the players of a campaign with its holdout.

    Parameters
    ----------
    paid_group, holdout
        Totals of the players whom the campaign could pay, and of the held-out ones.
    holdout_share
        The share of players that were to be held out.
    lowest_rating, highest_rating
        The limits of the rating scale, in stars.
    confidence
        The probability that the interval contains the true difference at every look.
    currency
        The currency of payments, to state the cost per star in the sentence.

    >>> from entice.estimate import GroupTotals, measure_effect
    >>> paid = GroupTotals(visitors=90_000, rated=18_000, rating_sum=77_400,
    ...                    rating_squares=347_000, paid=1_260_000)
    >>> holdout = GroupTotals(visitors=10_050, rated=2_010, rating_sum=8_241,
    ...                       rating_squares=35_800, paid=0)
    >>> effect = measure_effect(paid, holdout, holdout_share=0.1, lowest_rating=1,
    ...                         highest_rating=5)
    >>> effect.verdict, round(effect.difference, 2), round(effect.low, 2), round(effect.high, 2)
    ('better', 0.2, 0.12, 0.28)
    """
    share = _check_share("holdout_share", holdout_share)
    level = _check_share("confidence", confidence)
    lowest = as_whole_number("lowest_rating", lowest_rating)
    highest = as_whole_number("highest_rating", highest_rating)
    if highest <= lowest:
        rule = f"must be greater than lowest_rating, {lowest}"
        raise InputError("highest_rating", rule, given=highest_rating)
    for name, group in (("paid_group", paid_group), ("holdout", holdout)):
        _check_ratings(name, group, lowest, highest)

    results = _averages(paid_group), _averages(holdout)
    split = check_split(_players(paid_group), _players(holdout), share)
    interval = None
    if paid_group.rated and holdout.rated:
        ends = difference_interval(
            _sums(paid_group), _sums(holdout), share_of_other=share,
            lowest=lowest, highest=highest, confidence=level,
        )  # fmt: skip
        interval = tuple(float(end) for end in ends)
    verdict = _verdict(interval, split, highest - lowest)
    cost, cost_note = _cost(interval, results, verdict)
    difference, low, high = interval or (None, None, None)
    effect = Effect(
        *results, difference, low, high, level, METHOD, *cost, cost_note, split, verdict, ""
    )
    return msgspec.structs.replace(effect, sentence=_sentence(effect, currency))


def _check_share(name: str, given: float) -> float:
    value = as_number(name, given)
    if not 0 < value < 1:
        raise InputError(name, "must be greater than 0 and less than 1", given=given)
    return value


def _check_ratings(name: str, group: GroupTotals, lowest: int, highest: int) -> None:
    """Check that ratings within the scale can have these sums."""
    n, total, squares = group.rated, group.rating_sum, group.rating_squares
    slack = _ROUNDING * max(1.0, n * max(abs(lowest), abs(highest)) ** 2)
    if not lowest * n - slack <= total <= highest * n + slack:
        rule = f"must be between {lowest * n:,} and {highest * n:,} for {n:,} ratings"
        raise InputError(f"{name}: rating_sum", rule, given=total)
    # Cauchy–Schwarz, and (y − lowest) (highest − y) ≥ 0 for each rating y.
    least = total * total / n if n else 0.0
    most = (lowest + highest) * total - n * lowest * highest
    if not least - slack <= squares <= most + slack:
        rule = f"must be between {least:,.6g} and {most:,.6g} for such a rating_sum"
        raise InputError(f"{name}: rating_squares", rule, given=squares)


def _averages(group: GroupTotals) -> GroupResult:
    visitors, rated = group.visitors, group.rated
    took_offer = visitors - (group.declined or 0)
    return GroupResult(
        visitors, rated,
        group.rating_sum / rated if rated else None,
        rated / took_offer if took_offer else None,
        group.paid / visitors if visitors else None,
        group.declined,
    )  # fmt: skip


def _players(group: GroupTotals) -> int:
    return group.visitors if group.players is None else group.players


def _sums(group: GroupTotals) -> RatingSums:
    totals = group.rated, group.rating_sum, group.rating_squares
    return RatingSums(*map(np.asarray, totals))


def _verdict(interval: tuple[float, ...] | None, split: SplitCheck, span: int) -> Verdict:
    if split.broken:
        return "split_broken"
    if interval is None:
        return "too_few_ratings"
    _, low, high = interval
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    return "too_few_ratings" if high - low > UNINFORMATIVE * span else "no_clear_difference"


def _cost(
    interval: tuple[float, ...] | None, results: tuple[GroupResult, GroupResult], verdict: Verdict
) -> tuple[tuple[float | None, float | None, float | None], str]:
    """Return the cost per star, its limits, and the reason if there is none."""
    none = None, None, None
    if verdict == "split_broken":
        return none, "the split of players is not as intended, so the groups cannot be compared"
    if interval is None:
        return none, "a group has no ratings yet"
    difference, low, high = interval
    if low <= 0:
        return none, "a gain is not certain: the interval of the difference includes 0 or less"
    paid, held_out = results
    spent = (paid.payment or 0.0) - (held_out.payment or 0.0)
    return (spent / difference, spent / high, spent / low), ""


def _sentence(effect: Effect, currency: Currency | None) -> str:
    split, paid, holdout = effect.split, effect.paid, effect.holdout
    if effect.verdict == "split_broken":
        return (
            f"Do not trust this comparison: {_percent(split.observed)} of the visitors are in the "
            f"holdout instead of {_percent(split.intended)}, which chance does not explain. "
            "Find out which visitors are missing or counted twice."
        )
    few = f"Too few ratings to tell: {paid.rated:,} with the campaign, {holdout.rated:,} without it"
    if effect.low is None or effect.high is None:
        return f"{few}."
    within = f"between {_signed(effect.low)} and {_signed(effect.high)} stars"
    if effect.verdict == "too_few_ratings":
        return f"{few}. The true difference can be anywhere {within}."
    averages = f"{paid.rating:.2f} against {holdout.rating:.2f} stars"
    sure = f"(at {_percent(effect.confidence)} confidence, at every look)"
    if effect.verdict == "no_clear_difference":
        return (
            f"No clear difference yet: {averages} in the holdout. The true difference is {within} "
            f"{sure}. {_SPILLOVER}"
        )
    if effect.verdict == "worse":
        return (
            f"Ratings are lower with the campaign: {averages} in the holdout. The true difference "
            f"is {within} {sure}. {_SPILLOVER}"
        )
    cost = ""
    if currency is not None and effect.cost_per_star is not None:
        price = currency.format(round(effect.cost_per_star))
        cost = f" A star more per visitor costs about {price}."
    return (
        f"Ratings are higher with the campaign: {averages} in the holdout. The true difference is "
        f"{within} {sure}.{cost} Part of it can be the effect of payments on "
        "ratings, rather than of better choices."
    )


def _signed(stars: float) -> str:
    digits = 3 if 0 < abs(stars) < 0.005 else 2  # an end beside 0 is not written as 0
    return f"{stars:+.{digits}f}".replace("-", "−")


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.3g} %"
