"""The outcome of one run: payments, lost stars, and when the best item leads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.planner.campaign_loop import Visits
from entice.planner.spec import Plan

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NEVER = np.inf
"""The day of an event that does not happen."""


class Outcome(NamedTuple):
    """The outcome of one run of one policy; money in units of the currency, days from 1."""

    spend: float
    stars_lost: float
    """The stars that visitors lost by not taking the best item, by true means. With segments, the
    best item is that of the visitor's segment."""
    share_lost: float
    """The lost stars as a share of those that all visitors would get from the best item."""
    lead_day: float
    """The day from which a best item leads until the end; NEVER if another leads at the end, in
    the segment of any visitor."""
    needed: float
    """The payments without a budget."""
    budget_day: float
    """The day on which the budget first changes an offer, or NEVER."""
    needed_by_day: Floats
    """The cumulative payments at the end of each day without a budget."""
    leads_by_day: Bools
    """Whether a best item leads at the end of each day."""
    share_rated: float = 0.0
    """The share of visitors who rate."""


def measure_outcome(visits: Visits, unlimited: Visits, means: Floats, plan: Plan) -> Outcome:
    """Compute the outcome of a run from its visits with and without the budget.

    `means` are the items' true means; with segments, a row of them for each item.
    """
    means = means.reshape(len(means), -1)
    best = means.max(axis=0)
    gaps = best - means
    leads = _lead_in_all_segments(
        (gaps <= plan.close_enough)[visits.leader, visits.segment], visits
    )
    wrong = np.flatnonzero(~leads)
    first_right = int(wrong[-1]) + 1 if wrong.size else 0
    needed = np.cumsum(unlimited.spent) / 10**plan.money.digits
    last_of_day = np.arange(1, plan.days + 1) * plan.visitors_a_day - 1
    budget_limited = np.flatnonzero(visits.budget_limited)
    lost = float(gaps[visits.taken, visits.segment].sum())
    visitors = np.bincount(visits.segment, minlength=len(best))
    return Outcome(
        spend=plan.money.to_major(int(visits.spent.sum())),
        stars_lost=lost,
        share_lost=lost / float(visitors @ best),
        lead_day=_day(first_right, plan),
        needed=float(needed[-1]),
        budget_day=_day(int(budget_limited[0]) if budget_limited.size else plan.visitors, plan),
        needed_by_day=needed[last_of_day],
        leads_by_day=leads[last_of_day],
        share_rated=float((visits.rating > 0).mean()),
    )


def _lead_in_all_segments(leads: Bools, visits: Visits) -> Bools:
    """Return whether a best item leads in all segments, given whether it does for each visitor.

    Between its visitors, a segment's leader is taken to be that of the last one.
    """
    found = leads.copy()
    for segment in range(int(visits.segment.max(initial=0)) + 1):
        own = np.flatnonzero(visits.segment == segment)
        last = np.searchsorted(own, np.arange(len(leads)), side="right") - 1
        seen = last >= 0
        found[seen] &= leads[own[last[seen]]]
    return found


def _day(visitor: int, plan: Plan) -> float:
    """Return the day of a visitor, who is counted from 0."""
    return visitor // plan.visitors_a_day + 1.0 if visitor < plan.visitors else NEVER
