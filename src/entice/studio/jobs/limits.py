"""Limits on requested simulations: their size is limited, and they cannot name code or files."""

from __future__ import annotations

from typing import Any

import msgspec

from entice.errors import InputError
from entice.planner.spec import Plan
from entice.policies import Policy
from entice.study.spec import Study

_WEIGHTS = {
    "beta_thompson": 10,
    "discounted_ucb": 2,
    "drift_corrected_thompson": 10,
    "elimination_race": 2,
    "equal_pay": 10,
    "kl_ucb": 10,
    "sliding_window_ucb": 2,
}
# Nanoseconds of CPU for a round, with 2, 9 and 100 arms: UCB 6, 13, 59; Thompson sampling 20, 45,
# 326; MOSS 43, 54; discounted UCB 55, 90; KL-UCB 259, 416, 2,544; Beta–Thompson 154, 704, 7,838;
# equal pay 820 with 9. So the maximum takes up to 95 s on two cores.
_LEAST_ARMS = 5
_RANDOM_DELAY_WEIGHT = 10
"""Least weight if ratings are delayed at random: 409 ns for UCB with 9 arms."""
_PLAN_ARMS = 75
"""A visitor of a plan takes 1.2 µs with 2 arms, 1.3 with 8, 2.7 with 100 and 13.7 with 1,000, and
up to 2.2 µs under other policies with 8: the maximum takes up to 104 s on two cores."""


class Limits(msgspec.Struct, frozen=True):
    """Limits on one simulation request."""

    most_seconds: int = 120
    """Duration of a simulation, a trace or a plan, from its start. Longer ones are stopped."""
    most_work: int = 20_000_000_000
    """Rounds × replications × arms × cells. Less than 5 arms count as 5. Cells of policies that
    take longer for a round count several times: see `weights`."""
    weights: dict[str, int] = msgspec.field(default_factory=lambda: dict(_WEIGHTS))
    """How often a cell counts in `most_work`, by the kind of its policy. Others count once. With
    random delays, each cell counts at least ten times."""
    most_plan_work: int = 8_000_000_000
    """Visitors × replications × policies × (arms + 75) of a plan, which simulates each visitor."""
    most_horizon: int = 1_000_000
    most_replications: int = 10_000
    most_arms: int = 1_000
    most_cells: int = 32
    """Policies × drifts."""
    most_points: int = 10_000_000
    """Checkpoints × replications × cells, which are all kept in memory."""


LIMITS = Limits()


def parse_study(plain: dict[str, Any]) -> Study:
    """Parse a study and add a seed if it has none; raise `InputError` if it is too large."""
    _reject_custom(plain)
    study = Study.from_json(msgspec.json.encode(plain)).with_seed()
    arms, cells = len(study.arms.true_means()), len(study.policies) * len(study.drifts)
    _at_most("the number of arms", arms, LIMITS.most_arms)
    _at_most("policies × drifts", cells, LIMITS.most_cells)
    _at_most("horizon", study.horizon, LIMITS.most_horizon)
    if isinstance(study.players.delay, int):
        _at_most("players.delay", study.players.delay, LIMITS.most_horizon)
    _at_most("replications", study.replications, LIMITS.most_replications)
    checkpoints = study.checkpoints
    points = checkpoints if isinstance(checkpoints, int) else len(checkpoints)
    _at_most(
        "checkpoints × replications × cells",
        min(points, study.horizon) * study.replications * cells,
        LIMITS.most_points,
    )
    least = 1 if isinstance(study.players.delay, int) else _RANDOM_DELAY_WEIGHT
    weights = [max(least, LIMITS.weights.get(_kind(policy), 1)) for policy in study.policies]
    _at_most(
        f"rounds × replications × arms × cells{_weighted(study, weights)}",
        study.horizon
        * study.replications
        * max(arms, _LEAST_ARMS)
        * sum(weights)
        * len(study.drifts),
        LIMITS.most_work,
    )
    return study


def parse_plan(plain: dict[str, Any]) -> Plan:
    """Parse a plan and add a seed if it has none; raise `InputError` if it is too large."""
    _reject_custom(plain)
    counts = plain.get("star_counts")
    if isinstance(counts, dict) and counts.get("path") is not None:
        rule = "must be counts: requests cannot read files on the server"
        raise InputError("star_counts", rule, given="a path", todo="Use `entice plan` for files.")
    plan = Plan.from_plain(plain).with_seed()
    assert plan.arms is not None
    _at_most("arms", plan.arms, LIMITS.most_arms)
    _at_most("visitors_a_day × days", plan.visitors, LIMITS.most_horizon)
    _at_most("replications", plan.replications, LIMITS.most_replications)
    # Expected ratings are counted for each arm and segment.
    cells, what = plan.arms * max(1, plan.known_segments), "arms"
    if plan.known_segments:
        what = "arms × segments"
    _at_most(
        f"visitors × replications × policies × ({what} + {_PLAN_ARMS})",
        plan.visitors * plan.replications * len(plan.policies) * (cells + _PLAN_ARMS),
        LIMITS.most_plan_work,
    )
    return plan


def _kind(policy: Policy) -> str:
    return str(msgspec.to_builtins(policy)["kind"])


def _weighted(study: Study, weights: list[int]) -> str:
    """Name the policies that count several times, for an error message."""
    slow = {type(p).__name__: n for p, n in zip(study.policies, weights, strict=True) if n > 1}
    counted = ", ".join(f"{name} counts {n} times" for name, n in slow.items())
    return f" ({counted})" if slow else ""


def _at_most(name: str, value: int, most: int) -> None:
    if value > most:
        todo = "Choose a smaller simulation, or use the command line, which has no such limits."
        raise InputError(name, f"must be at most {most:,} here, not {value:,}", todo=todo)


def _reject_custom(plain: dict[str, Any]) -> None:
    """Reject user functions, at any depth: a request must not make the service import code."""
    for field, given in plain.items():
        parts = [given]
        while parts:
            part = parts.pop()
            if isinstance(part, dict):
                if part.get("kind") == "custom":
                    rule = "must not be custom: an HTTP request cannot name code"
                    todo = "Use `entice run` or `entice plan` for your own functions."
                    raise InputError(field, rule, given="custom", todo=todo)
                parts.extend(part.values())
            elif isinstance(part, list):
                parts.extend(part)
