"""A forecast summarised in sentences for managers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from entice.planner.forecast import Forecast, quantile
from entice.planner.formatting import (
    format_confidence,
    format_money,
    format_rounded_up,
    format_run_share,
    policy_names,
)

_CLEAR = 0.95
"""A recommendation that ranks first in a smaller share of resamples is a close call."""

_OFTEN_WRONG = 0.1
"""From this share of runs on, ending with a wrong item is reported instead of the lead day."""

_WRONG = "a wrong item leads at the end"


def summary_sentences(forecast: Forecast) -> list[str]:
    """Return the recommendation, its reason, how clear it is, its risk, and the drift's part."""
    return [
        headline(forecast),
        *recommendation_reason(forecast),
        *close_call_note(forecast),
        *risk_note(forecast),
        *drift_note(forecast),
    ]


def headline(forecast: Forecast) -> str:
    """Return the sentence about the recommended policy."""
    return policy_sentence(forecast, forecast.ranking[0])


def policy_sentence(forecast: Forecast, policy: int) -> str:
    """Return a sentence about one policy: its payments, and how long the budget lasts.

    Without a budget: when the best item leads.
    """
    plan, name = forecast.plan, policy_names(forecast.plan)[policy]
    if not forecast.run_values(policy, "needed").any():
        return f"{name}: nothing is spent; {_lead_summary(forecast, policy)}."
    enough = format_rounded_up(plan, forecast.at_confidence(policy, "needed"))
    stays = f"{name}: {format_confidence(plan.confidence)} need at most {enough} in payments"
    if plan.budget is None:
        return f"{stays}; {_lead_summary(forecast, policy)}."
    return f"{stays}; {_budget_summary(forecast, policy, plan.budget)}."


def _budget_summary(forecast: Forecast, policy: int, budget: float) -> str:
    day = forecast.median(policy, "budget_day")
    amount = format_money(forecast.plan, budget)
    used_up = float((forecast.run_values(policy, "budget_day") < math.inf).mean())
    if math.isfinite(day):
        return f"with {amount} you stop exploring on day {day:.0f}"
    if used_up == 0:
        return f"{amount} lasts to the end"
    return f"{amount} runs out in {format_run_share(used_up)}"


def _lead_summary(forecast: Forecast, policy: int) -> str:
    stuck = float(forecast.run_values(policy, "stuck").mean())
    if stuck >= _OFTEN_WRONG:  # the median day would hide this
        return f"in {format_run_share(stuck)} {_WRONG}"
    day = forecast.median(policy, "lead_day")
    return f"in the median run the best item leads permanently from day {day:.0f}"


def recommendation_reason(forecast: Forecast) -> list[str]:
    """Return the reason for the recommendation, if several policies were compared."""
    ranking, names = forecast.ranking, policy_names(forecast.plan)
    if len(ranking) < 2:
        return []
    costs = {
        p: format_rounded_up(forecast.plan, forecast.at_confidence(p, "cost")) for p in ranking
    }
    first, *others = ranking
    rest = ", ".join(f"{names[p]} {costs[p]}" for p in others)
    within = " within the budget" if forecast.plan.budget is not None else ""
    return [
        f"It is recommended because its payments plus lost stars{within} cost less than "
        f"{costs[first]} in {format_confidence(forecast.plan.confidence)}. The others: {rest}."
    ]


def close_call_note(forecast: Forecast) -> list[str]:
    """Name the closest rival if the runs do not clearly separate it from the recommendation."""
    first_place_shares, first = forecast.first_place_shares(), forecast.ranking[0]
    if first_place_shares[first] >= _CLEAR:
        return []
    rival = max((p for p in first_place_shares if p != first), key=first_place_shares.__getitem__)
    name = policy_names(forecast.plan)[rival]
    return [f"This is a close call: {name} may be as good. Use more runs to decide."]


def risk_note(forecast: Forecast) -> list[str]:
    """Return how often the recommended policy ends at a wrong item; empty if in the headline."""
    share = float(forecast.run_values(forecast.ranking[0], "stuck").mean())
    if share == 0:
        return ["In no run does a wrong item lead at the end."]
    text = f"in {format_run_share(share)} {_WRONG}"
    return [] if text in headline(forecast) else [f"{text.capitalize()}."]


def drift_note(forecast: Forecast) -> list[str]:
    """Compare equal pay with the best other policy under weaker and under stronger drift.

    Empty if there is nothing to compare, or too few runs.
    """
    plan, names, (low, high) = forecast.plan, policy_names(forecast.plan), forecast.plan.drift
    equal = [p for p in forecast.ranking if plan.policies[p].equal_pay][:1]
    other = [p for p in forecast.ranking if not plan.policies[p].equal_pay][:1]
    middle = (low + high) / 2
    is_weak = forecast.run_values(0, "slope") < middle
    fewest = min(int(is_weak.sum()), int((~is_weak).sum()))
    if not equal or not other or fewest * (1 - plan.confidence) < 1 - 1e-9:
        return []
    pair = equal + other
    weak, strong = (_cheaper(forecast, pair, runs) for runs in (is_weak, ~is_weak))
    costs = [
        " and ".join(f"{names[p]} {_cost_within(forecast, p, runs)}" for p in pair)
        for runs in (is_weak, ~is_weak)
    ]
    first = names[min(pair, key=forecast.ranking.index)]
    choice = f"choose {weak} if the drift is known to be that weak, and otherwise {strong}"
    if weak == strong:
        choice = f"choose {weak} in both cases"
    elif weak == first:
        choice = f"choose {strong} if the drift is known to be that strong, and otherwise {weak}"
    return [
        f"If a payment worth one star raises ratings by less than {middle:g} stars, "
        f"{format_confidence(plan.confidence)} cost less than this: {costs[0]}; if by more: "
        f"{costs[1]}. So {choice}."
    ]


def _cheaper(forecast: Forecast, pair: list[int], runs: npt.NDArray[np.bool_]) -> str:
    """Return the name of the policy that is clearly cheaper in some of the runs."""
    shares = forecast.first_place_shares(pair, runs)
    clear = [p for p in pair if shares[p] >= _CLEAR]
    return policy_names(forecast.plan)[clear[0]] if clear else "either of them"


def _cost_within(forecast: Forecast, policy: int, runs: npt.NDArray[np.bool_]) -> str:
    costs = forecast.run_values(policy, "cost")[runs]
    return format_rounded_up(forecast.plan, float(quantile(costs, forecast.plan.confidence)))
