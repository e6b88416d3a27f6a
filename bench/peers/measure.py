"""What all drivers share: the bandit, the loop around an online library, the stopwatch.

A driver is run by the Python of its peer's environment. It names what it can play and hands that to
`main`, which prints a line of JSON for each, as soon as it is measured.
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
"""Run a policy once for each seed, so many rounds, and return each run's regret by true means."""

Choose = Callable[[], int]
Learn = Callable[[int, float], object]

TURN_SECONDS = 0.3  # long enough for the clock of CPU time
MOST_AT_ONCE = 256  # some keep every round of every run


def one_by_one(new: Callable[[int], tuple[Choose, Learn]], opening: int = 0) -> Play:
    """Play a library that is asked for one decision at a time.

    Parameters
    ----------
    new
        Makes a fresh policy from a seed: how it chooses, and how it learns of a reward.
    opening
        So many rounds try the arms in turn, before the library is asked.
    """

    def run(seed: int, rounds: int) -> float:
        choose, learn = new(seed)
        # A library may well seed the same generator: the rewards must not repeat its draws.
        noise = np.random.default_rng([seed, 1]).standard_normal(rounds).tolist()
        regret = 0.0
        for t in range(rounds):
            arm = t if t < opening else choose()
            learn(arm, MEANS[arm] + noise[t])
            regret += GAPS[arm]
        return regret

    return lambda seeds, rounds: [run(seed, rounds) for seed in seeds]


def measured(play: Play, rounds: int, seconds: float, fewest: int) -> dict[str, float]:
    """Run in turns for so many seconds of CPU time: the fastest turn, and all runs' regret."""
    regrets: list[float] = []
    turn, spent, fastest = 1, 0.0, math.inf
    while spent < seconds or len(regrets) < fewest or fastest == math.inf:
        seeds = range(len(regrets), len(regrets) + turn)
        start = time.process_time()
        regrets += play(seeds, rounds)
        took = time.process_time() - start
        spent += took
        if took < TURN_SECONDS and turn < MOST_AT_ONCE:
            turn *= 2
        else:
            fastest = min(fastest, took / turn)
    return {
        "ns_per_round": fastest / rounds * 1e9,
        "runs": len(regrets),
        "regret": statistics.fmean(regrets),
        "stderr": statistics.stdev(regrets) / math.sqrt(len(regrets)),
    }


def main(plays: Mapping[str, Play]) -> None:
    """Measure each and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3_000)
    parser.add_argument("--seconds", type=float, default=12.0, help="CPU time for each policy")
    parser.add_argument("--fewest", type=int, default=10, help="runs, however long they take")
    options = parser.parse_args()
    for key, play in plays.items():
        found = measured(play, options.rounds, options.seconds, options.fewest)
        print(json.dumps({"policy": key, **found}), flush=True)
