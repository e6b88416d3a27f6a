"""Compare a learned price with paying the gap: a table of docs/how-to/plan.md.

Campaigns of `examples/marketplace.toml` with UCB. How much is paid and lost depends on how long a
campaign explores, so both ways of paying run with several budgets, in the same worlds.
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
    """Return the mean payment, and the mean number of lost stars with its standard error."""
    error = totals.lost.std(ddof=1) / len(totals.lost) ** 0.5
    return f"€{totals.paid.mean():,.0f}, {totals.lost.mean():,.0f} ± {error:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--world", choices=WORLDS, action="append", help="Run only this world.")
    given = parser.parse_args()
    example = Path(__file__).parents[1] / "examples" / "marketplace.toml"
    base = msgspec.structs.replace(
        entice.Plan.from_file(example), policies=[entice.UCB()], replications=given.replications
    )
    ways = [None, *(entice.LearnedPrice(acceptance) for acceptance in ACCEPTANCES)]
    heads = ["the gap", *(f"learned, {100 * acceptance:g} %" for acceptance in ACCEPTANCES)]
    print(f"{base.visitors:,} visitors, {given.replications} runs\n")
    print(f"| acceptance | budget | {' | '.join(heads)} |\n|---|---:|---:|---:|---:|---:|")
    for name in given.world or WORLDS:
        for budget in BUDGETS:
            plan = msgspec.structs.replace(base, **WORLDS[name], budget=budget)
            cells = [cell(run(msgspec.structs.replace(plan, price=price))) for price in ways]
            limit = "none" if budget is None else f"€{budget:,.0f}"
            print(f"| {name} | {limit} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
