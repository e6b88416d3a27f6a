"""Driver of PyMAB: an Experiment runs all replications in its compiled core."""

from __future__ import annotations

from measure import MEANS, Play, main
from pymab import BanditEnvironment, Experiment, ExperimentConfig, GaussianReward
from pymab.policies import (
    DecayingEpsilonGreedyPolicy,
    GaussianThompsonSamplingPolicy,
    Policy,
    UCBPolicy,
)

K = len(MEANS)


def play_of(policy: Policy) -> Play:
    def play(seeds: range, rounds: int) -> list[float]:
        experiment = Experiment(
            environment=BanditEnvironment(means=MEANS, reward_model=GaussianReward(std=1.0)),
            policies={"one": policy},
            config=ExperimentConfig(
                horizon=rounds, n_replicates=len(seeds), seed=seeds[0], backend="rust"
            ),
        )
        regrets: list[float] = experiment.run().regret[:, :, 0].sum(axis=1).tolist()
        return regrets

    return play


PLAYS = {
    "ucb": play_of(UCBPolicy(n_arms=K, c=2.0)),
    "epsilon_greedy": play_of(
        DecayingEpsilonGreedyPolicy(
            n_arms=K, initial_epsilon=1.0, min_epsilon=0.0, decay_rate=1 / (5 * K)
        )
    ),
    "thompson": play_of(GaussianThompsonSamplingPolicy(n_arms=K)),
}

if __name__ == "__main__":
    main(PLAYS)
