"""Driver of river: pull and update of its bandit policies."""

from __future__ import annotations

from measure import ARMS, Choose, Learn, main, one_by_one
from river import bandit, proba

IDS = list(ARMS)


def functions_of(policy: bandit.base.Policy) -> tuple[Choose, Learn]:
    return lambda: policy.pull(IDS), policy.update


def ucb(seed: int) -> tuple[Choose, Learn]:
    return functions_of(bandit.UCB(delta=1, seed=seed))


def epsilon_greedy(seed: int) -> tuple[Choose, Learn]:
    return functions_of(bandit.EpsilonGreedy(epsilon=0.1, burn_in=1, seed=seed))


def thompson(seed: int) -> tuple[Choose, Learn]:
    # A fitted standard deviation requires two rewards; with one it is 0.
    return functions_of(bandit.ThompsonSampling(reward_obj=proba.Gaussian(), burn_in=2, seed=seed))


PLAYS = {
    "ucb": one_by_one(ucb),
    "epsilon_greedy": one_by_one(epsilon_greedy),
    "thompson": one_by_one(thompson),
}

if __name__ == "__main__":
    main(PLAYS)
