"""A live principal: the step, one call at a time."""

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
    """What the principal says to one player."""

    t: int
    """The round."""
    arm: int
    """The arm that the principal wants tried."""
    greedy_arm: int
    """The arm that the player would pick without a payment."""
    payment: float
    """The payment for trying `arm`, in units of reward; as a rule 0 when it is the greedy arm."""


class Principal:
    """Offers an arm and a payment to each player in turn, and learns from their ratings.

    It runs the very functions that `simulate` compiles into its loop: fed with the same feedback,
    it makes the same offers, to the last bit.

    Parameters
    ----------
    policy
        How to explore.
    arms
        How many arms there are.
    seed
        Of the policy's random numbers; drawn when none is given, and kept in `seed`.
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
        self._rules = policy.kernel(self.arms)
        self._ledger = new_ledger(self.arms, as_number("Principal: prior", prior))
        self._memory = np.zeros(self._rules.memory)
        self._stream = new_stream(self.seed, 0, POLICY)
        rules = self._rules
        self._shown = (
            self._ledger.means if rules.display is display_averages else np.zeros(self.arms)
        )
        self._offer = specialize(step.offer, rules.select, rules.display, rules.payment_rule)
        self._settle = specialize(step.settle, self._rules.update)
        self._t = 0
        self._pending: Offer | None = None

    @property
    def ledger(self) -> Ledger:
        """A copy of what the principal sees: ratings and averages of each arm."""
        return Ledger._make(column.copy() for column in self._ledger)

    def offer(self) -> Offer:
        """Decide what to offer the next player; asked again before `settle`, it says the same."""
        if self._pending is None:
            t = self._t + 1
            arm, greedy, payment = self._offer(
                t, self._ledger, self._ledger.pulls, self._shown, self._memory, self._rules.params,
                self._stream, self._each_arm_once,
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
        """Enter the rating of the player who took the offer."""
        if offer != self._pending:
            raise EnticeError(
                f"{offer} is not the open offer; that is {self._pending}. "
                "Each offer is settled once, before the next one is made."
            )
        feedback = as_number("settle: feedback", feedback)
        self._settle(
            self._ledger, self._memory, self._rules.params, offer.arm, offer.payment, feedback
        )
        self._pending = None
