"""The policies that a plan compares: the default ones, and which ones are possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from entice.checks import as_number
from entice.errors import InputError
from entice.planner.belief import STARS
from entice.policies import UCB, EpsilonGreedy, EqualPay, Greedy, Policy, ThompsonSampling
from entice.policies.policy import check_price, check_probe
from entice.policies.propensity import MAX_ARMS_TO_INTEGRATE, check_overlap
from entice.policies.segments import check_segments

if TYPE_CHECKING:
    from entice.planner.spec import Plan


def default_policies(plan: Plan) -> tuple[Policy, ...]:
    """Return the policies of a `Plan` that names none."""
    assert plan.arms is not None
    paper: tuple[Policy, ...] = UCB(), ThompsonSampling(), EpsilonGreedy(c=5)
    if plan.overlap and plan.arms > MAX_ARMS_TO_INTEGRATE:
        paper = UCB(), EpsilonGreedy(c=5)
    paid_equally = plan.probe is None and plan.price is None and not plan.overlap
    if not paid_equally or plan.known_segments:
        return *paper, Greedy()
    # Visitors who do not rate make exploration slower and no more valuable, so the horizon is
    # counted in ratings. Their standard deviation is about one star.
    ratings = max(1, round(plan.visitors * plan.typical_share_who_rate))
    noise = 1.0 if plan.policy_sees == "stars" else 1.0 / (STARS[-1] - STARS[0])
    return *paper, EqualPay(horizon=ratings, noise=noise), Greedy()


def check_policies(plan: Plan, members: tuple[Any, ...]) -> None:
    """Reject policies that a campaign with the settings of a `Plan` cannot have."""
    if not members:
        raise InputError("Plan: policies", "must have at least one entry", given=members)
    assert plan.arms is not None
    overlap = as_number("Plan: overlap", plan.overlap)
    for i, member in enumerate(members):
        if not isinstance(member, get_args(Policy)):
            kinds = ", ".join(kind.__name__ for kind in get_args(Policy))
            name = f"Plan: policies[{i}]"
            raise InputError(name, f"must be one of {kinds}", given=member)
        if member in members[:i]:
            raise InputError(f"Plan: policies[{i}]", "must not be repeated", given=member)
        check_probe("Plan: probe", plan.probe, member)
        check_price("Plan: price", plan.price, member)
        check_overlap("Plan: overlap", overlap, member, plan.arms)
        if plan.known_segments:
            todo = "PlanSegments(…, known=False)"
            check_segments(f"Plan: policies[{i}]", member, plan.arms, todo)
        if member.unit_ratings and plan.policy_sees == "stars":
            rule = f"is {member.label}, which requires ratings between 0 and 1"
            todo = 'Set policy_sees to "zero_to_one".'
            raise InputError(f"Plan: policies[{i}]", rule, given=plan.policy_sees, todo=todo)
        if getattr(member, "count_in_flight", False):
            raise InputError(
                f"Plan: policies[{i}].count_in_flight",
                "cannot be set: campaigns always count the ratings that are still expected",
                given=True,
                todo="Leave it out.",
            )
