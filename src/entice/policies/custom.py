"""User-defined policies, compiled to the speed of the built-in ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entice.checks import set_numbers, set_whole
from entice.model.display import display_averages
from entice.model.payment import pay_required
from entice.policies.policy import PolicyKernel, PolicySpec, no_update
from entice.user_functions import custom_label, set_function


class CustomPolicy(PolicySpec, frozen=True, tag="custom"):
    """A user-defined policy: any function `select(t, pulls, means, memory, params, rng) -> arm`.

    Parameters
    ----------
    select
        A Python function in the subset that Numba compiles, or its ``"module:name"``. Its arguments
        are the round t = 1, 2, …, the counts and averages of all arms, the policy's own memory and
        parameters, and a stream for `entice.rng.uniform`, `normal` and `below`. Instead of an arm
        it may return `entice.PLAYERS_CHOICE`, which selects the arm that looks best to the player.
    update
        Optional `update(memory, params, arm, payment, feedback)`, called for each rating.
    params
        Numbers passed to all functions.
    memory, memory_per_arm
        The policy's memory has `memory + memory_per_arm * K` numbers, 0.0 before the first round.
    display
        Optional `display(ledger, memory, params, displayed) -> arm`: fills `displayed` with the
        values that players see, and returns the arm that they would pick, such as
        `displayed.argmax()`. `ledger.pulls` and `ledger.means` are the counts and averages. By
        default players see the averages. In a simulation it is called after `select`.
    price
        Optional `price(t, arm, greedy, required, memory, params, rng) -> payment`: the payment for
        `arm` if players would pick `greedy`. `required` is the difference of their displayed
        values, the least that makes a player try the arm, and the default payment.

    >>> import entice
    >>> def least_tried(t, pulls, means, memory, params, rng):
    ...     return pulls.argmin()
    >>> entice.CustomPolicy(least_tried).label
    'least_tried'
    """

    select: Any
    update: Any = None
    params: Sequence[float] = ()
    memory: int = 0
    memory_per_arm: int = 0
    display: Any = None
    price: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        set_function(self, "select", ("t", "pulls", "means", "memory", "params", "rng"))
        if self.update is not None:
            set_function(self, "update", ("memory", "params", "arm", "payment", "feedback"))
        if self.display is not None:
            set_function(self, "display", ("ledger", "memory", "params", "displayed"))
        if self.price is not None:
            arguments = ("t", "arm", "greedy", "required", "memory", "params", "rng")
            set_function(self, "price", arguments)
        set_numbers(self, "params")
        set_whole(self, "memory", at_least=0)
        set_whole(self, "memory_per_arm", at_least=0)

    @property
    def default_label(self) -> str:  # noqa: D102
        return custom_label(self.select, self.params)

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        size = self.memory + self.memory_per_arm * arms
        return PolicyKernel(
            self.select,
            self.update or no_update,
            tuple(self.params),
            size,
            self.display or display_averages,
            self.price or pay_required,
        )
