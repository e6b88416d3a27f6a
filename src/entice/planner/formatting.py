"""Formatting of amounts, shares of runs and policy names for people."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from entice.labels import unique_labels
from entice.planner.spec import Plan
from entice.policies import (
    CustomPolicy,
    DriftCorrectedThompson,
    EpsilonGreedy,
    EqualPay,
    EqualPayElimination,
    Greedy,
    Policy,
    ThompsonSampling,
)


def format_money(plan: Plan, amount: float) -> str:
    """Format an amount in the plan's currency."""
    return plan.money.format_major(amount)


def format_rounded_up(plan: Plan, amount: float) -> str:
    """Format an upper limit: rounded up to two significant digits."""
    return format_money(plan, round_up(amount, plan.money.digits))


def round_up(amount: float, digits: int = 2) -> float:
    """Round up to two significant digits, so that an upper limit remains valid.

    The result has at most `digits` decimals, those of the currency.

    >>> from entice.planner.formatting import round_up
    >>> round_up(4137.2), round_up(12.0), round_up(0.0)
    (4200.0, 12.0, 0.0)
    >>> round_up(1.2345), round_up(1.2345, digits=0)
    (1.3, 2.0)
    """
    if amount <= 0:
        return 0.0
    unit = 10.0 ** max(math.floor(math.log10(amount)) - 1, -digits)
    steps = amount / unit
    whole = round(steps) if math.isclose(steps, round(steps), rel_tol=1e-9) else math.ceil(steps)
    return round(whole * unit, digits)


def format_confidence(share: float) -> str:
    """Write a confidence as a number of runs.

    >>> from entice.planner.formatting import format_confidence
    >>> [format_confidence(share) for share in (0.9, 0.95, 0.5, 0.875)]
    ['9 runs in 10', '19 runs in 20', 'half of all runs', '7 runs in 8']
    """
    if share == 0.5:
        return "half of all runs"
    fraction = Fraction(share).limit_denominator(20)
    if not math.isclose(fraction, share, abs_tol=1e-9):
        fraction = Fraction(share).limit_denominator(100)
    if not math.isclose(fraction, share, abs_tol=1e-9) or fraction.denominator not in (
        3, 4, 5, 8, 10, 20, 50, 100,
    ):  # fmt: skip
        return f"{100 * share:g} % of all runs"
    return f"{fraction.numerator} runs in {fraction.denominator}"


def format_run_share(share: float) -> str:
    """Write a measured share of runs, rounded.

    >>> from entice.planner.formatting import format_run_share
    >>> [format_run_share(share) for share in (0, 0.004, 0.06, 0.42, 0.5, 0.97, 1)]
    ['no run', '1 run in 250', '1 run in 17', '4 runs in 10', 'half of all runs', \
'all but 1 run in 33', 'every run']
    """
    if share in (0, 1):
        return "every run" if share else "no run"
    if share < 0.15:
        return f"1 run in {round(1 / share)}"
    if share > 0.945:
        return f"all but 1 run in {round(1 / (1 - share))}"
    tenths = round(10 * share)
    return "half of all runs" if tenths == 5 else f"{tenths} runs in 10"


def policy_names(plan: Plan) -> list[str]:
    """Return readable names of a plan's policies, or their labels where names would repeat."""
    plain = [_name(policy, plan.overlap) for policy in plan.policies]
    return [
        name if plain.count(name) == 1 else label
        for name, label in zip(plain, unique_labels(plan.policies), strict=True)
    ]


def _name(policy: Policy, overlap: float) -> str:
    if policy.name is not None:
        return policy.name
    if isinstance(policy, Greedy):
        return "Visitors' own choice" if overlap else "No payments"
    if policy == ThompsonSampling():
        return "Thompson sampling"
    if isinstance(policy, EqualPay):
        return "Equal pay"
    if isinstance(policy, EqualPayElimination):
        return "Equal-pay elimination"
    if isinstance(policy, EpsilonGreedy):
        return f"ε-greedy (c = {policy.c:g})"
    if isinstance(policy, DriftCorrectedThompson):
        return policy.label.replace("DriftCorrectedThompson", "Drift-corrected Thompson")
    if isinstance(policy, CustomPolicy):  # keep the author's name
        return policy.label
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", policy.label).replace("(", " (", 1)
