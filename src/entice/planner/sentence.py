"""The answer in sentences that a manager understands."""

from __future__ import annotations

import math

from entice.planner.forecast import Forecast
from entice.planner.words import money, names, promised, runs_about, runs_within

_CLEAR = 0.95
"""A recommendation that comes first in fewer resamples of the runs is a close call."""

_OFTEN = 0.1
"""Ending on a wrong item more often than this is what there is to say of a policy."""

_WRONG = "a wrong item leads at the end"


def sentences(forecast: Forecast) -> list[str]:
    """Say what to take, why, how sure that is, and what may go wrong."""
    return [headline(forecast), *reason(forecast), *doubt(forecast), *risk(forecast)]


def headline(forecast: Forecast) -> str:
    """Say what the recommended policy would cost, in one sentence."""
    return of_policy(forecast, forecast.order[0])


def of_policy(forecast: Forecast, policy: int) -> str:
    """Say what one policy would cost.

    Without a budget: how much is enough, and when it knows. With one: how long that lasts.
    """
    plan, name = forecast.plan, names(forecast.plan)[policy]
    if not forecast.of(policy, "needed").any():
        return f"{name}: nothing is spent; {_knows(forecast, policy)}."
    enough = promised(plan, forecast.promise(policy, "needed"))
    stays = f"{name}: {runs_within(plan.confidence)} stay under {enough} in payments"
    if plan.budget is None:
        return f"{stays}; {_knows(forecast, policy)}."
    return f"{stays}; {_lasts(forecast, policy, plan.budget)}."


def _lasts(forecast: Forecast, policy: int, budget: float) -> str:
    day = forecast.typical(policy, "budget_day")
    amount = money(forecast.plan, budget)
    used_up = float((forecast.of(policy, "budget_day") < math.inf).mean())
    if math.isfinite(day):
        return f"with {amount} you stop exploring on day {day:.0f}"
    if used_up == 0:
        return f"{amount} lasts to the end"
    return f"{amount} runs out in {runs_about(used_up)}"


def _knows(forecast: Forecast, policy: int) -> str:
    stuck = float(forecast.of(policy, "stuck").mean())
    if stuck >= _OFTEN:  # the typical run would tell too little
        return f"in {runs_about(stuck)} {_WRONG}"
    day = forecast.typical(policy, "lead_day")
    return f"in a typical run the best item leads for good from day {day:.0f}"


def reason(forecast: Forecast) -> list[str]:
    """Say by which rule the policy is recommended, if there was a choice."""
    order, called = forecast.order, names(forecast.plan)
    if len(order) < 2:
        return []
    costs = {p: promised(forecast.plan, forecast.promise(p, "cost")) for p in order}
    first, *others = order
    rest = ", ".join(f"{called[p]} {costs[p]}" for p in others)
    within = " within the budget" if forecast.plan.budget is not None else ""
    return [
        f"It is recommended because payments and lost stars together{within} cost less than "
        f"{costs[first]} in {runs_within(forecast.plan.confidence)}. The others: {rest}."
    ]


def doubt(forecast: Forecast) -> list[str]:
    """Say which other policies may be as good, if the runs can't tell them apart."""
    certainty, first = forecast.certainty(), forecast.order[0]
    if certainty[first] >= _CLEAR:
        return []
    rival = max((p for p in certainty if p != first), key=certainty.__getitem__)
    called = names(forecast.plan)[rival]
    return [f"It is a close call: {called} may be as good, and more runs would tell."]


def risk(forecast: Forecast) -> list[str]:
    """Say how often the recommended policy ends on a wrong item, unless the headline has."""
    share = float(forecast.of(forecast.order[0], "stuck").mean())
    if share == 0:
        return ["In no run does a wrong item lead at the end."]
    told = f"in {runs_about(share)} {_WRONG}"
    return [] if told in headline(forecast) else [f"{told.capitalize()}."]
