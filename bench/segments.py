"""Compare principals that know segments of visitors with others (docs/explanation/segments.md).

Both have the same budget, meet the same visitors, and see the same rewards where they pull the same
arms. With --plans, they are campaigns of a plan, which makes the offers of the live service.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from segment_worlds import WORLDS, with_budget, world

import entice

POLICIES = [with_budget(policy, b) for policy in ("UCB", "Thompson") for b in (20.0, 100.0)]


def run(name: str, horizon: int, replications: int, seed: int, *, known: bool) -> entice.Result:
    return entice.simulate(
        arms=world(name, known=known), policies=POLICIES, drifts=[entice.LinearDrift(1.1)],
        horizon=horizon, replications=replications, seed=seed, checkpoints=1, engine="generic",
        progress=False,
    )  # fmt: skip


def column(result: entice.Result, policy: int, metric: str) -> npt.NDArray[np.float64]:
    rows = result.final.filter(pl.col("policy") == result.study.policy_labels[policy])
    return rows.sort("replication")[metric].to_numpy()


MEANS = (4.5, 3.9, 3.7, 3.5, 3.3)
PLANS = {
    "2 segments, opposite order": ([0.6, 0.4], [MEANS, MEANS[::-1]]),
    "2 segments, the two best items swapped": ([0.6, 0.4], [MEANS, (3.9, 4.5, *MEANS[2:])]),
    "2 segments that agree": ([0.6, 0.4], [MEANS] * 2),
    "8 segments that agree": ([1 / 8] * 8, [MEANS] * 8),
}
BUDGETS = (100.0, 400.0)


def lost_stars(
    name: str, budget: float, runs: int, seed: int, *, known: bool
) -> list[npt.NDArray[np.float64]]:
    shares, means = PLANS[name]
    found = entice.plan(
        segments=entice.PlanSegments(shares, means, known=known), visitors_a_day=200, days=30,
        price_of_a_star=2.0, share_who_rate=0.4, rating_delay=entice.ExponentialDelay(mean=0.25),
        drift=[0, 1], budget=budget, policies=[entice.UCB(), entice.ThompsonSampling()],
        replications=runs, seed=seed, progress=False,
    )  # fmt: skip
    for policy in (0, 1):
        assert found.run_values(policy, "spend").max() <= budget
    return [found.run_values(policy, "stars_lost") for policy in (0, 1)]


def compare_plans(runs: int, seed: int) -> None:
    print(f"Lost stars of 6,000 visitors in 30 days, {runs} runs, seed {seed}\n")
    titles = [f"{policy}, budget {b:g}" for b in BUDGETS for policy in ("UCB", "Thompson")]
    print(f"| visitors | {' | '.join(titles)} |\n|---|---:|---:|---:|---:|")
    for name in PLANS:
        cells = []
        for budget in BUDGETS:
            before, after = (
                lost_stars(name, budget, runs, seed, known=known) for known in (False, True)
            )
            cells += [change(*pair) for pair in zip(before, after, strict=True)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def change(before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]) -> str:
    error = (after - before).std(ddof=1) / np.sqrt(len(before))
    difference = f"{(after - before).mean():+,.0f} ± {error:,.0f}".replace("-", "−")
    return f"{before.mean():,.0f} → {after.mean():,.0f} ({difference})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--plans", action="store_true")
    given = parser.parse_args()
    if given.plans:
        compare_plans(given.replications, given.seed)
        return
    print(f"T = {given.horizon:,}, {given.replications} runs, seed {given.seed}\n")
    print(f"| world | {' | '.join(policy.label for policy in POLICIES)} |")
    print("|---|---:|---:|---:|---:|")
    for name in WORLDS:
        unknown, known = (
            run(name, given.horizon, given.replications, given.seed, known=known)
            for known in (False, True)
        )
        cells = []
        for p, policy in enumerate(POLICIES):
            before, after = (column(result, p, "regret") for result in (unknown, known))
            cells.append(change(before, after))
            for result in (unknown, known):
                assert column(result, p, "compensation").max() <= policy.params[0]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
