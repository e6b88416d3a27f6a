"""Thompson sampling with a Gaussian posterior (Algorithm 4 of the paper)."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from entice.checks import set_noise
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.policies.policy import (
    Counts,
    Floats,
    PolicyKernel,
    PolicySpec,
    has_fractions,
    update_inverse_roots,
)
from entice.rng import Stream, get_state, normal_from, set_state

Scale = Literal["variance", "std"]


class ThompsonSampling(PolicySpec, frozen=True, tag="thompson_sampling"):
    """Draw θ_i from N(m_i, noise²/(n_i + 1)) for each arm and select the highest draw.

    Parameters
    ----------
    scale
        The meaning of 1/(n_i + 1). ``"variance"``: Algorithm 4 as written. ``"std"``: the standard
        deviation, which under-explores and locks onto wrong arms, but fits the published table.
    noise
        The standard deviation of ratings, if known; Algorithm 4 assumes 1. The standard deviation
        of every draw is multiplied by it, under either scale.

    >>> import entice
    >>> entice.ThompsonSampling().label, entice.ThompsonSampling(scale="std").label
    ('ThompsonSampling', 'ThompsonSampling(scale=std)')
    >>> entice.ThompsonSampling(noise=0.3).label
    'ThompsonSampling(noise=0.3)'
    """

    scale: Scale = "variance"
    noise: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale not in ("variance", "std"):
            raise InputError(
                "ThompsonSampling: scale",
                'must be "variance" (Algorithm 4) or "std" (as in the published table)',
                given=self.scale,
            )
        set_noise(self)

    @property
    def default_label(self) -> str:  # noqa: D102
        settings = [] if self.scale == "variance" else ["scale=std"]
        settings += [] if self.noise == 1 else [f"noise={self.noise:g}"]
        return "ThompsonSampling" + (f"({', '.join(settings)})" if settings else "")

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        if self.scale == "variance":
            return PolicyKernel(select_by_variance, params=(self.noise,), memory=3 * arms + 1)
        return PolicyKernel(select_by_std, params=(self.noise,), memory=arms)


@compiled
def select_by_variance(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[float], rng: Stream
) -> int:
    """Choose by posterior samples (line 2 of Algorithm 4).

    The memory holds 1/sqrt(n_i + 1) of each arm, the n_i that it was computed from, the samples of
    the last round, and the last selected arm. Campaigns store it, so its form must not change.
    """
    arms = pulls.shape[0]
    # The compiler can't know that an index is not negative unless its type says so.
    samples, at_last = np.uint64(2 * arms), np.uint64(3 * arms)
    last = int(memory[at_last])
    # The first sample is overwritten in each round. Before that, it is the last round t at which
    # all rounds before t were rated, and all roots up to date; 0 before the first round. If only
    # the arm of that round was rated since then, its root is the one that was computed then. A
    # round is rated once at most, so no other arm was rated.
    complete = t > 1 and memory[samples] == t - 1 and memory[np.uint64(arms + last)] == pulls[last]
    if has_fractions(pulls) or not complete:
        roots, taken = memory[:arms], memory[arms : 2 * arms]
        complete = update_inverse_roots(roots, taken, pulls, last, 1) == t - 1
    best = highest_sample(means, memory, params[0], memory, 2 * arms, rng)
    memory[at_last] = best
    if not has_fractions(pulls):
        memory[samples] = t if complete else -1.0
        # The arm's next root, computed now: the next round would have to wait for it.
        at = np.uint64(best)
        memory[at] = 1.0 / math.sqrt(pulls[at] + 2)
        memory[np.uint64(arms + best)] = pulls[at] + 1
    return best


@compiled
def highest_sample(
    means: Floats, spreads: Floats, noise: float, memory: Floats, first: int, rng: Stream
) -> int:
    """Draw from N(m_i, (noise · spread_i)²) for each arm and return the arm of the highest draw.

    The draws are written to `memory` from index `first` on: making a slice for them in each round
    takes longer.
    """
    top = -math.inf
    state = get_state(rng)
    for i in range(means.shape[0]):
        z, state = normal_from(state, rng)
        sample = means[i] + noise * spreads[i] * z
        memory[np.uint64(first + i)] = sample
        top = max(top, sample)
    set_state(rng, state)
    return position_of(top, memory, first, means.shape[0])


@compiled
def select_by_std(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[float], rng: Stream
) -> int:
    """Choose by samples whose standard deviation, not variance, has the factor 1/(n_i + 1)."""
    top, noise = -math.inf, params[0]
    state = get_state(rng)
    for i in range(pulls.shape[0]):
        z, state = normal_from(state, rng)
        memory[i] = means[i] + noise * z / (pulls[i] + 1.0)
        top = max(top, memory[i])
    set_state(rng, state)
    return position_of(top, memory, 0, pulls.shape[0])


@compiled
def position_of(top: float, memory: Floats, first: int, arms: int) -> int:
    """Return the arm of the highest sample, whose value is known.

    The order of samples changes every round, so a one-pass argmax suffers from branch
    mispredictions.
    """
    for i in range(arms):
        if memory[np.uint64(first + i)] == top:
            return i
    return 0
