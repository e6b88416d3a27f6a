"""Which policies have a fast path, and where it is exact."""

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
"""Below, variances are too small for a floating-point number; above the inverse, too large."""


class FastPath(NamedTuple):
    """One policy's way of not playing every round."""

    replicate: Callable[..., tuple[int, int, int, int]]
    """Does what `kernel.replicate` does; of the functions it takes the drift alone."""
    new_workspace: Callable[[int, int], Any]
    """`new_workspace(arms, horizon)`: the arrays in which it works."""
    speedup: int
    """How many times as fast as the kernel it is, at least, on the paper's instance."""
    params: tuple[Any, ...] = ()
    """What it wants to know of the policy."""
    interleaved: bool = False
    """Whether it has several replications under way at a time."""


def fast_path(policy: Policy, arms: Arms) -> FastPath | None:
    """Find the fast path that is exact for a policy on these arms, in the paper's world.

    Sums of Gaussian rewards are Gaussian, and a sum of rewards is what lets a path skip rounds.
    So the arms must be Gaussian, all with some noise (else ties matter, which a path may break
    otherwise than the kernel), and feedback must neither be projected nor come late. The drift may
    be any function of the payment: paid rounds are played one by one.
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
    if isinstance(policy, Greedy):  # it is ε-greedy that never explores
        return FastPath(epsilon_greedy.replicate, epsilon_greedy.new_workspace, 8, (0.0,))
    if isinstance(policy, ThompsonSampling):
        limit = bandit_instance(arms.true_means(), arms.scale()).limit
        params = (policy.scale == "std", limit, policy.noise)
        return FastPath(thompson_sampling.replicate, thompson_sampling.new_workspace, 2, params)
    return None
