"""A live principal, which runs Algorithm 1 one round at a time."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np

from entice.checks import as_number, as_seed, as_whole_number
from entice.errors import EnticeError, InputError, StudyError
from entice.jit.specialize import specialize
from entice.model import step
from entice.model.display import display_averages
from entice.model.ledger import Ledger, new_ledger
from entice.policies import Policy
from entice.rng import POLICY, new_stream
from entice.study.spec import ColdStart


class Offer(NamedTuple):
    """The arm and payment offered to one player."""

    t: int
    """The round."""
    arm: int
    """The arm that the principal wants tried."""
    greedy_arm: int
    """The arm that the player would pick without a payment."""
    payment: float
    """The payment for trying `arm`, in units of reward; normally 0 for the greedy arm."""


class Principal:
    """A principal that offers each player an arm and a payment, and learns from the ratings.

    It runs the same functions that `simulate` compiles into its loop: given the same feedback, it
    makes bit-identical offers.

    Parameters
    ----------
    policy
        The exploration policy.
    arms
        The number of arms.
    seed
        Seed of the policy's random numbers. Drawn if omitted, and kept in `seed`.
    cold_start, prior
        See `Study`.

    >>> import entice
    >>> principal = entice.Principal(entice.UCB(), arms=2, seed=7)
    >>> offer = principal.offer()
    >>> offer
    Offer(t=1, arm=0, greedy_arm=0, payment=0.0)
    >>> principal.settle(offer, feedback=0.7)
    >>> principal.offer().arm
    1
    """

    def __init__(
        self,
        policy: Policy,
        arms: int,
        *,
        seed: int | None = None,
        cold_start: ColdStart = "each_arm_once",
        prior: float = 0.0,
    ) -> None:
        self.arms = as_whole_number("Principal: arms", arms)
        if self.arms < 2:
            raise InputError("Principal: arms", "must be at least 2", given=arms)
        if cold_start not in ("each_arm_once", "prior"):
            rule = 'must be "each_arm_once" or "prior"'
            raise InputError("Principal: cold_start", rule, given=cold_start)
        self.seed = secrets.randbits(32) if seed is None else as_seed("Principal: seed", seed)
        self._each_arm_once = cold_start == "each_arm_once"
        self._policy = policy
        self._kernel = policy.kernel(self.arms)
        self._ledger = new_ledger(self.arms, as_number("Principal: prior", prior))
        self._memory = np.zeros(self._kernel.memory)
        self._stream = new_stream(self.seed, 0, POLICY)
        kernel = self._kernel
        self._displayed = (
            self._ledger.means if kernel.display is display_averages else np.zeros(self.arms)
        )
        self._offer = specialize(step.offer, kernel.select, kernel.display, kernel.payment_rule)
        self._settle = specialize(step.settle, self._kernel.update)
        self._t = 0
        self._pending: Offer | None = None

    @property
    def ledger(self) -> Ledger:
        """A copy of the ledger: ratings and averages of each arm."""
        return Ledger._make(column.copy() for column in self._ledger)

    def offer(self) -> Offer:
        """Return the offer to the next player; the same one until `settle` is called."""
        if self._pending is None:
            t = self._t + 1
            arm, greedy, payment = self._offer(
                t, self._ledger, self._ledger.pulls, self._displayed, self._memory,
                self._kernel.params, self._stream, self._each_arm_once,
            )  # fmt: skip
            if greedy == step.NO_SUCH_ARM:
                raise StudyError(
                    f"Policy {self._policy.label} selected arm {arm} in round {t}, "
                    f"but arms are numbered 0 to {self.arms - 1}."
                )
            self._t = t
            self._pending = Offer(t, int(arm), int(greedy), float(payment))
        return self._pending

    def settle(self, offer: Offer, feedback: float) -> None:
        """Record the rating of the player who accepted the offer."""
        if offer != self._pending:
            raise EnticeError(
                f"settle: offer must be the open offer, {self._pending}; got {offer}. "
                "Settle each offer once, before the next one is made."
            )
        feedback = as_number("settle: feedback", feedback)
        self._settle(
            self._ledger, self._memory, self._kernel.params, offer.arm, offer.payment, feedback
        )
        self._pending = None
