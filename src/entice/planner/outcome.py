"""What came of one run: what it cost, what it missed, when it knew."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.planner.spec import Plan

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEVER = np.inf
"""The day of what does not happen."""


class Rounds(NamedTuple):
    """Every visitor of one run."""

    arm: Counts
    """The item that each took."""
    leader: Counts
    """The item that each would have taken unpaid: the one with the best displayed average."""
    payment: Floats
    """In stars."""
    feedback: Floats
    """The rating, as the policy sees it; nan where it never came."""


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
    """What would be spent if no budget ended the payments."""
    budget_day: float
    """The day on which the budget does not suffice for the next payment, or NEVER."""
    needed_by_day: Floats
    """What would have been spent by the end of each day, if no budget ended the payments."""
    leads_by_day: Bools
    """Whether a best item leads at the end of each day."""


def budget_ends(rounds: Rounds, plan: Plan) -> int:
    """Find the first visitor, counted from 0, whom the budget does not suffice for.

    That is one too many where it lasts.
    """
    if plan.budget is None:
        return plan.visitors
    by_then = np.cumsum(rounds.payment) * plan.price_of_a_star
    # A hair more: payments that come to the budget exactly may be rounded up when summed.
    return int(np.searchsorted(by_then, plan.budget * (1 + 1e-12), side="right"))


def outcome_of(rounds: Rounds, unlimited: Rounds, means: Floats, plan: Plan) -> Outcome:
    """Look at a run: as it goes with the budget, and as it would go without."""
    gaps = means.max() - means
    leads = (gaps <= plan.close_enough)[rounds.leader]
    wrong = np.flatnonzero(~leads)
    settled = int(wrong[-1]) + 1 if wrong.size else 0
    needed = np.cumsum(unlimited.payment) * plan.price_of_a_star
    last_of_day = np.arange(1, plan.days + 1) * plan.visitors_a_day - 1
    end = budget_ends(unlimited, plan)
    lost = float(gaps[rounds.arm].sum())
    return Outcome(
        spend=float(needed[end - 1]) if end > 0 else 0.0,
        stars_lost=lost,
        share_lost=lost / (plan.visitors * float(means.max())),
        lead_day=_day(settled, plan),
        needed=float(needed[-1]),
        budget_day=_day(end, plan),
        needed_by_day=needed[last_of_day],
        leads_by_day=leads[last_of_day],
    )


def _day(visitor: int, plan: Plan) -> float:
    """The day on which a visitor comes, the first being number 0."""
    return visitor // plan.visitors_a_day + 1.0 if visitor < plan.visitors else NEVER
