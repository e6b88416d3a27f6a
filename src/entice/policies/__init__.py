"""Policies: the principal's exploration strategies, one file each."""

from entice.policies.alternating_thompson import AlternatingThompson
from entice.policies.beta_thompson import BetaThompson
from entice.policies.custom import CustomPolicy
from entice.policies.discounted_ucb import DiscountedUCB
from entice.policies.drift_corrected_thompson import DriftCorrectedThompson
from entice.policies.elimination_race import EliminationRace
from entice.policies.epsilon_greedy import EpsilonGreedy
from entice.policies.equal_pay import EqualPay
from entice.policies.equal_pay_elimination import EqualPayElimination
from entice.policies.greedy import Greedy
from entice.policies.kl_ucb import KLUCB
from entice.policies.moss import MOSS
from entice.policies.round_robin_epsilon_greedy import RoundRobinEpsilonGreedy
from entice.policies.sliding_window_ucb import SlidingWindowUCB
from entice.policies.thompson_sampling import ThompsonSampling
from entice.policies.ucb import UCB

Policy = (
    UCB
    | EpsilonGreedy
    | ThompsonSampling
    | Greedy
    | CustomPolicy
    | DriftCorrectedThompson
    | RoundRobinEpsilonGreedy
    | AlternatingThompson
    | EliminationRace
    | DiscountedUCB
    | SlidingWindowUCB
    | BetaThompson
    | KLUCB
    | MOSS
    | EqualPay
    | EqualPayElimination
)

__all__ = [
    "KLUCB",
    "MOSS",
    "UCB",
    "AlternatingThompson",
    "BetaThompson",
    "CustomPolicy",
    "DiscountedUCB",
    "DriftCorrectedThompson",
    "EliminationRace",
    "EpsilonGreedy",
    "EqualPay",
    "EqualPayElimination",
    "Greedy",
    "Policy",
    "RoundRobinEpsilonGreedy",
    "SlidingWindowUCB",
    "ThompsonSampling",
]
