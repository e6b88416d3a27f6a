"""ε-greedy that explores arms in turn instead of at random (Wang and Huang 2018)."""

from __future__ import annotations

from entice.checks import set_number
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.model.step import PLAYERS_CHOICE
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.rng import Stream, uniform


class RoundRobinEpsilonGreedy(PolicySpec, frozen=True, tag="round_robin_epsilon_greedy"):
    """Try the next arm in turn with probability min(1, cK/t), else the arm with the best average.

    The rounds of exploration are random, but the arms are not: after m explorations each arm has
    had m/K of them, plus or minus one; under `EpsilonGreedy` that number has a standard deviation
    of about sqrt(m/K). This is the modified ε-greedy of Wang and Huang, "Multi-armed Bandits with
    Compensation" (NeurIPS 2018), whose setting is the paper's without drift.

    Parameters
    ----------
    c
        Amount of exploration: about cK log(T) of T rounds.

    >>> import entice
    >>> entice.RoundRobinEpsilonGreedy(c=5).label
    'RoundRobinEpsilonGreedy(c=5)'
    """

    c: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if set_number(self, "c") <= 0:
            rule = "must be greater than 0"
            raise InputError("RoundRobinEpsilonGreedy: c", rule, given=self.c)

    @property
    def default_label(self) -> str:  # noqa: D102
        return f"RoundRobinEpsilonGreedy(c={self.c:g})"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        return PolicyKernel(select, params=(self.c,), memory=1)


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[float], rng: Stream
) -> int:
    """Explore the next arm in turn with probability ε, otherwise exploit."""
    arms = pulls.shape[0]
    if uniform(rng) < min(1.0, params[0] * arms / t):
        arm = int(memory[0])
        memory[0] = arm + 1 if arm + 1 < arms else 0
        return arm
    return PLAYERS_CHOICE
