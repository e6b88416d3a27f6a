"""A simulated year of a campaign with a holdout, in worlds whose true effect is known.

Plans run the rules of the live service. In a plan the mean of each rating is known, given the item
and the payment, so the truth at each look is the difference between the averages of these means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from holdout_looks import Looks, misses_of_fixed_n, misses_of_sequence

import entice
from entice.estimate import Effect, GroupTotals, measure_effect
from entice.estimate.confidence_sequence import RatingSums
from entice.planner.belief import STARS, DrawnWorld, Spread
from entice.planner.campaign_loop import REASONS, Visits
from entice.planner.runner import PlanRunner
from entice.planner.spec import Plan
from entice.planner.visitors import DAY

Floats = npt.NDArray[np.float64]
HOLDOUT = 0.1
CAMPAIGN, NO_CAMPAIGN = 0, 1
"""The policies of the plan: UCB, and greedy, which pays nobody."""


class Year(NamedTuple):
    """A year of one campaign, looked at daily."""

    truth: float
    """The true difference at the end."""
    missed: bool
    """Whether the interval misses the truth on any day."""
    missed_by_fixed_n: bool
    """Whether the usual interval does."""
    effect: Effect
    """The readout at the end."""
    gain: float
    """By how much the items taken in the campaign are better than without one, in stars."""


def year_plan(drift: float, probe: entice.Probe | None = None) -> Plan:
    """Return a plan over 365 days: 8 items, 500 visitors a day, 40 % rate, a tenth is held out."""
    return Plan(
        arms=8, spread=Spread(centre=3.2, width=0.6), visitors_a_day=500, days=365,
        price_of_a_star=2.0, share_who_rate=0.4, drift=(drift, drift), currency="EUR", seed=20,
        policies=[entice.UCB(), entice.Greedy()], holdout=HOLDOUT, probe=probe,
        acceptance=entice.LogisticAcceptance(midpoint=0.1, width=0.2),
    )  # fmt: skip


def simulate_year(runner: PlanRunner, run: int) -> Year:
    """Simulate a year, and read its effect every day."""
    world = runner.worlds.draw(run)
    visits, _ = runner.simulate_run(CAMPAIGN, run)
    without, _ = runner.simulate_run(NO_CAMPAIGN, run)
    held_out = visits.reason == REASONS.index("holdout")
    days = np.arange(1, runner.plan.days + 1) * DAY
    *paid, paid_means = _running_sums(visits, world, ~held_out, days, runner.plan)
    *holdout, holdout_means = _running_sums(visits, world, held_out, days, runner.plan)
    truth = paid_means / paid[0] - holdout_means / holdout[0]
    paid_sums, holdout_sums = (RatingSums(*(x[None] for x in g)) for g in (paid, holdout))
    looks = Looks(paid_sums, holdout_sums, truth[None])
    effect = measure_effect(
        *(_totals(visits, group) for group in (~held_out, held_out)),
        holdout_share=HOLDOUT, lowest_rating=1, highest_rating=5, currency=runner.plan.money,
    )  # fmt: skip
    gain = world.means[visits.taken].mean() - world.means[without.taken].mean()
    return Year(
        float(truth[-1]), bool(misses_of_sequence(HOLDOUT, looks).any()),
        bool(misses_of_fixed_n(looks).any()), effect, float(gain),
    )  # fmt: skip


def _running_sums(
    visits: Visits,
    world: DrawnWorld,
    group: npt.NDArray[np.bool_],
    days: npt.NDArray[np.int64],
    plan: Plan,
) -> tuple[Floats, ...]:
    """Return count, sum, sum of squares and sum of means of a group's ratings, by day."""
    chosen = group & visits.accepted & (visits.rating > 0)
    ratings = visits.rating[chosen].astype(float)
    paid = visits.amount[chosen] / plan.money.to_minor(plan.price_of_a_star)
    raised = np.minimum(STARS + world.slope * paid[:, None], STARS[-1])
    means = np.sum(world.shares[visits.taken[chosen]] * raised, axis=1)
    order = np.argsort(visits.rated_at[chosen], kind="stable")
    seen = np.searchsorted(visits.rated_at[chosen][order], days)
    columns = np.ones_like(ratings), ratings, ratings**2, means
    sums = [np.append(0.0, np.cumsum(column[order]))[seen] for column in columns]
    assert sums[0].min() > 0, "each group has a rating on the first day"
    return tuple(sums)


def _totals(visits: Visits, group: npt.NDArray[np.bool_]) -> GroupTotals:
    ratings = visits.rating[group & visits.accepted & (visits.rating > 0)].astype(float)
    return GroupTotals(
        int(group.sum()), len(ratings), ratings.sum(), ratings @ ratings,
        int(visits.spent[group].sum()),
    )  # fmt: skip
