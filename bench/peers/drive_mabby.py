"""Driver of mabby: one Simulation for each run, because it sums regret over its trials."""

from __future__ import annotations

import math

from mabby import GaussianArm, Metric, Simulation
from mabby.strategies import EpsilonGreedyStrategy, Strategy, UCB1Strategy
from measure import MEANS, Play, main


def play_of(strategy: Strategy) -> Play:
    def run(seed: int, rounds: int) -> float:
        bandit = GaussianArm.bandit(seed=seed, loc=MEANS, scale=[1.0] * len(MEANS))
        # Streams of the bandit and of the agent must differ.
        simulation = Simulation(bandit, strategies=[strategy], seed=seed + 1_000_000_000)
        stats = simulation.run(trials=1, steps=rounds, metrics=[Metric.CUM_REGRET])
        (agent,) = simulation.agents
        return float(stats[agent][Metric.CUM_REGRET][-1])

    return lambda seeds, rounds: [run(seed, rounds) for seed in seeds]


PLAYS = {
    "ucb": play_of(UCB1Strategy(alpha=math.sqrt(2))),
    "epsilon_greedy": play_of(EpsilonGreedyStrategy(eps=0.1)),
}

if __name__ == "__main__":
    main(PLAYS)
