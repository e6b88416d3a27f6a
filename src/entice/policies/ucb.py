"""UCB: optimism in the face of uncertainty (Algorithm 2 of the paper, after Auer et al. 2002)."""

from __future__ import annotations

import math

import numpy as np

from entice.checks import set_noise
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.model.ledger import argmax
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec, keep_inverse_roots
from entice.rng import Stream

SPAN = 31
"""Rounds beyond the first of those for which log t is taken at their ends only."""


class UCB(PolicySpec, frozen=True, tag="ucb"):
    """Select the arm with the highest m_i + noise · sqrt(2 log t / n_i); unrated arms come first.

    Parameters
    ----------
    count_in_flight
        Whether n_i counts, beside an arm's ratings, those that its other pulls are still expected
        to bring: each with the probability that its rating still comes, which is learnt from the
        ages at which earlier pulls were rated; m_i is the average of ratings either way. While
        ratings are late, bounds that wait for them keep pointing at the same arm, and all who come
        meanwhile are paid for what one of them would have told. Where ratings come at once, nothing
        is in flight and both are the same.
    noise
        The standard deviation of ratings, as far as it is known. The paper's Algorithm 2 has 1,
        which on a scale from 0 to 1 explores several times as much as it needs to: no rating there
        has a standard deviation above 0.5.

    >>> import entice
    >>> entice.UCB().label, entice.UCB(count_in_flight=True).label, entice.UCB(noise=0.5).label
    ('UCB', 'UCB(in flight)', 'UCB(noise=0.5)')
    """

    count_in_flight: bool = False
    noise: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.count_in_flight, bool):
            rule = "must be true or false"
            raise InputError("UCB: count_in_flight", rule, given=self.count_in_flight)
        set_noise(self)

    @property
    def default_label(self) -> str:  # noqa: D102
        settings = ["in flight"] if self.count_in_flight else []
        settings += [] if self.noise == 1 else [f"noise={self.noise:g}"]
        return "UCB" + (f"({', '.join(settings)})" if settings else "")

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        return PolicyKernel(
            select,
            params=(self.noise,),
            memory=4 + 2 * arms,
            counts_in_flight=self.count_in_flight,
        )


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[float], rng: Stream
) -> int:
    """Choose by the upper confidence bound (line 2 of Algorithm 2)."""
    if t == 1:  # log 1 = 0: every bound is an average, and an unrated arm's has no value
        unrated = first_unrated(pulls)
        return unrated if unrated >= 0 else argmax(means)
    arms = pulls.shape[0]
    span, roots, taken = memory[1:4], memory[4 : 4 + arms], memory[4 + arms :]
    last, noise = int(memory[0]), params[0]
    keep_inverse_roots(roots, taken, pulls, last, 0)  # 1/sqrt(0) = inf puts unrated arms first
    # The arm of last time mostly leads again. That can mostly be told without log t, from its
    # value at both ends of a span of rounds: bounds, rounding included, grow with it.
    if t > span[2] or t < span[2] - SPAN:
        span[0], span[1], span[2] = (
            noise * exploration_factor(t),
            noise * exploration_factor(t + SPAN),
            t + SPAN,
        )
    if leads(last, means, roots, span[0], span[1]):
        return last
    best = highest_bound(means, roots, noise * exploration_factor(t))
    memory[0] = best
    return best


@compiled
def exploration_factor(t: int) -> float:
    """The factor of noise/sqrt(n_i) in every bound of round t."""
    return math.sqrt(2.0 * math.log(t))


@compiled
def leads(arm: int, means: Floats, roots: Floats, low: float, high: float) -> bool:
    """Tell whether an arm's lowest bound is above all others' highest."""
    at = np.uint64(arm)
    bound = means[at] + low * roots[at]
    for i in range(np.uint64(means.shape[0])):
        if means[i] + high * roots[i] >= bound and i != at:
            return False
    return True


@compiled
def highest_bound(means: Floats, roots: Floats, factor: float) -> int:
    """Find the arm with the highest bound, ties to the lowest index."""
    best, top = 0, means[0] + factor * roots[0]
    for i in range(1, means.shape[0]):
        bound = means[i] + factor * roots[i]
        if bound > top:
            best, top = i, bound
    return best


@compiled
def highest_weighted_bound(weights: Floats, sums: Floats, factor: float) -> int:
    """Find the arm with the highest bound when not all ratings count, or not fully.

    `weights` says how much each arm's ratings count together, `sums` is their sum, so weighted. An
    arm without any comes first; ties go to the lowest index.
    """
    best, top = 0, -math.inf
    for i in range(weights.shape[0]):
        if weights[i] == 0.0:
            return i
        bound = sums[i] / weights[i] + factor / math.sqrt(weights[i])
        if bound > top:
            best, top = i, bound
    return best


@compiled
def first_unrated(pulls: Counts) -> int:
    """Return the lowest arm without ratings, or −1 if there is none."""
    for i in range(pulls.shape[0]):
        if pulls[i] == 0:
            return i
    return -1
