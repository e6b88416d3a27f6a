"""The baseline without incentives: the player's own choice."""

from __future__ import annotations

from entice.jit.decorators import compiled
from entice.model.step import PLAYERS_CHOICE
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.rng import Stream


class Greedy(PolicySpec, frozen=True, tag="greedy"):
    """Select the arm that the player would pick anyway: never pays, and often stays at a wrong arm.

    >>> import entice
    >>> entice.Greedy().label
    'Greedy'
    """

    @property
    def default_label(self) -> str:  # noqa: D102
        return "Greedy"

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        return PolicyKernel(select, reads_counts=False)


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[()], rng: Stream
) -> int:
    """Leave the choice to the player."""
    return PLAYERS_CHOICE
