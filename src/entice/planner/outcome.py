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
    """The stars that visitors lost by not taking the best item, by true means."""
    share_lost: float
    """The lost stars as a share of those that all visitors would get from the best item."""
    lead_day: float
    """The day from which a best item leads until the end; NEVER if another leads at the end."""
    needed: float
    """The payments without a budget."""
    budget_day: float
    """The day on which the budget first changes an offer, or NEVER."""
    needed_by_day: Floats
    """The cumulative payments at the end of each day without a budget."""
    leads_by_day: Bools
    """Whether a best item leads at the end of each day."""


def measure_outcome(visits: Visits, unlimited: Visits, means: Floats, plan: Plan) -> Outcome:
    """Compute the outcome of a run from its visits with and without the budget."""
    gaps = means.max() - means
    leads = (gaps <= plan.close_enough)[visits.leader]
    wrong = np.flatnonzero(~leads)
    first_right = int(wrong[-1]) + 1 if wrong.size else 0
    needed = np.cumsum(unlimited.spent) / 10**plan.money.digits
    last_of_day = np.arange(1, plan.days + 1) * plan.visitors_a_day - 1
    budget_limited = np.flatnonzero(visits.budget_limited)
    lost = float(gaps[visits.taken].sum())
    return Outcome(
        spend=plan.money.to_major(int(visits.spent.sum())),
        stars_lost=lost,
        share_lost=lost / (plan.visitors * float(means.max())),
        lead_day=_day(first_right, plan),
        needed=float(needed[-1]),
        budget_day=_day(int(budget_limited[0]) if budget_limited.size else plan.visitors, plan),
        needed_by_day=needed[last_of_day],
        leads_by_day=leads[last_of_day],
    )


def _day(visitor: int, plan: Plan) -> float:
    """Return the day of a visitor, who is counted from 0."""
    return visitor // plan.visitors_a_day + 1.0 if visitor < plan.visitors else NEVER
