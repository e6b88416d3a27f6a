"""Campaigns from a plan: one for each policy that the plan compares."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from entice.api_types import MAX_PLANNED_POINTS
from entice.errors import InputError
from entice.model.settings import without_holdout_defaults
from entice.planner.forecast import Forecast
from entice.planner.formatting import policy_names, round_up
from entice.planner.spec import Plan
from entice.service.domain.spec import CampaignSpec
from entice.spec_parsing import without_none


def campaigns(forecast: Forecast) -> dict[str, dict[str, Any]]:
    """Return a campaign for each policy of a plan, by the policy's name.

    The tables are valid for `POST /v1/campaigns` and `entice campaign create`, and contain the
    forecast of their spending as `plan`. Policies that the service can't run are left out. The
    budget is that of the plan or, if the plan has none, the amount that the policy needs at the
    plan's confidence.
    """
    plan, tables = forecast.plan, {}
    for p, name in enumerate(policy_names(plan)):
        budget = plan.budget
        if budget is None:
            budget = round_up(forecast.at_confidence(p, "needed"), plan.money.digits)
        table = _campaign(plan, p, name, budget)
        try:
            CampaignSpec.from_plain(table)
        except InputError:  # such as a policy that can't choose among a subset of its arms
            continue
        table["plan"] = _planned_spending(forecast, p, name, table["budget"])
        tables[name] = table
    return tables


def _planned_spending(forecast: Forecast, policy: int, name: str, budget: int) -> dict[str, Any]:
    """Return the range of a policy's spending by number of visitors, for the live campaign."""
    plan, days = forecast.plan, forecast.days.filter(policy_index=policy)
    picked = np.unique(np.linspace(0, plan.days - 1, MAX_PLANNED_POINTS).round().astype(np.int64))

    def amounts(column: str) -> list[int]:
        return [min(budget, plan.money.to_minor(x)) for x in days[column].to_numpy()[picked]]

    assert plan.seed is not None
    return {
        "policy": name,
        "visitors_a_day": plan.visitors_a_day,
        "days": plan.days,
        "drift": list(plan.drift),
        "replications": plan.replications,
        "seed": plan.seed,
        "visitors": [int(day + 1) * plan.visitors_a_day for day in picked],
        "low": amounts("needed_q05"),
        "typical": amounts("needed_q50"),
        "high": amounts("needed_q95"),
    }


def _campaign(plan: Plan, policy: int, name: str, budget: float) -> dict[str, Any]:
    """Return a campaign with the plan's settings, but without its seed."""
    assert plan.arms is not None
    money, places = plan.money, len(str(plan.arms))
    caps = {"cap_per_offer": plan.cap_per_offer, "cap_per_player": plan.cap_per_player}
    table = {
        "name": f"{plan.arms:,} items, {name}",
        "arms": [f"item-{i:0{places}}" for i in range(1, plan.arms + 1)],
        "policy": msgspec.to_builtins(plan.policies[policy]),
        "policy_sees": plan.policy_sees,
        "unrated_shows": plan.unrated_stars,
        "budget": money.to_minor(budget),
        "currency": money.code,
        "currency_digits": money.digits,
        "price_of_a_star": money.to_minor(plan.price_of_a_star),
        "margin": money.to_minor(plan.margin),
        **{name: money.to_minor(cap) for name, cap in caps.items() if cap is not None},
        "pace_over": plan.pace_over,
        "probe": msgspec.to_builtins(plan.probe),
        "overlap": plan.overlap or None,
        "planned_drift": plan.drift[1],
        "rating_window": plan.rating_window,
        "late_ratings": plan.late_ratings,
        "holdout": plan.holdout,
        "holdout_feeds_averages": plan.holdout_feeds_averages,
        "segments": [f"segment-{s}" for s in range(1, plan.known_segments + 1)] or None,
        "price": msgspec.to_builtins(plan.price),
    }
    return without_holdout_defaults(without_none(table))
