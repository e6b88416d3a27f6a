"""The baseline: leave players to themselves."""

from __future__ import annotations

from entice.engine.jit import compiled
from entice.policies.policy import Counts, Floats, PolicySpec, Rules
from entice.principal.step import PLAYERS_CHOICE
from entice.rng import Stream


class Greedy(PolicySpec, frozen=True, tag="greedy"):
    """Select what the player would pick anyway: never a payment, and often the wrong arm for good.

    >>> import entice
    >>> entice.Greedy().label
    'Greedy'
    """

    @property
    def default_label(self) -> str:  # noqa: D102
        return "Greedy"

    def rules(self, arms: int) -> Rules:  # noqa: D102
        return Rules(select, reads_counts=False)


@compiled
def select(
    t: int, pulls: Counts, means: Floats, memory: Floats, params: tuple[()], rng: Stream
) -> int:
    """Leave the choice to the player."""
    return PLAYERS_CHOICE
