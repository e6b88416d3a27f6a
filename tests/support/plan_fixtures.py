"""Small plans and forecasts of made-up outcomes for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

import entice
from entice.model.step import PLAYERS_CHOICE
from entice.planner.belief import DrawnWorld, Spread, shares_with_means
from entice.planner.forecast import Forecast
from entice.planner.outcome import NEVER, Outcome
from entice.planner.runner import PlanRun
from entice.planner.spec import Plan

SPREAD = Spread(centre=4.1, width=0.45)
PAYING = (entice.UCB(), entice.Greedy())
# Compiled rules that accept every offer: tests share their loops with others that may decline.
ALWAYS = entice.LogisticAcceptance(midpoint=-1000, width=1)
ALWAYS_BY_TABLE = entice.TableAcceptance(payments=[0, 1], shares=[1, 1])


def make_plan(**changes: Any) -> Plan:
    """Return a small plan: 3 items, 5 days with 40 visitors each, two policies."""
    settings: dict[str, Any] = {
        "arms": 3, "spread": SPREAD, "visitors_a_day": 40, "days": 5, "price_of_a_star": 2.0,
        "share_who_rate": 0.5, "drift": (0.0, 1.0), "policies": PAYING, "replications": 20,
        "seed": 7,
    }  # fmt: skip
    return Plan(**settings | changes)


def round_robin(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    """Select items in turn until params[0] stars have been paid.

    With a negative limit, select an item that does not exist.
    """
    if params[0] < 0:
        return len(pulls)
    return t % len(pulls) if memory[0] <= params[0] else PLAYERS_CHOICE


def add_payment(memory, params, arm, payment, feedback):  # type: ignore[no-untyped-def]
    memory[0] += payment


def outcome(**changes: Any) -> Outcome:
    settings: dict[str, Any] = {
        "spend": 0.0, "stars_lost": 0.0, "share_lost": 0.0, "lead_day": 1.0, "needed": 0.0,
        "budget_day": NEVER, "needed_by_day": np.zeros(5), "leads_by_day": np.ones(5, dtype=bool),
    }  # fmt: skip
    return Outcome(**settings | changes)


def forecast_of(
    by_run: list[list[Outcome]], slopes: list[float] | None = None, **changes: Any
) -> Forecast:
    """Return a forecast of made-up outcomes, one list of outcomes per run."""
    shares = shares_with_means(np.array([4.0, 3.0, 3.5]))
    given = make_plan(replications=len(by_run), **changes)
    worlds = [DrawnWorld(shares, slope) for slope in slopes or [0.5] * len(by_run)]
    return Forecast(given, [PlanRun(*run) for run in zip(worlds, by_run, strict=True)])


def forecast_of_ten(*makers: Any, **changes: Any) -> Forecast:
    return forecast_of([[make(i) for make in makers] for i in range(10)], **changes)
