"""Numbers as a manager reads them."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from entice.planner.spec import Plan
from entice.policies import (
    CustomPolicy,
    DriftCorrectedThompson,
    EpsilonGreedy,
    Greedy,
    Policy,
    ThompsonSampling,
)


def money(plan: Plan, amount: float) -> str:
    """Write an amount: a sign stands before it, a word after it.

    >>> from entice.planner.belief import Spread
    >>> from entice.planner.spec import Plan
    >>> from entice.planner.words import money
    >>> plan = Plan(arms=2, spread=Spread(4, 0.5), visitors_a_day=1, days=1, price_of_a_star=2,
    ...             drift=0, currency="€")
    >>> money(plan, 4200), money(plan, 0.5)
    ('€4,200', '€0.50')
    """
    figure = f"{amount:,.0f}" if amount == round(amount) or amount >= 100 else f"{amount:,.2f}"
    currency = plan.currency
    if not currency:
        return figure
    if any(character.isalnum() for character in currency):
        return f"{figure} {currency}"
    return f"{currency}{figure}"


def rounded_up(amount: float) -> float:
    """Round to two digits, upwards: a promise that was true stays true.

    >>> from entice.planner.words import rounded_up
    >>> rounded_up(4137.2), rounded_up(12.0), rounded_up(0.0)
    (4200.0, 12.0, 0.0)
    """
    if amount <= 0:
        return 0.0
    # From 10 up in whole units; below in cents, the smallest there is.
    unit = 10.0 ** max(math.floor(math.log10(amount)) - 1, -2)
    steps = amount / unit
    whole = round(steps) if math.isclose(steps, round(steps), rel_tol=1e-9) else math.ceil(steps)
    return round(whole * unit, 2)


def runs_within(share: float) -> str:
    """Say a confidence as runs.

    >>> from entice.planner.words import runs_within
    >>> runs_within(0.9), runs_within(0.95), runs_within(0.5), runs_within(0.875)
    ('9 runs in 10', '19 runs in 20', 'half of all runs', '7 runs in 8')
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


def runs_about(share: float) -> str:
    """Say a share that was counted, roughly.

    >>> from entice.planner.words import runs_about
    >>> [runs_about(share) for share in (0, 0.004, 0.06, 0.42, 0.5, 0.97, 1)]
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


def names(plan: Plan) -> list[str]:
    """Name the policies of a plan in plain words; their labels, if two would be called alike."""
    plain = [_name(policy) for policy in plan.policies]
    return [
        name if plain.count(name) == 1 else policy.label
        for name, policy in zip(plain, plan.policies, strict=True)
    ]


def _name(policy: Policy) -> str:
    if isinstance(policy, Greedy):
        return "No payments"
    if policy == ThompsonSampling():
        return "Thompson sampling"
    if isinstance(policy, EpsilonGreedy):
        return f"ε-greedy (c = {policy.c:g})"
    if isinstance(policy, DriftCorrectedThompson):
        return policy.label.replace("DriftCorrectedThompson", "Drift-corrected Thompson")
    if isinstance(policy, CustomPolicy):  # as its author calls it
        return policy.label
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", policy.label).replace("(", " (", 1)
