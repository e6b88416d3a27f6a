"""Driver of MABWiser: predict, then partial_fit with a single decision."""

from __future__ import annotations

from mabwiser.mab import MAB, LearningPolicy
from measure import ARMS, Choose, Learn, main, one_by_one

K = len(ARMS)
CONSTANT = [[1.0]]  # a constant context: ridge regression on it is a shrunk average


def functions_of(policy: object, seed: int) -> tuple[Choose, Learn]:
    mab = MAB(list(ARMS), policy, seed=seed)
    return mab.predict, lambda arm, reward: mab.partial_fit([arm], [reward])


def ucb(seed: int) -> tuple[Choose, Learn]:
    return functions_of(LearningPolicy.UCB1(alpha=1), seed)


def epsilon_greedy(seed: int) -> tuple[Choose, Learn]:
    return functions_of(LearningPolicy.EpsilonGreedy(epsilon=0.1), seed)


def thompson(seed: int) -> tuple[Choose, Learn]:
    mab = MAB(list(ARMS), LearningPolicy.LinTS(alpha=1, l2_lambda=1), seed=seed)
    return (
        lambda: mab.predict(CONSTANT),
        lambda arm, reward: mab.partial_fit([arm], [reward], CONSTANT),
    )


def above_half(_arm: int, reward: float) -> int:
    return int(reward > 0.5)


def thompson_beta(seed: int) -> tuple[Choose, Learn]:
    return functions_of(LearningPolicy.ThompsonSampling(binarizer=above_half), seed)


# MABWiser must be fitted before it predicts, so each arm is tried once first.
PLAYS = {
    "ucb": one_by_one(ucb, opening=K),
    "epsilon_greedy": one_by_one(epsilon_greedy, opening=K),
    "thompson": one_by_one(thompson, opening=K),
    "thompson_beta": one_by_one(thompson_beta, opening=K),
}

if __name__ == "__main__":
    main(PLAYS)
