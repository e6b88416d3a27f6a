"""The answer in sentences that a manager understands."""

from __future__ import annotations

import math

from entice.planner.forecast import Forecast
from entice.planner.formatting import (
    format_confidence,
    format_money,
    format_rounded_up,
    format_run_share,
    policy_names,
)

_CLEAR = 0.95
"""A recommendation that comes first in fewer resamples of the runs is a close call."""

_OFTEN = 0.1
"""Ending on a wrong item more often than this is what there is to say of a policy."""

_WRONG = "a wrong item leads at the end"


def summary_sentences(forecast: Forecast) -> list[str]:
    """Say what to take, why, how sure that is, and what may go wrong."""
    return [headline(forecast), *reason(forecast), *doubt(forecast), *risk(forecast)]


def headline(forecast: Forecast) -> str:
    """Say what the recommended policy would cost, in one sentence."""
    return policy_sentence(forecast, forecast.ranking[0])


def policy_sentence(forecast: Forecast, policy: int) -> str:
    """Say what one policy would cost.

    Without a budget: how much is enough, and when it knows. With one: how long that lasts.
    """
    plan, name = forecast.plan, policy_names(forecast.plan)[policy]
    if not forecast.run_values(policy, "needed").any():
        return f"{name}: nothing is spent; {_knows(forecast, policy)}."
    enough = format_rounded_up(plan, forecast.at_confidence(policy, "needed"))
    stays = f"{name}: {format_confidence(plan.confidence)} stay under {enough} in payments"
    if plan.budget is None:
        return f"{stays}; {_knows(forecast, policy)}."
    return f"{stays}; {_lasts(forecast, policy, plan.budget)}."


def _lasts(forecast: Forecast, policy: int, budget: float) -> str:
    day = forecast.median(policy, "budget_day")
    amount = format_money(forecast.plan, budget)
    used_up = float((forecast.run_values(policy, "budget_day") < math.inf).mean())
    if math.isfinite(day):
        return f"with {amount} you stop exploring on day {day:.0f}"
    if used_up == 0:
        return f"{amount} lasts to the end"
    return f"{amount} runs out in {format_run_share(used_up)}"


def _knows(forecast: Forecast, policy: int) -> str:
    stuck = float(forecast.run_values(policy, "stuck").mean())
    if stuck >= _OFTEN:  # the typical run would tell too little
        return f"in {format_run_share(stuck)} {_WRONG}"
    day = forecast.median(policy, "lead_day")
    return f"in a typical run the best item leads for good from day {day:.0f}"


def reason(forecast: Forecast) -> list[str]:
    """Say by which rule the policy is recommended, if there was a choice."""
    ranking, called = forecast.ranking, policy_names(forecast.plan)
    if len(ranking) < 2:
        return []
    costs = {
        p: format_rounded_up(forecast.plan, forecast.at_confidence(p, "cost")) for p in ranking
    }
    first, *others = ranking
    rest = ", ".join(f"{called[p]} {costs[p]}" for p in others)
    within = " within the budget" if forecast.plan.budget is not None else ""
    return [
        f"It is recommended because payments and lost stars together{within} cost less than "
        f"{costs[first]} in {format_confidence(forecast.plan.confidence)}. The others: {rest}."
    ]


def doubt(forecast: Forecast) -> list[str]:
    """Say which other policies may be as good, if the runs can't tell them apart."""
    first_place_shares, first = forecast.first_place_shares(), forecast.ranking[0]
    if first_place_shares[first] >= _CLEAR:
        return []
    rival = max((p for p in first_place_shares if p != first), key=first_place_shares.__getitem__)
    called = policy_names(forecast.plan)[rival]
    return [f"It is a close call: {called} may be as good, and more runs would tell."]


def risk(forecast: Forecast) -> list[str]:
    """Say how often the recommended policy ends on a wrong item, unless the headline has."""
    share = float(forecast.run_values(forecast.ranking[0], "stuck").mean())
    if share == 0:
        return ["In no run does a wrong item lead at the end."]
    told = f"in {format_run_share(share)} {_WRONG}"
    return [] if told in headline(forecast) else [f"{told.capitalize()}."]
