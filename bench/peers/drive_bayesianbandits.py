"""Driver of bayesianbandits: pull and update of its Agent."""

from __future__ import annotations

import numpy as np
from bayesianbandits import (
    Agent,
    Arm,
    EpsilonGreedy,
    NormalRegressor,
    ThompsonSampling,
    UpperConfidenceBound,
)
from measure import ARMS, Choose, Learn, main, one_by_one


def functions_of(policy: object, seed: int) -> tuple[Choose, Learn]:
    arms = [Arm(i, learner=NormalRegressor(alpha=1.0, beta=1.0)) for i in ARMS]
    agent = Agent(arms, policy, random_seed=seed)

    def choose() -> int:
        (arm,) = agent.pull()
        return int(arm)

    def learn(arm: int, reward: float) -> None:
        agent.select_for_update(arm).update(np.array([reward]))

    return choose, learn


def ucb(seed: int) -> tuple[Choose, Learn]:
    return functions_of(UpperConfidenceBound(alpha=0.99), seed)


def epsilon_greedy(seed: int) -> tuple[Choose, Learn]:
    return functions_of(EpsilonGreedy(epsilon=0.1), seed)


def thompson(seed: int) -> tuple[Choose, Learn]:
    return functions_of(ThompsonSampling(), seed)


PLAYS = {
    "ucb": one_by_one(ucb),
    "epsilon_greedy": one_by_one(epsilon_greedy),
    "thompson": one_by_one(thompson),
}

if __name__ == "__main__":
    main(PLAYS)
