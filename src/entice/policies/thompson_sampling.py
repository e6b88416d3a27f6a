"""Thompson sampling with a Gaussian posterior (Algorithm 4 of the paper)."""

from __future__ import annotations

import math
from typing import Literal

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
    """Choose by posterior samples (line 2 of Algorithm 4)."""
    arms = pulls.shape[0]
    roots, taken, sample = memory[:arms], memory[arms : 2 * arms], memory[2 * arms : 3 * arms]
    last = int(memory[3 * arms])
    # The first sample is overwritten in each round. Before that, it is the last round t at which
    # all rounds before t were rated, and all roots up to date; 0 before the first round.
    if t == 1 or has_fractions(pulls) or sample[0] != t - 1 or taken[last] != pulls[last]:
        complete = update_inverse_roots(roots, taken, pulls, last, 1) == t - 1
    else:  # the arm of that round was rated; no other was, because a round is rated once at most
        complete = True
    best = highest_sample(means, roots, params[0], sample, rng)
    memory[3 * arms] = best
    if not has_fractions(pulls):
        sample[0] = t if complete else -1.0
        # The arm's next root, computed now: the next round would have to wait for it.
        taken[best] = pulls[best] + 1
        roots[best] = 1.0 / math.sqrt(pulls[best] + 2)
    return best


@compiled
def highest_sample(
    means: Floats, spreads: Floats, noise: float, sample: Floats, rng: Stream
) -> int:
    """Draw from N(m_i, (noise · spread_i)²) for each arm and return the arm of the highest draw."""
    top = -math.inf
    state = get_state(rng)
    for i in range(means.shape[0]):
        z, state = normal_from(state, rng)
        sample[i] = means[i] + noise * spreads[i] * z
        top = max(top, sample[i])
    set_state(rng, state)
    return position_of(top, sample)


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
    return position_of(top, memory)


@compiled
def position_of(top: float, sample: Floats) -> int:
    """Return the position of the highest sample, whose value is known.

    The order of samples changes every round, so a one-pass argmax suffers from branch
    mispredictions.
    """
    for i in range(sample.shape[0]):
        if sample[i] == top:
            return i
    return 0
