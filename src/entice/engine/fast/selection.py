"""Selection of a fast path: which policies have one, and under which conditions it is exact."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from entice.engine.fast import epsilon_greedy, thompson_sampling, ucb
from entice.engine.fast.bernoulli import epsilon_greedy as bernoulli_epsilon_greedy
from entice.engine.fast.bernoulli import ucb as bernoulli_ucb
from entice.engine.kernel import bandit_instance
from entice.policies import UCB, EpsilonGreedy, Greedy, Policy, ThompsonSampling
from entice.worlds.arms import Bernoulli, Gaussian
from entice.worlds.changing_arms import Arms

_LEAST_STD = 1e-140
"""Variances underflow below this standard deviation, and overflow above its inverse."""


class FastPath(NamedTuple):
    """A faster implementation of one policy's replications, which skips rounds."""

    replicate: Callable[..., tuple[int, int, int, int]]
    """Replaces `kernel.replicate`. The drift is a `DriftPointer`, so that one serves all drifts."""
    new_workspace: Callable[[int, int], Any]
    """`new_workspace(arms, horizon)` allocates its arrays."""
    speedup: int
    """A lower bound on the speedup over the generic kernel, on the paper's instance."""
    params: tuple[Any, ...] = ()
    """The parameters of the policy."""
    interleaved: bool = False
    """Whether it runs several replications at a time."""


def fast_path(policy: Policy, arms: Arms, feedback_limits: tuple[float, float]) -> FastPath | None:
    """Return the fast path that is exact for a policy on these arms, in the paper's setting.

    A path skips rounds by drawing a sum of unpaid feedback at once. It is Gaussian for Gaussian
    arms whose feedback is not projected, and binomial for Bernoulli arms, if feedback is projected
    at most onto a range that contains 0 and 1. Gaussian arms must have noise: without it ties
    matter, and their paths may break them differently from the kernel. The drift may be any
    function of the payment, because paid rounds are played one by one.
    """
    if isinstance(policy, UCB | ThompsonSampling) and not (
        _LEAST_STD <= policy.noise <= 1 / _LEAST_STD
    ):
        return None
    lowest, highest = feedback_limits
    if isinstance(arms, Bernoulli):
        if lowest > 0.0 or highest < 1.0:
            return None
        return _bernoulli_path(policy, feedback_limits)
    if not isinstance(arms, Gaussian) or lowest > -math.inf or highest < math.inf:
        return None
    if np.min(arms.std) < _LEAST_STD or np.max(arms.std) > 1 / _LEAST_STD:
        return None
    if isinstance(policy, UCB):
        new_workspace = functools.partial(ucb.new_workspace, noise=policy.noise)
        return FastPath(ucb.replicate, new_workspace, 3, interleaved=True)
    if isinstance(policy, EpsilonGreedy):
        return FastPath(epsilon_greedy.replicate, epsilon_greedy.new_workspace, 8, (policy.c,))
    if isinstance(policy, Greedy):  # ε-greedy that never explores
        return FastPath(epsilon_greedy.replicate, epsilon_greedy.new_workspace, 8, (0.0,))
    if isinstance(policy, ThompsonSampling):
        limit = bandit_instance(arms.true_means(), arms.scale()).limit
        params = (policy.scale == "std", limit, policy.noise)
        return FastPath(thompson_sampling.replicate, thompson_sampling.new_workspace, 2, params)
    return None


def _bernoulli_path(policy: Policy, feedback_limits: tuple[float, float]) -> FastPath | None:
    """Return the fast path of a policy on Bernoulli arms."""
    if isinstance(policy, EpsilonGreedy | Greedy):
        c = policy.c if isinstance(policy, EpsilonGreedy) else 0.0
        return FastPath(
            bernoulli_epsilon_greedy.replicate, epsilon_greedy.new_workspace, 8,
            (c, *feedback_limits),
        )  # fmt: skip
    if isinstance(policy, UCB):
        new_workspace = functools.partial(ucb.new_workspace, noise=policy.noise)
        return FastPath(
            bernoulli_ucb.replicate, new_workspace, 3, feedback_limits, interleaved=True
        )
    return None
