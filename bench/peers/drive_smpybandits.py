"""Driver of SMPyBandits: its policies without its Evaluator, which would add to the time."""

from __future__ import annotations

import random

import numpy as np
from measure import ARMS, Choose, Learn, main, one_by_one
from SMPyBandits.Policies import UCB, EpsilonDecreasing, Thompson
from SMPyBandits.Policies.BasePolicy import BasePolicy
from SMPyBandits.Policies.Posterior import Gauss

K = len(ARMS)


def functions_of(policy: BasePolicy, seed: int) -> tuple[Choose, Learn]:
    random.seed(seed)  # its policies draw from both global generators
    np.random.seed(seed)
    policy.startGame()
    return policy.choice, policy.getReward


def ucb(seed: int) -> tuple[Choose, Learn]:
    return functions_of(UCB(K), seed)


def epsilon_greedy(seed: int) -> tuple[Choose, Learn]:
    return functions_of(EpsilonDecreasing(K, epsilon=5 * K), seed)


def thompson(seed: int) -> tuple[Choose, Learn]:
    return functions_of(Thompson(K, posterior=Gauss), seed)


PLAYS = {
    "ucb": one_by_one(ucb),
    "epsilon_greedy": one_by_one(epsilon_greedy),
    "thompson": one_by_one(thompson),
}

if __name__ == "__main__":
    main(PLAYS)
