"""The forecast of a plan as JSON data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from entice.parallel import thread_count
from entice.planner.assumptions import describe_assumptions
from entice.planner.forecast import QUANTILES, Forecast, quantile
from entice.planner.formatting import policy_names
from entice.planner.runner import PlanRunner
from entice.planner.spec import Plan
from entice.planner.summary_text import policy_sentence, summary_sentences
from entice.service.domain.from_plan import campaigns
from entice.studio.jobs.job import JobContext

MAX_SAMPLES = 400
_SUMMARISED = ("spend", "stars_lost", "share_lost", "cost", "lead_day", "needed")


def make_plan(plan: Plan, context: JobContext) -> dict[str, Any]:
    """Run a plan, report progress, and return the forecast."""
    runs = PlanRunner(plan).run_all(thread_count(None), context.progress)
    return forecast_payload(Forecast(plan, runs))


def forecast_payload(forecast: Forecast) -> dict[str, Any]:
    """Return a forecast as JSON data. Days of events that never happen are null."""
    plan, first = forecast.plan, forecast.ranking[0]
    first_place_shares = forecast.first_place_shares()
    return {
        "kind": "forecast",
        "plan": plan.to_plain(),
        "toml": plan.to_toml(),
        "seed": plan.seed,
        "sentence": summary_sentences(forecast)[0],
        "sentences": summary_sentences(forecast),
        "assumptions": describe_assumptions(plan),
        "budget_for_confidence": forecast.required_budget,
        "order": forecast.ranking,
        "policies": [
            {
                "label": name,
                "policy_index": p,
                "recommended": p == first,
                "comes_first": first_place_shares[p],
                "sentence": policy_sentence(forecast, p),
                **{column: _summary(forecast, p, column) for column in _SUMMARISED},
                "enough": forecast.at_confidence(p, "needed"),
                "chance_enough": _chance_enough(forecast, p),
                "budget_day": _finite_or_none(forecast.median(p, "budget_day")),
                "stuck": float(forecast.run_values(p, "stuck").mean()),
                "samples": _samples(forecast.run_values(p, "needed")),
                "days": forecast.days.filter(policy_index=p)
                .drop("policy", "policy_index")
                .to_dict(as_series=False),
            }
            for p, name in enumerate(policy_names(plan))
        ],
        "campaigns": campaigns(forecast),
    }


def _summary(forecast: Forecast, policy: int, column: str) -> dict[str, float | None]:
    values = forecast.run_values(policy, column)
    shares = {**QUANTILES, "at_confidence": forecast.plan.confidence}
    found = {name: _finite_or_none(quantile(values, share)) for name, share in shares.items()}
    return {"mean": _finite_or_none(float(values.mean())), **found}


def _chance_enough(forecast: Forecast, policy: int) -> float | None:
    """Return the share of runs in which the budget lasts."""
    if forecast.plan.budget is None:
        return None
    return float(np.isinf(forecast.run_values(policy, "budget_day")).mean())


def _samples(values: Any) -> list[float]:
    """Return at most `MAX_SAMPLES` of the values, sorted and evenly spaced by rank."""
    ranked = np.sort(values)
    if len(ranked) > MAX_SAMPLES:
        ranked = ranked[np.linspace(0, len(ranked) - 1, MAX_SAMPLES).round().astype(np.int64)]
    return [float(value) for value in ranked]


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
