"""Policies: how the principal wants arms to be explored. One file each."""

from entice.policies.custom import CustomPolicy
from entice.policies.epsilon_greedy import EpsilonGreedy
from entice.policies.greedy import Greedy
from entice.policies.thompson_sampling import ThompsonSampling
from entice.policies.ucb import UCB

Policy = UCB | EpsilonGreedy | ThompsonSampling | Greedy | CustomPolicy

__all__ = ["UCB", "CustomPolicy", "EpsilonGreedy", "Greedy", "Policy", "ThompsonSampling"]
