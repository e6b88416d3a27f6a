"""Small plans for tests, and forecasts of runs that never were."""

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


def a_plan(**changes: Any) -> Plan:
    """A small plan: 3 items, 5 days of 40 visitors, two policies that compile together."""
    settings: dict[str, Any] = {
        "arms": 3, "spread": SPREAD, "visitors_a_day": 40, "days": 5, "price_of_a_star": 2.0,
        "share_who_rate": 0.5, "drift": (0.0, 1.0), "policies": PAYING, "replications": 20,
        "seed": 7,
    }  # fmt: skip
    return Plan(**settings | changes)


def by_turns(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    """Give each item its turn, until so many stars have been paid."""
    return t % len(pulls) if memory[0] <= params[0] else PLAYERS_CHOICE


def keep_account(memory, params, arm, payment, feedback):  # type: ignore[no-untyped-def]
    memory[0] += payment


def no_item(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    return len(pulls)


def outcome(**changes: Any) -> Outcome:
    settings: dict[str, Any] = {
        "spend": 0.0, "stars_lost": 0.0, "share_lost": 0.0, "lead_day": 1.0, "needed": 0.0,
        "budget_day": NEVER, "needed_by_day": np.zeros(5), "leads_by_day": np.ones(5, dtype=bool),
    }  # fmt: skip
    return Outcome(**settings | changes)


def made_up(by_run: list[list[Outcome]], **changes: Any) -> Forecast:
    """A forecast of runs that never were, for words and rules."""
    world = DrawnWorld(shares_with_means(np.array([4.0, 3.0, 3.5])), 0.5)
    given = a_plan(replications=len(by_run), **changes)
    return Forecast(given, [PlanRun(world, outcomes) for outcomes in by_run])


def ten(*makers: Any, **changes: Any) -> Forecast:
    return made_up([[make(i) for make in makers] for i in range(10)], **changes)
