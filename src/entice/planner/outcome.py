"""What came of one run: what it cost, what it missed, when it knew."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.planner.campaign_loop import Visits
from entice.planner.spec import Plan

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NEVER = np.inf
"""The day of what does not happen."""


class Outcome(NamedTuple):
    """How one run of one policy went: money in units of the currency, days counted from 1."""

    spend: float
    stars_lost: float
    """What visitors missed by not getting the best item, by true means."""
    share_lost: float
    """The same as a share of what the best item would have given them all."""
    lead_day: float
    """The day from which a best item leads to the end; NEVER if another leads then."""
    needed: float
    """What would be spent if there were no budget."""
    budget_day: float
    """The day on which the budget first changes an offer, or NEVER."""
    needed_by_day: Floats
    """What would have been spent by the end of each day, if there were no budget."""
    leads_by_day: Bools
    """Whether a best item leads at the end of each day."""


def measure_outcome(visits: Visits, unlimited: Visits, means: Floats, plan: Plan) -> Outcome:
    """Look at a run: as it goes with the budget, and as it would go without."""
    gaps = means.max() - means
    leads = (gaps <= plan.close_enough)[visits.leader]
    wrong = np.flatnonzero(~leads)
    settled = int(wrong[-1]) + 1 if wrong.size else 0
    needed = np.cumsum(unlimited.spent) / 10**plan.money.digits
    last_of_day = np.arange(1, plan.days + 1) * plan.visitors_a_day - 1
    budget_limited = np.flatnonzero(visits.budget_limited)
    lost = float(gaps[visits.taken].sum())
    return Outcome(
        spend=plan.money.to_major(int(visits.spent.sum())),
        stars_lost=lost,
        share_lost=lost / (plan.visitors * float(means.max())),
        lead_day=_day(settled, plan),
        needed=float(needed[-1]),
        budget_day=_day(int(budget_limited[0]) if budget_limited.size else plan.visitors, plan),
        needed_by_day=needed[last_of_day],
        leads_by_day=leads[last_of_day],
    )


def _day(visitor: int, plan: Plan) -> float:
    """The day on which a visitor comes, the first being number 0."""
    return visitor // plan.visitors_a_day + 1.0 if visitor < plan.visitors else NEVER
