"""The peers' rules in Entice: built-in policies where they exist, else custom ones.

A difference in regret then comes from the peer, not from a different rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import entice
from entice.policies import Policy
from entice.rng import below, normal, uniform
from entice.study.spec import ColdStart


def shrunk(n: int, mean: float, prior: float) -> float:
    """Return an average that includes `prior` observations of 0."""
    return mean * n / (n + prior) if n + prior > 0 else mean


def epsilon_greedy(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    """ε = floor + scale / (offset + t), on averages shrunk by a prior; ties at random."""
    floor, scale, offset, prior = params
    arms = len(pulls)
    if uniform(rng) < floor + scale / (offset + t):
        return below(rng, arms)
    best, top, ties = 0, -math.inf, 1
    for i in range(arms):
        value = shrunk(pulls[i], means[i], prior)
        if value > top:
            best, top, ties = i, value, 1
        elif value == top:
            ties += 1
            if below(rng, ties) == 0:
                best = i
    return best


def posterior(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    """The mean's posterior for unit noise: N(0, 1/prior) before the first reward.

    With `width` 0 the index is a sample from it (Thompson sampling), else its mean plus `width`
    standard deviations.
    """
    width, prior = params
    best, top = 0, -math.inf
    for i in range(len(pulls)):
        above = width if width > 0 else normal(rng)
        precision = pulls[i] + prior
        value = shrunk(pulls[i], means[i], prior) + above / math.sqrt(max(precision, 1.0))
        if value > top:
            best, top = i, value
    return best


@dataclass(frozen=True)
class Twin:
    """A policy and its cold start; `prior` starts at averages of 0, like a peer without one."""

    policy: Policy
    cold_start: ColdStart = "each_arm_once"


UCB = Twin(entice.UCB())
EPSILON_DECREASING = Twin(entice.EpsilonGreedy(c=5), "prior")
EPSILON_HYPERBOLIC = Twin(entice.CustomPolicy(epsilon_greedy, params=[0, 45, 44, 0]), "prior")
_EPSILON_FIXED = entice.CustomPolicy(epsilon_greedy, params=[0.1, 0, 1, 0])
EPSILON_FIXED = Twin(_EPSILON_FIXED)
EPSILON_FIXED_FROM_0 = Twin(_EPSILON_FIXED, "prior")
EPSILON_FIXED_SHRUNK = Twin(entice.CustomPolicy(epsilon_greedy, params=[0.1, 0, 1, 1]), "prior")
THOMPSON = Twin(entice.ThompsonSampling())
THOMPSON_FLAT = Twin(entice.CustomPolicy(posterior, params=[0, 0]), "prior")
_THOMPSON_PRIOR = entice.CustomPolicy(posterior, params=[0, 1])
THOMPSON_PRIOR = Twin(_THOMPSON_PRIOR, "prior")
THOMPSON_PRIOR_OPENED = Twin(_THOMPSON_PRIOR)
QUANTILE_99 = Twin(entice.CustomPolicy(posterior, params=[2.3263478740408408, 1]), "prior")
