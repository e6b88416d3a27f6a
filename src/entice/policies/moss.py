"""MOSS: UCB that knows the number of rounds (Audibert and Bubeck 2009)."""

from __future__ import annotations

import math

from entice.checks import set_noise, set_whole
from entice.jit.decorators import compiled
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.rng import Stream


class MOSS(PolicySpec, frozen=True, tag="moss"):
    """Select the arm with the highest m_i + noise · sqrt(4 log⁺(T / (K n_i)) / n_i).

    Minimax optimal strategy in the stochastic case: Audibert and Bubeck, "Minimax Policies for
    Adversarial and Stochastic Bandits" (COLT 2009); their bound for rewards in [0, 1] is that of
    noise = 0.5. An arm pulled T/K times has no bonus left. Unrated arms come first. Like UCB it
    does not correct for drift: it is the baseline for policies that know the horizon.

    Parameters
    ----------
    horizon
        T, the number of rounds.
    noise
        The standard deviation of ratings.

    >>> import entice
    >>> entice.MOSS(horizon=20_000).label
    'MOSS(horizon=20000)'
    """

    horizon: int
    noise: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        set_whole(self, "horizon", at_least=1)
        set_noise(self)

    @property
    def default_label(self) -> str:  # noqa: D102
        noise = "" if self.noise == 1 else f", noise={self.noise:g}"
        return f"MOSS(horizon={self.horizon}{noise})"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        return PolicyKernel(select, params=(self.noise, self.horizon / arms), memory=2 * arms)


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[float, float], rng: Stream
) -> int:
    """Choose by the index. A bonus does not depend on t: it changes with the arm's count only."""
    arms = pulls.shape[0]
    best, top = 0, -math.inf
    for i in range(arms):
        if pulls[i] == 0:
            return i
        if memory[arms + i] != pulls[i]:
            memory[arms + i] = pulls[i]
            log_term = max(0.0, math.log(params[1] / pulls[i]))
            memory[i] = params[0] * math.sqrt(4.0 * log_term / pulls[i])
        if means[i] + memory[i] > top:
            best, top = i, means[i] + memory[i]
    return best
