"""The assumptions of a plan, in sentences."""

from __future__ import annotations

import html
import math
from pathlib import Path

from entice.planner.formatting import format_money
from entice.planner.segments import PlanSegments
from entice.planner.spec import Plan
from entice.worlds.delays import Delay, ExponentialDelay, LogNormalDelay, TableDelay
from entice.worlds.players import Acceptance, AlwaysAccept, LogisticAcceptance
from entice.worlds.response import Response

_DAY = 24 * 3600
"""A day, in seconds."""


def describe_assumptions(plan: Plan) -> list[str]:
    """Return the assumptions about items, visitors and drift."""
    low, high = plan.drift
    slope = f"{low:g} stars" if low == high else f"{low:g} to {high:g} stars, all equally likely"
    unrated = "to be as good as a typical one"
    if plan.unrated_shows is not None:
        unrated = f"to have {plan.unrated_shows:g} stars"
    star = format_money(plan, plan.price_of_a_star)
    texts = [
        f"{plan.arms:,} items. {_items(plan)}",
        f"{plan.visitors_a_day:,} visitors a day for {plan.days:,} days, each of whom takes one "
        f"item. {_raters(plan)}, {_delay(plan.rating_delay)}. {_rating_window(plan)}",
        f"Visitors who take an item that looks worse are paid {star} for each star of the "
        f"difference. {_acceptance(plan, plan.acceptance)} Visitors who decline take the item that "
        "looks best.",
        f"A payment worth one star raises the rating by {slope}. Ratings are whole stars from 1 "
        "to 5.",
        f"The campaign starts without ratings. Visitors expect an unrated item {unrated}.",
    ]
    if plan.close_enough > 0:
        texts.append(f"An item within {plan.close_enough:g} stars of the best one counts as best.")
    if plan.policy_sees == "zero_to_one":
        texts.append("Policies see 1 to 5 stars as 0 to 1.")
    return texts + _limits(plan)


def assumptions_html(plan: Plan) -> str:
    """Return the assumptions and the policies for a notebook."""
    policies = "Policies: " + ", ".join(policy.label for policy in plan.policies) + "."
    runs = f"{plan.replications:,} runs, " + (
        "seed to be drawn." if plan.seed is None else f"seed {plan.seed}."
    )
    items = "".join(
        f"<li>{html.escape(text)}</li>" for text in [*describe_assumptions(plan), policies, runs]
    )
    return f"<ul>{items}</ul>"


def _raters(plan: Plan) -> str:
    if plan.response is None:
        return f"{_percent(plan.share_who_rate)} of them rate it"
    text = (
        f"Of those whose experience is worth 1 star, {_share_of_raters(plan.response, 1.0, 0.0)} "
    )
    text += f"rate it, of those with 5 stars {_share_of_raters(plan.response, 5.0, 0.0)}"
    if plan.response.by_payment == 0:
        return text
    paid = " and ".join(_share_of_raters(plan.response, stars, 1.0) for stars in (1.0, 5.0))
    return f"{text} (if paid the worth of a star, {paid})"


def _share_of_raters(response: Response, stars: float, payment: float) -> str:
    kernel = response.kernel()
    return _percent(kernel.probability(stars, payment, kernel.params))


def _delay(delay: float | Delay) -> str:
    if isinstance(delay, ExponentialDelay):
        return f"{_time(delay.mean)} later on average"
    if isinstance(delay, LogNormalDelay):
        return f"half of them within {_time(delay.median)}"
    if isinstance(delay, TableDelay):
        return f"all of them within {_time(delay.ages[-1])}"
    return f"{_time(delay)} later" if delay > 0 else "immediately"


def _rating_window(plan: Plan) -> str:
    late = "count, too" if plan.late_ratings else "are rejected"
    return f"A rating is awaited for {_time(plan.rating_window / _DAY)}; later ones {late}."


def _time(days: float) -> str:
    """Write a time in the largest unit of which it is at least one.

    >>> from entice.planner.assumptions import _time
    >>> _time(30), _time(1), _time(0.25), _time(60 / 86_400), _time(1 / 86_400)
    ('30 days', '1 day', '6 hours', '1 minute', '1 second')
    """
    for unit, length in (("day", 1), ("hour", 24), ("minute", 1440), ("second", _DAY)):
        count = round(days * length, 6)
        if count >= 2 or count == 1 or unit == "second":
            return f"{count:.3g} {unit}{'' if count == 1 else 's'}"
    raise AssertionError


