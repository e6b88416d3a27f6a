"""Compare principals that know segments of visitors with others (docs/explanation/segments.md).

Both have the same budget, meet the same visitors, and see the same rewards where they pull the same
arms.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
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
            error = (after - before).std(ddof=1) / np.sqrt(len(before))
            difference = f"{(after - before).mean():+,.0f} ± {error:,.0f}".replace("-", "−")
            cells.append(f"{before.mean():,.0f} → {after.mean():,.0f} ({difference})")
            for result in (unknown, known):
                assert column(result, p, "compensation").max() <= policy.params[0]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
