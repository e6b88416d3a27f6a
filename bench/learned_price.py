"""Compare a learned price with paying the gap: payments and lost stars, a table of docs/plan.md.

Campaigns of `examples/marketplace.toml` with UCB, with and without a budget. Both ways of paying
meet the same worlds and visitors, so differences in lost stars are paired.
"""

from __future__ import annotations

import argparse
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
BUDGETS: tuple[float | None, ...] = (100, 400, None)
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


def cell(gap: Totals, learned: Totals) -> str:
    """Return the change of payments in percent, and the paired difference in lost stars."""
    paid, difference = learned.paid.mean() / gap.paid.mean() - 1, learned.lost - gap.lost
    error = difference.std(ddof=1) / len(difference) ** 0.5
    stars = f"{difference.mean():+,.0f} ± {error:,.0f}"
    return f"€{learned.paid.mean():,.0f} ({100 * paid:+.0f} %), {stars}".replace("-", "−")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=200)
    given = parser.parse_args()
    example = Path(__file__).parents[1] / "examples" / "marketplace.toml"
    base = msgspec.structs.replace(
        entice.Plan.from_file(example), policies=[entice.UCB()], replications=given.replications
    )
    print(f"{base.visitors:,} visitors, {given.replications} runs\n")
    heads = [f"learned, {100 * acceptance:g} %" for acceptance in ACCEPTANCES]
    print(f"| acceptance | budget | the gap: paid, lost stars | {' | '.join(heads)} |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, world in WORLDS.items():
        for budget in BUDGETS:
            plan = msgspec.structs.replace(base, **world, budget=budget)
            gap = run(plan)
            cells = [
                cell(gap, run(msgspec.structs.replace(plan, price=entice.LearnedPrice(acceptance))))
                for acceptance in ACCEPTANCES
            ]
            paid = f"€{gap.paid.mean():,.0f}, {gap.lost.mean():,.0f}"
            limit = "none" if budget is None else f"€{budget:,.0f}"
            print(f"| {name} | {limit} | {paid} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
