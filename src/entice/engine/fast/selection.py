"""Selection of a fast path: which policies have one, and under which conditions it is exact."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from entice.engine.fast import epsilon_greedy, thompson_sampling, ucb
from entice.engine.kernel import bandit_instance
from entice.policies import UCB, EpsilonGreedy, Greedy, Policy, ThompsonSampling
from entice.worlds.arms import Arms, Gaussian

_LEAST_STD = 1e-140
"""Variances underflow below this standard deviation, and overflow above its inverse."""


class FastPath(NamedTuple):
    """A faster implementation of one policy's replications, which skips rounds."""

    replicate: Callable[..., tuple[int, int, int, int]]
    """Replaces `kernel.replicate`; the drift function is its only function argument."""
    new_workspace: Callable[[int, int], Any]
    """`new_workspace(arms, horizon)` allocates its arrays."""
    speedup: int
    """A lower bound on the speedup over the generic kernel, on the paper's instance."""
    params: tuple[Any, ...] = ()
    """The parameters of the policy."""
    interleaved: bool = False
    """Whether it runs several replications at a time."""


def fast_path(policy: Policy, arms: Arms) -> FastPath | None:
    """Return the fast path that is exact for a policy on these arms, in the paper's setting.

    A path skips rounds by drawing a sum of rewards at once, and sums of Gaussian rewards are
    Gaussian. So the arms must be Gaussian, and feedback must be neither projected nor delayed. All
    arms must have noise: without it ties matter, and a path may break them differently from the
    kernel. The drift may be any function of the payment, because paid rounds are played one by one.
    """
    if not isinstance(arms, Gaussian):
        return None
    if np.min(arms.std) < _LEAST_STD or np.max(arms.std) > 1 / _LEAST_STD:
        return None
    if isinstance(policy, UCB | ThompsonSampling) and not (
        _LEAST_STD <= policy.noise <= 1 / _LEAST_STD
    ):
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
