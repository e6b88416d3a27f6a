"""Coverage of the intervals of `Result.compare`, and what pairing gains. Two minutes.

Samples are drawn from 40,000 runs of each policy, whose means count as the truth.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from typing import Literal

import numpy as np

import entice
from entice.policies import Policy
from entice.study.results.bootstrap import Bootstrap, Floats

MEANS = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
POLICIES: list[Policy] = [entice.UCB(), entice.EpsilonGreedy(c=5), entice.ThompsonSampling()]


def runs(engine: Literal["auto", "generic"], replications: int) -> entice.Result:
    return entice.simulate(
        arms=entice.Gaussian(MEANS), policies=POLICIES, horizon=5_000, replications=replications,
        drifts=[entice.LinearDrift(0.0), entice.LinearDrift(1.1)], seed=7, checkpoints=1,
        engine=engine,
    )  # fmt: skip


def cell(result: entice.Result, p: int, d: int, metric: str = "regret") -> Floats:
    return result.rows_of(p, d, (metric,))[metric].to_numpy().astype(float)


def correlations(replications: int) -> None:
    print("| runs compared | correlation of regret | width of the paired interval |")
    print("|---|---:|---:|")
    by_engine = {"fast": runs("auto", replications), "generic": runs("generic", replications)}
    for engine, result in by_engine.items():
        names = [policy.label for policy in POLICIES]
        for p, q in combinations(range(3), 2):
            _line(f"{names[p]} and {names[q]}, {engine}", cell(result, p, 1), cell(result, q, 1))
        for p in range(3):
            label = f"{names[p]} with l = 0 and l = 1.1, {engine}"
            _line(label, cell(result, p, 0), cell(result, p, 1))
    for p, policy in enumerate(POLICIES):
        fast, generic = (cell(result, p, 1) for result in by_engine.values())
        _line(f"{policy.label}, fast and generic", fast, generic)


def _line(label: str, a: Floats, b: Floats) -> None:
    width = np.sqrt((a - b).var() / (a.var() + b.var()))
    print(f"| {label} | {np.corrcoef(a, b)[0, 1]:.2f} | {100 * width:.0f} % |")


def coverage(samples: int, replications: int) -> None:
    result = runs("auto", replications)
    rng = np.random.default_rng(1)
    print("| regret, l = 1.1 | runs | difference, paired | unpaired | probability, paired |")
    print("|---|---:|---:|---:|---:|")
    for p, q in combinations(range(3), 2):
        a, b = cell(result, p, 1), cell(result, q, 1)
        whole = Bootstrap(a, b, paired=True, resamples=100, seed=1)
        truth, better = a.mean() - b.mean(), whole.improvement(0.95).value
        for n in (20, 50, 100, 300):
            hits = np.zeros(3)
            for i in range(samples):
                one, two = rng.integers(len(a), size=n), rng.integers(len(a), size=n)
                pairs = Bootstrap(a[one], b[one], paired=True, resamples=1_000, seed=i)
                apart = Bootstrap(a[one], b[two], paired=False, resamples=1_000, seed=i)
                found = [pairs.difference(0.95), apart.difference(0.95), pairs.improvement(0.95)]
                true = (truth, truth, better)
                hits += [x.low <= y <= x.high for x, y in zip(found, true, strict=True)]
            shares = " | ".join(f"{100 * share:.1f} %" for share in hits / samples)
            print(f"| {POLICIES[p].label} and {POLICIES[q].label} | {n} | {shares} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000, help="Samples of each size.")
    parser.add_argument("--replications", type=int, default=40_000, help="Runs that count as true.")
    given = parser.parse_args()
    correlations(min(4_000, given.replications))
    print()
    coverage(given.samples, given.replications)
