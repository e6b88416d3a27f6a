"""Measure how often 95 % intervals for the drift cover the truth, for a probe and a regression.

The paper's instance (nine Gaussian arms with unit noise, means from 0.9 to 0.1) with linear drifts.
The regression is applied to runs without a probe, like most logs, and to runs with one. The probe
tosses a coin in 5 % of all offers, and heads add 0.3. Prints the tables of
docs/explanation/drift-estimates.md in about 15 minutes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

import entice
from entice.estimate import Estimate, probe_slope, regression
from entice.policies import Policy

ARMS = entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
POLICIES: dict[str, Policy] = {
    "UCB": entice.UCB(),
    "Thompson sampling": entice.ThompsonSampling(),
    "ε-greedy, c = 5": entice.EpsilonGreedy(c=5),
}
SLOPES = (0.0, 0.4, 1.1)
PROBE = entice.Probe(share=0.05, amount=0.3)
Method = tuple[entice.Probe | None, Callable[..., Estimate]]
METHODS: dict[str, Method] = {
    "regression, no probe": (None, regression),
    "regression, probed runs": (PROBE, regression),
    "probe": (PROBE, probe_slope),
}


def run_methods(
    policy: Policy, slope: float, horizon: int, runs: int, seed: int
) -> list[list[Estimate]]:
    """Return the estimates of each method in each run."""
    estimates: list[list[Estimate]] = [[] for _ in METHODS]
    for replication in range(runs):
        rounds = {
            probe: entice.trace(
                arms=ARMS, policies=[policy], drifts=[entice.LinearDrift(slope)], horizon=horizon,
                probe=probe, seed=seed, replication=replication,
            )
            for probe in (None, PROBE)
        }  # fmt: skip
        for (probe, estimate), seen in zip(METHODS.values(), estimates, strict=True):
            seen.append(estimate(rounds[probe]))
    return estimates


def format_cells(slope: float, estimates: list[Estimate]) -> str:
    """Return the mean slope with its standard error, and the coverage."""
    slopes = np.array([e.slope for e in estimates])
    error = slopes.std(ddof=1) / math.sqrt(len(slopes))
    coverage = np.mean([e.low <= slope <= e.high for e in estimates])
    mean = round(slopes.mean(), 2) + 0.0  # avoids -0.00
    return f"{mean:.2f} ± {error:.2f} | {100 * coverage:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--horizons", type=int, nargs="+", default=[20_000, 500])
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    seed = options.seed
    for horizon in options.horizons:
        print(f"\n{horizon:,} rounds, {options.runs:,} runs\n")
        print("| policy | true l |", " | ".join(f"{name}: l̂ | covers" for name in METHODS), "|")
        print("|---|---:|" + "---:|" * 2 * len(METHODS))
        for name, policy in POLICIES.items():
            for slope in SLOPES:
                columns = run_methods(policy, slope, horizon, options.runs, seed)
                cells = " | ".join(format_cells(slope, estimates) for estimates in columns)
                print(f"| {name} | {slope:g} | {cells} |", flush=True)
                seed += 1  # independent runs for every row


if __name__ == "__main__":
    main()
