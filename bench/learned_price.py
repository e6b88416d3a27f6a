"""Compare a learned price with paying the gap: payments and lost stars, a table of docs/plan.md.

Campaigns of `examples/marketplace.toml` with UCB. How much is paid and lost depends on how long a
campaign explores, so both ways of paying run with several budgets, in the same worlds. Between
these, the payment at equal lost stars is interpolated.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

import entice
from entice.planner.runner import PlanRunner

WORLDS: dict[str, dict[str, Any]] = {
    "logistic, midpoint 0.1, width 0.1": {
        "acceptance": entice.LogisticAcceptance(midpoint=0.1, width=0.1)
    },
    "the same without drift": {
        "acceptance": entice.LogisticAcceptance(midpoint=0.1, width=0.1),
        "drift": 0.0,
    },
    "logistic, midpoint 0.4, width 0.1": {
        "acceptance": entice.LogisticAcceptance(midpoint=0.4, width=0.1)
    },
    "table, 34 % at 0, 67 % at 0.1, 77 % at 0.2": {
        "acceptance": entice.TableAcceptance(payments=[0, 0.1, 0.2], shares=[0.34, 0.67, 0.77])
    },
}
BUDGETS: tuple[float | None, ...] = (50, 100, 200, 400, None)
ACCEPTANCES = (0.5, 0.7, 0.9)


class Totals(NamedTuple):
    """The payments, in units of the currency, and the lost stars of each run."""

    paid: npt.NDArray[np.float64]
    lost: npt.NDArray[np.float64]


def run(plan: entice.Plan) -> Totals:
    runner = PlanRunner(plan)
    paid, lost = [], []
    for number in range(plan.replications):
        world = runner.worlds.draw(number)
        visits, _ = runner.policy_runners[0].run(world, number, explain=False)
        paid.append(plan.money.to_major(int(visits.spent.sum())))
        lost.append(float((world.means.max() - world.means)[visits.taken].sum()))
    return Totals(np.array(paid), np.array(lost))


def cell(totals: Totals) -> str:
    error = totals.lost.std(ddof=1) / len(totals.lost) ** 0.5
    return f"€{totals.paid.mean():,.0f}, {totals.lost.mean():,.0f} ± {error:,.0f}"


def payment_at(level: float, curve: list[Totals]) -> str:
    """Return the smallest mean payment at which a curve of budgets loses at most so many stars."""
    points = [(float(totals.paid.mean()), float(totals.lost.mean())) for totals in curve]
    if points[0][1] <= level:
        return f"at most €{points[0][0]:,.0f}"
    for (paid, lost), (more, fewer) in itertools.pairwise(points):
        if fewer <= level:
            return f"€{paid + (more - paid) * (lost - level) / (lost - fewer):,.0f}"
    return "not reached"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=200)
    given = parser.parse_args()
    example = Path(__file__).parents[1] / "examples" / "marketplace.toml"
    base = msgspec.structs.replace(
        entice.Plan.from_file(example), policies=[entice.UCB()], replications=given.replications
    )
    ways = [None, *(entice.LearnedPrice(acceptance) for acceptance in ACCEPTANCES)]
    heads = ["the gap", *(f"learned, {100 * acceptance:g} %" for acceptance in ACCEPTANCES)]
    print(f"{base.visitors:,} visitors, {given.replications} runs\n")
    print("Payments and lost stars (± standard error):\n")
    print(f"| acceptance | budget | {' | '.join(heads)} |\n|---|---:|---:|---:|---:|---:|")
    equal = []
    for name, world in WORLDS.items():
        curves: list[list[Totals]] = [[] for _ in ways]
        for budget in BUDGETS:
            plan = msgspec.structs.replace(base, **world, budget=budget)
            for curve, price in zip(curves, ways, strict=True):
                curve.append(run(msgspec.structs.replace(plan, price=price)))
            limit = "none" if budget is None else f"€{budget:,.0f}"
            cells = " | ".join(cell(curve[-1]) for curve in curves)
            print(f"| {name} | {limit} | {cells} |", flush=True)
        level = min(float(totals.lost.mean()) for totals in curves[0])
        payments = " | ".join(payment_at(level, curve) for curve in curves)
        equal.append(f"| {name} | {level:,.0f} | {payments} |")
    print("\nPayments for the fewest lost stars that paying the gap reaches:\n")
    print(f"| acceptance | lost stars | {' | '.join(heads)} |\n|---|---:|---:|---:|---:|---:|")
    print("\n".join(equal))


if __name__ == "__main__":
    main()
