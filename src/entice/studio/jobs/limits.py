"""Limits on requested simulations: their size is limited, and they cannot name code or files."""

from __future__ import annotations

from typing import Any

import msgspec

from entice.errors import InputError
from entice.planner.spec import Plan
from entice.study.spec import Study


class Limits(msgspec.Struct, frozen=True):
    """Limits on one simulation request."""

    most_work: int = 20_000_000_000
    """Rounds × replications × arms × cells. The maximum takes up to a minute on two cores for the
    paper's policies; others take longer for a round."""
    most_plan_work: int = 2_000_000_000
    """Visitors × replications × arms × policies of a plan, which simulates each visitor."""
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
    _at_most(
        "rounds × replications × arms × cells",
        study.horizon * study.replications * arms * cells,
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
    _at_most(
        "visitors × replications × arms × policies",
        plan.visitors * plan.replications * plan.arms * len(plan.policies),
        LIMITS.most_plan_work,
    )
    return plan


def _at_most(name: str, value: int, most: int) -> None:
    if value > most:
        todo = "Choose a smaller simulation, or use the command line, which has no such limits."
        raise InputError(name, f"must be at most {most:,} here, not {value:,}", todo=todo)


def _reject_custom(plain: dict[str, Any]) -> None:
    """Reject user functions, since a request must not make the service import code."""
    for field in ("policies", "drifts"):
        entries = plain.get(field)
        for entry in entries if isinstance(entries, list) else [entries]:
            if isinstance(entry, dict) and entry.get("kind") == "custom":
                rule = "must not be custom: an HTTP request cannot name code"
                todo = "Use `entice run` or `entice plan` for your own functions."
                raise InputError(field, rule, given="custom", todo=todo)