def _limits(plan: Plan) -> list[str]:
    """Return the assumptions about margin, caps, pacing, probes, prices, overlap, the holdout."""
    texts = []
    if plan.margin > 0:
        texts.append(f"{format_money(plan, plan.margin)} is added to every payment.")
    caps = [cap for cap in (plan.cap_per_offer, plan.cap_per_player) if cap is not None]
    if caps:
        texts.append(f"No visitor is offered more than {format_money(plan, min(caps))}.")
    if plan.pace_over is not None:
        texts.append(f"The budget is spread over {plan.pace_over:,} offers.")
    if plan.probe is not None:
        amounts = " or ".join(f"{amount:g}" for amount in plan.probe.amounts)
        texts.append(
            f"In {_percent(plan.probe.share)} of the offers of a visitor's own choice, a coin toss "
            f"decides whether {amounts} stars are added, to measure the drift."
        )
    if plan.price is not None:
        texts.append(
            "The price is learned: instead of the difference, visitors are paid the cheapest price "
            f"that {_percent(plan.price.acceptance)} of them accept, if that is less. In "
            f"{_percent(plan.price.explore)} of these offers the price is drawn at random."
        )
    if plan.overlap > 0:
        texts.append(
            f"In {_percent(plan.overlap)} of the decisions the item is drawn at random, so that "
            "the log can evaluate other policies. Visitors who get a drawn item that looks worse "
            "are paid the difference, under every policy."
        )
    if plan.holdout > 0:
        ratings = "count in" if plan.holdout_feeds_averages else "are kept out of"
        texts.append(
            f"{_percent(plan.holdout)} of the visitors are held out: they are never paid and take "
            f"the item that looks best. Their ratings {ratings} the averages."
        )
    return texts


def _segments(segments: PlanSegments) -> str:
    shares = ", ".join(_percent(share) for share in segments.shares)
    known = (
        "The campaign knows each visitor's segment, and decides by the segment's averages."
        if segments.known
        else "The campaign does not know them: all visitors are one population."
    )
    return (
        f"Visitors belong to {len(segments.shares)} segments ({shares}), each with true averages "
        f"of its own. {known} Lost stars are counted against the best item of the visitor's "
        "segment."
    )


def _items(plan: Plan) -> str:
    if plan.segments is not None:
        return _segments(plan.segments)
    if plan.spread is not None:
        centre, width = plan.spread.centre, plan.spread.width
        if plan.spread.shape == "normal":
            return (
                f"Their true averages are around {centre:g} stars, two in three of them within "
                f"{width:g}; it is unknown which items are better."
            )
        low, high = max(1.0, centre - width), min(5.0, centre + width)
        return (
            f"Their true averages are between {low:g} and {high:g} stars, with all values equally "
            "likely; it is unknown which items are better."
        )
    assert plan.star_counts is not None
    if plan.star_counts.path is None:
        return "Their true averages are drawn from the distribution given their star counts."
    of = f" of category {plan.star_counts.category}" if plan.star_counts.category else ""
    return f"Each run draws its items{of} from {Path(plan.star_counts.path).name}."


def _acceptance(plan: Plan, acceptance: Acceptance) -> str:
    if isinstance(acceptance, AlwaysAccept):
        return "All visitors accept such an offer."
    if isinstance(acceptance, LogisticAcceptance):
        most = acceptance.midpoint + acceptance.width * math.log(9)
        if acceptance.midpoint <= 0:
            none = 1 / (1 + math.exp(acceptance.midpoint / acceptance.width))
            return f"{_percent(none)} accept the smallest offer, more a larger one."
        midpoint = format_money(plan, acceptance.midpoint * plan.price_of_a_star)
        return (
            f"Half of them accept an offer of {acceptance.midpoint:.2g} stars ({midpoint}), nine "
            f"in ten an offer of {most:.2g} stars."
        )
    pairs = list(zip(acceptance.payments, acceptance.shares, strict=True))
    (least, few), (most, many) = pairs[0], pairs[-1]
    return (
        f"{_percent(few)} accept an offer of {least:g} stars or less, {_percent(many)} an offer of "
        f"{most:g} stars or more."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
