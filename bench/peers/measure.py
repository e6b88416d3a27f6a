"""The bandit, the loop around an online library, and the measurement, shared by all drivers.

A driver runs in its peer's environment. It passes its policies to `main`, which prints a line of
JSON for each as soon as it is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

MEANS = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
GAPS = [MEANS[0] - mean for mean in MEANS]
ARMS = range(len(MEANS))

Play = Callable[[range, int], list[float]]
"""`play(seeds, rounds)` runs a policy once for each seed and returns each run's regret."""

Choose = Callable[[], int]
Learn = Callable[[int, float], object]

REPEAT_SECONDS = 0.3  # long enough for the clock of CPU time
MAX_RUNS = 256  # some libraries keep every round of every run


def one_by_one(new: Callable[[int], tuple[Choose, Learn]], opening: int = 0) -> Play:
    """Return a play of a library that makes one decision at a time.

    Parameters
    ----------
    new
        Creates a policy from a seed: functions that choose an arm and learn a reward.
    opening
        Number of rounds that try the arms in turn, before the library chooses.
    """

    def run(seed: int, rounds: int) -> float:
        choose, learn = new(seed)
        # A library may use the same generator and seed: rewards must not repeat its draws.
        noise = np.random.default_rng([seed, 1]).standard_normal(rounds).tolist()
        regret = 0.0
        for t in range(rounds):
            arm = t if t < opening else choose()
            learn(arm, MEANS[arm] + noise[t])
            regret += GAPS[arm]
        return regret

    return lambda seeds, rounds: [run(seed, rounds) for seed in seeds]


def measure(play: Play, rounds: int, seconds: float, min_runs: int) -> dict[str, float]:
    """Measure the fastest repetition within some CPU seconds, and the regret of all runs."""
    regrets: list[float] = []
    runs, spent, fastest = 1, 0.0, math.inf
    while spent < seconds or len(regrets) < min_runs or fastest == math.inf:
        seeds = range(len(regrets), len(regrets) + runs)
        start = time.process_time()
        regrets += play(seeds, rounds)
        took = time.process_time() - start
        spent += took
        if took < REPEAT_SECONDS and runs < MAX_RUNS:
            runs *= 2
        else:
            fastest = min(fastest, took / runs)
    return {
        "ns_per_round": fastest / rounds * 1e9,
        "runs": len(regrets),
        "regret": statistics.fmean(regrets),
        "stderr": statistics.stdev(regrets) / math.sqrt(len(regrets)),
    }


def main(plays: Mapping[str, Play]) -> None:
    """Measure each policy and print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3_000)
    parser.add_argument("--seconds", type=float, default=12.0, help="CPU time for each policy")
    parser.add_argument(
        "--min-runs", type=int, default=10, help="least number of runs of each policy"
    )
    options = parser.parse_args()
    for key, play in plays.items():
        found = measure(play, options.rounds, options.seconds, options.min_runs)
        print(json.dumps({"policy": key, **found}), flush=True)
