"""The tables of docs/explanation/findings.md: growth with the drift, and Gaussian noise. A minute.

1. Means for several l, and the exponent p of (1+l)^p from l = 1 to 8.
2. Regret at four horizons with unit Gaussian noise: Thompson sampling's mean grows like a power.
"""

from __future__ import annotations

import argparse

import numpy as np

import entice
from entice.policies import Policy

COEFFICIENTS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
METRICS = {"regret": "regret", "compensation": "compensation", "compensated_pulls": "paid pulls"}
POLICIES: list[Policy] = [entice.UCB(), entice.ThompsonSampling(), entice.EpsilonGreedy(c=72)]
"""Algorithms 2, 4 and 3; c = 36/Δ, as Theorem 2 requires."""


def by_coefficient(horizon: int, replications: int) -> None:
    result = entice.simulate(
        arms=entice.Bernoulli([0.9, 0.4]), policies=POLICIES, horizon=horizon, seed=7,
        drifts=[entice.LinearDrift(l) for l in COEFFICIENTS], replications=replications,
        checkpoints=1,
    )  # fmt: skip
    summary = result.summary()
    print(f"| | {' | '.join(f'l = {l:g}' for l in COEFFICIENTS)} | p |")
    print("|---" + "|---:" * (len(COEFFICIENTS) + 1) + "|")
    for p, policy in enumerate(POLICIES):
        for metric, name in METRICS.items():
            rows = summary.filter(policy_index=p, metric=metric).sort("drift_index")
            means, one = rows["mean"].to_numpy(), COEFFICIENTS.index(1.0)
            power = np.log(means[-1] / means[one]) / np.log((1 + COEFFICIENTS[-1]) / 2)
            cells = " | ".join(f"{mean:,.1f}" for mean in means)
            print(f"| {policy.label}: {name} | {cells} | {power:.2f} |")


def by_horizon(replications: int) -> None:
    print("| T | Thompson sampling: mean ± error | median | UCB: mean ± error | median |")
    print("|---|---:|---:|---:|---:|")
    for horizon in (10**3, 10**4, 10**5, 10**6):
        result = entice.simulate(
            arms=entice.Gaussian([0.5, 0.0]), policies=[entice.ThompsonSampling(), entice.UCB()],
            horizon=horizon, replications=replications, seed=7, checkpoints=1,
        )  # fmt: skip
        rows = result.summary().filter(metric="regret").iter_rows(named=True)
        cells = [f"{row['mean']:.1f} ± {row['stderr']:.2g} | {row['q50']:.1f}" for row in rows]
        print(f"| {horizon:,} | {' | '.join(cells)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=100_000, help="Number of rounds.")
    parser.add_argument("--replications", type=int, default=400, help="Runs of each cell.")
    given = parser.parse_args()
    by_coefficient(given.horizon, given.replications)
    print()
    by_horizon(150 * given.replications)
