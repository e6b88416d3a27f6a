"""Compare the drift-corrected policy with Thompson sampling and UCB.

Prints the tables of docs/explanation/drift-corrected.md.
The policy's constants were tuned on the paper's instance; the random instances are new to it.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import polars as pl

import entice
from entice.paper.setups import MEANS
from entice.worlds.drifts import Drift

POLICIES = (entice.DriftCorrectedThompson(), entice.ThompsonSampling(), entice.UCB())
SLOPES = (0.0, 1.1, 3.0, 5.0)
INSTANCES, SEED_OF_INSTANCES = 60, 20_202


def on_the_papers_instance(replications: int, seed: int) -> None:
    drifts: list[Drift] = [entice.LinearDrift(l) for l in SLOPES]
    drifts += [entice.StepDrift(0.3), entice.PowerDrift(5, 2), entice.NegativeDrift(1.1)]
    result = entice.simulate(
        arms=entice.Gaussian(MEANS), policies=POLICIES, drifts=drifts, horizon=20_000,
        replications=replications, seed=seed, checkpoints=1,
    )  # fmt: skip
    print_table(f"The paper's instance, {replications:,} runs", with_lock_ins(result))


def on_random_instances(replications: int, seed: int) -> None:
    rng = np.random.default_rng(SEED_OF_INSTANCES)
    frames = []
    for k in range(INSTANCES):
        arms = (5, 10, 20)[k % 3]
        result = entice.simulate(
            arms=entice.Gaussian(rng.uniform(0, 1, arms).tolist()), policies=POLICIES,
            drifts=[entice.LinearDrift(l) for l in SLOPES], horizon=20_000,
            replications=replications, seed=seed + k, checkpoints=1, progress=False,
        )  # fmt: skip
        frames.append(with_lock_ins(result))
    title = f"{INSTANCES} random instances, K = 5, 10, 20, {replications} runs of each"
    print_table(title, pl.concat(frames))


def over_time(replications: int, seed: int) -> None:
    for T in (20_000, 200_000, 2_000_000):
        result = entice.simulate(
            arms=entice.Gaussian(MEANS), policies=POLICIES[:2],
            drifts=[entice.LinearDrift(0), entice.LinearDrift(1.1)], horizon=T,
            replications=replications, seed=seed, checkpoints=1,
        )  # fmt: skip
        print_table(f"T = {T:,}, {replications} runs", with_lock_ins(result))


def in_weak_spots(replications: int, seed: int) -> None:
    """Run the policy's weak spots: an extreme drift, its many small payments, an attacker."""
    settings: Any = {
        "horizon": 20_000, "replications": replications, "seed": seed, "checkpoints": 1,
    }  # fmt: skip
    steep = entice.simulate(
        arms=entice.Gaussian(MEANS), policies=POLICIES[:2], drifts=[entice.LinearDrift(100)],
        **settings,
    )  # fmt: skip
    print_table(f"l = 100, {replications} runs", with_lock_ins(steep))
    plain = entice.simulate(arms=entice.Gaussian(MEANS), policies=POLICIES[:1], **settings)
    paid = plain.final["compensated_pulls"].to_numpy().mean()
    print(f"\nWithout drift it pays {paid:,.0f} times in 20,000 rounds.")
    attacked = entice.simulate(
        arms=entice.Gaussian(MEANS), adversary=entice.Attacker(),
        policies=[entice.DriftCorrectedThompson(), entice.EliminationRace(horizon=20_000)],
        **settings,
    )  # fmt: skip
    print_table(f"An attacker, {replications} runs", with_lock_ins(attacked))


def with_lock_ins(result: entice.Result) -> pl.DataFrame:
    """Mark the runs with more than a tenth of the regret of uniform play."""
    means = result.study.arms.true_means()
    tenth = 0.1 * result.study.horizon * float((means.max() - means).mean())
    return result.final.drop("pulls").with_columns(locked_in=pl.col("regret") > tenth)


def print_table(title: str, final: pl.DataFrame) -> None:
    print(f"\n{title}\n")
    print("| drift | policy | regret, mean ± error | median | 95 % | compensation | locked in |")
    print("|---|---|---:|---:|---:|---:|---:|")
    final = final.sort("drift_index", "policy_index", maintain_order=True)
    for (drift, policy), runs in final.group_by("drift", "policy", maintain_order=True):
        regret, paid = runs["regret"].to_numpy(), runs["compensation"].to_numpy()
        error = regret.std(ddof=1) / np.sqrt(len(regret))
        shown = f"{error:.0f}" if error >= 1 else f"{error:.1f}"
        print(
            f"| {drift} | {policy} | {regret.mean():,.0f} ± {shown} | {np.median(regret):,.0f} "
            f"| {np.quantile(regret, 0.95):,.0f} | {paid.mean():,.0f} "
            f"| {runs['locked_in'].to_numpy().mean():.1%} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument(
        "--only", choices=["paper", "random", "time", "limits"], help="one of the tables"
    )
    options = parser.parse_args()
    print('"Locked in": regret above a tenth of that of uniform play.')
    if options.only in (None, "paper"):
        on_the_papers_instance(options.replications, options.seed)
    if options.only in (None, "random"):
        on_random_instances(max(2, options.replications // 50), options.seed)
    if options.only in (None, "time"):
        over_time(max(2, options.replications // 10), options.seed)
    if options.only in (None, "limits"):
        in_weak_spots(max(2, options.replications // 5), options.seed)


if __name__ == "__main__":
    main()
