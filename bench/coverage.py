"""How often 95 % intervals for the drift hold the truth: a probe's beside a regression's.

The paper's instance (nine Gaussian arms of unit noise, means from 0.9 to 0.1) with linear drifts.
The regression is given runs without a probe, as most logs are, and then those with one; the probe
throws its coin in 5 % of all offers, and heads add 0.3. Prints the tables of docs/estimate.md, in
a quarter of an hour.
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


def found(policy: Policy, slope: float, horizon: int, runs: int, seed: int) -> list[list[Estimate]]:
    """What each method finds in each run."""
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


def told(slope: float, estimates: list[Estimate]) -> str:
    """The mean slope with its standard error, and the coverage."""
    slopes = np.array([e.slope for e in estimates])
    error = slopes.std(ddof=1) / math.sqrt(len(slopes))
    holds = np.mean([e.low <= slope <= e.high for e in estimates])
    mean = round(slopes.mean(), 2) + 0.0  # no minus before a zero
    return f"{mean:.2f} ± {error:.2f} | {100 * holds:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--horizons", type=int, nargs="+", default=[20_000, 500])
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    seed = chosen.seed
    for horizon in chosen.horizons:
        print(f"\n{horizon:,} rounds, {chosen.runs:,} runs\n")
        print("| policy | true l |", " | ".join(f"{name}: l̂ | covers" for name in METHODS), "|")
        print("|---|---:|" + "---:|" * 2 * len(METHODS))
        for name, policy in POLICIES.items():
            for slope in SLOPES:
                columns = found(policy, slope, horizon, chosen.runs, seed)
                cells = " | ".join(told(slope, estimates) for estimates in columns)
                print(f"| {name} | {slope:g} | {cells} |", flush=True)
                seed += 1  # runs of their own for every row


if __name__ == "__main__":
    main()
