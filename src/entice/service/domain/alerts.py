"""The rules of alerts: which conditions of a campaign need attention, and what to do about them.

Each rule is a function of the campaign's state and of a few facts that storage supplies. The list,
the campaign's page and `/metrics` all get their alerts from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from entice.api_types import AlertKind, AlertView, CampaignPlan, DriftView, PlanStatus
from entice.money import Currency
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.in_flight_state import Expectation, rated_by_age
from entice.service.domain.offer import ACCEPTED, RATED, UNRATED, OfferRecord
from entice.service.domain.plan_status import plan_status

USED_UP = 0.01
"""Free share of the budget at or below which the budget counts as used up."""
AHEAD_OF_PACE = 0.95
"""Used share of what the pace permits from which the budget is ahead of its pace."""
MIN_PACED_OFFERS = 100
"""Number of offers before which the pace, a logarithm, is too steep to compare with."""
RECENT_OFFERS = 200
"""Number of offers whose ratings are compared with those of all offers."""
MIN_EXPECTED = 10.0
"""Ratings to expect from recent offers before their absence means anything."""
DEVIATIONS = 3.0
"""Standard deviations below the expected number of ratings: by chance 1 look in 700."""
MAX_NAMED = 5
"""Number of items that a message names."""
_OFF_PLAN = {
    PlanStatus.ABOVE_PLAN: AlertKind.SPENDING_ABOVE_PLAN,
    PlanStatus.BELOW_PLAN: AlertKind.SPENDING_BELOW_PLAN,
}


class RecentRatings(NamedTuple):
    """The ratings of the last accepted offers, and those to expect at the share of all offers."""

    accepted: int
    rated: int
    expected: float
    variance: float


class StoredFacts(NamedTuple):
    """What the rules need beside the campaign's state."""

    recent: RecentRatings | None = None
    drift: DriftView | None = None
    broken: Sequence[str] = ()
    """Names of the invariants that do not hold."""
    plan: CampaignPlan | None = None
    shadow_visitors: int = 0
    """Number of visitors before the campaign went live."""


def find_alerts(state: CampaignState, expected: Expectation, facts: StoredFacts) -> list[AlertView]:
    """Return the alerts of a campaign, the most urgent first.

    Only broken invariants concern a closed campaign. Only a live campaign spends money.
    """
    return list(_alerts(state, expected, facts))


def recent_ratings(state: CampaignState, offers: Iterable[OfferRecord]) -> RecentRatings | None:
    """Count the ratings of recent offers, and calculate how many to expect at their ages.

    Returns None if the campaign has too few earlier offers to compare with.
    """
    if state.flight is None or state.decisions < 2 * RECENT_OFFERS:
        return None
    accepted = [offer for offer in offers if offer.state in (ACCEPTED, RATED, UNRATED)]
    ages = np.array([state.at - offer.offered_at for offer in accepted], dtype=np.int64)
    shares = rated_by_age(state.unpack_flight(), ages)
    rated = sum(offer.state == RATED for offer in accepted)
    return RecentRatings(
        len(accepted), rated, float(shares.sum()), float((shares * (1 - shares)).sum())
    )


def _alerts(state: CampaignState, expected: Expectation, facts: StoredFacts) -> Iterator[AlertView]:
    money = state.money
    if facts.broken:
        yield AlertView(
            AlertKind.INVARIANTS_BROKEN,
            f"These checks of the stored data fail: {'; '.join(facts.broken)}.",
            "Pause the campaign, run `entice verify`, and restore a backup if it finds damage.",
        )
    if state.status == "live":
        yield from _budget_alerts(state, money, facts)
    if state.status == "closed":
        return
    if unrated := [state.arms[i] for i in state.without_first_rating(expected)]:
        yield AlertView(
            AlertKind.ITEMS_WITHOUT_RATINGS,
            f"{_items(unrated)} no rating, although the offers so far should have brought at "
            "least three.",
            "Check that visitors can rate these items, or retire them.",
        )
    if facts.recent is not None and _is_falling(facts.recent):
        recent = facts.recent
        yield AlertView(
            AlertKind.SHARE_WHO_RATE_FALLING,
            f"{recent.rated} of the last {recent.accepted} accepted offers are rated; at the share "
            f"of all offers it would be about {recent.expected:.0f} by now.",
            "Check that requests for a rating still reach visitors, and that ratings are sent to "
            "the service.",
        )
    planned = state.spec.get("planned_drift")
    if planned is not None and facts.drift is not None:
        low, slope = facts.drift.low, facts.drift.slope
        if low is not None and slope is not None and low > planned:
            yield AlertView(
                AlertKind.DRIFT_ABOVE_PLAN,
                f"A payment worth a star raises ratings by {slope:.2f} stars (at least {low:.2f}); "
                f"the plan assumed at most {planned:g}.",
                "Plan again with the measured drift: the budget may not suffice, and averages are "
                "too high by this much. An equal-pay policy is not affected.",
            )


def _budget_alerts(
    state: CampaignState, money: Currency, facts: StoredFacts
) -> Iterator[AlertView]:
    used = state.committed + state.reserved
    if state.budget > 0 and state.free <= USED_UP * state.budget:
        yield AlertView(
            AlertKind.BUDGET_USED_UP,
            f"{money.format(state.free)} of the budget of {money.format(state.budget)} is free, so "
            "visitors are offered their own choice, unpaid.",
            "Raise the budget, or close the campaign.",
        )
        return
    paced = state.paced
    if (
        paced is not None
        and state.decisions >= MIN_PACED_OFFERS
        and paced < state.budget
        and used >= AHEAD_OF_PACE * paced
    ):
        yield AlertView(
            AlertKind.BUDGET_AHEAD_OF_PACE,
            f"{money.format(used)} is used of the {money.format(paced)} that the pace permits "
            f"after {state.decisions:,} offers, so offers are limited.",
            "Raise the budget, or spread it over fewer offers (`pace_over`). Otherwise nothing: "
            "the pace keeps the rest for later visitors.",
        )
    if facts.plan is None:
        return
    compared = plan_status(state, facts.plan, facts.shadow_visitors)
    if compared.status in _OFF_PLAN:
        yield AlertView(_OFF_PLAN[compared.status], compared.message, compared.todo)


def _is_falling(recent: RecentRatings) -> bool:
    missing = recent.expected - recent.rated
    return recent.expected >= MIN_EXPECTED and missing > DEVIATIONS * math.sqrt(recent.variance)


def _items(names: Sequence[str]) -> str:
    """Return the subject of a sentence, with its verb: "oolong has", "oolong and sencha have"."""
    if len(names) == 1:
        return f"{names[0]} has"
    shown = list(names[:MAX_NAMED])
    if len(names) > MAX_NAMED:
        return f"{', '.join(shown)} and {len(names) - MAX_NAMED:,} more items have"
    return f"{', '.join(shown[:-1])} and {shown[-1]} have"
