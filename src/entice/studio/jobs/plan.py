"""The forecast of a plan as JSON data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from entice.planner.assumptions import assumptions
from entice.planner.forecast import QUANTILES, Forecast, at_share
from entice.planner.runs import PlanRunner
from entice.planner.sentence import of_policy, sentences
from entice.planner.spec import Plan
from entice.planner.words import names
from entice.service.domain.from_plan import campaigns
from entice.studio.jobs.job import JobContext
from entice.study.running.threads import thread_count

MAX_SAMPLES = 400
_SUMMARISED = ("spend", "stars_lost", "share_lost", "cost", "lead_day", "needed")


def make_plan(plan: Plan, context: JobContext) -> dict[str, Any]:
    """Run a plan, report progress, and return the forecast."""
    with context.compiling():
        runner = PlanRunner(plan)
    return forecast_payload(Forecast(plan, runner.go(thread_count(None), context.progress)))


def forecast_payload(forecast: Forecast) -> dict[str, Any]:
    """Return a forecast as JSON data. Days of events that never happen are null."""
    plan, first = forecast.plan, forecast.order[0]
    certainty = forecast.certainty()
    return {
        "kind": "forecast",
        "plan": plan.to_plain(),
        "toml": plan.to_toml(),
        "seed": plan.seed,
        "sentence": sentences(forecast)[0],
        "sentences": sentences(forecast),
        "assumptions": assumptions(plan),
        "budget_for_confidence": forecast.wanted_budget,
        "order": forecast.order,
        "policies": [
            {
                "label": name,
                "policy_index": p,
                "recommended": p == first,
                "comes_first": certainty[p],
                "sentence": of_policy(forecast, p),
                **{column: _summary(forecast, p, column) for column in _SUMMARISED},
                "enough": forecast.promise(p, "needed"),
                "chance_enough": _chance_enough(forecast, p),
                "budget_day": _finite_or_none(forecast.typical(p, "budget_day")),
                "stuck": float(forecast.of(p, "stuck").mean()),
                "samples": _samples(forecast.of(p, "needed")),
                "days": forecast.days.filter(policy_index=p)
                .drop("policy", "policy_index")
                .to_dict(as_series=False),
            }
            for p, name in enumerate(names(plan))
        ],
        "campaigns": campaigns(forecast),
    }


def _summary(forecast: Forecast, policy: int, column: str) -> dict[str, float | None]:
    values = forecast.of(policy, column)
    shares = {**QUANTILES, "at_confidence": forecast.plan.confidence}
    found = {name: _finite_or_none(at_share(values, share)) for name, share in shares.items()}
    return {"mean": _finite_or_none(float(values.mean())), **found}


def _chance_enough(forecast: Forecast, policy: int) -> float | None:
    """Return the share of runs in which the budget lasts."""
    if forecast.plan.budget is None:
        return None
    return float(np.isinf(forecast.of(policy, "budget_day")).mean())


def _samples(values: Any) -> list[float]:
    """Return at most `MAX_SAMPLES` of the values, sorted and evenly spaced by rank."""
    ranked = np.sort(values)
    if len(ranked) > MAX_SAMPLES:
        ranked = ranked[np.linspace(0, len(ranked) - 1, MAX_SAMPLES).round().astype(np.int64)]
    return [float(value) for value in ranked]


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
