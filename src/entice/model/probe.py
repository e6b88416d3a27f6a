"""A randomised probe, for an unbiased estimate of the drift.

Payments depend on past feedback, so a regression of feedback on payment finds a drift even where
there is none. A coin toss is independent of the past: in a small random share of offers, it decides
whether a known amount is added to the payment. The difference in feedback is then caused by the
drift.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from entice.checks import is_list, set_number, set_numbers
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.rng import Stream, uniform

NO_PROBE, TAILS, HEADS = -1, 0, 1
"""The coin of a round: not tossed; tossed, nothing added; tossed, the amount added."""


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In a share of offers, a fair coin decides whether `amount` is added to the payment.

    A simulation tosses it in a share of all rounds. A campaign does so in a share of the offers of
    a player's own choice without payment, so that acceptance does not depend on the coin.

    With several amounts, one is drawn uniformly for each probed offer; then
    `entice.estimate.probe_curve` estimates the whole drift function, not only its slope.

    >>> import entice
    >>> entice.Probe(share=0.05, amount=0.3)
    Probe(share=0.05, amount=0.3)
    >>> entice.Probe(share=0.2, amount=[0.1, 0.3, 0.6]).amounts
    (0.1, 0.3, 0.6)
    """

    share: float = 0.05
    amount: float | Sequence[float] = 0.3

    def __post_init__(self) -> None:
        if not 0 < set_number(self, "share") <= 1:
            rule = "must be greater than 0 and at most 1"
            todo = "Leave the probe out for none, or use a share such as 0.05."
            raise InputError("Probe: share", rule, given=self.share, todo=todo)
        if is_list(self.amount):
            set_numbers(self, "amount", at_least=1)
        else:
            set_number(self, "amount")
        if min(self.amounts) <= 0:
            raise InputError("Probe: amount", "must be greater than 0", given=self.amount)
        if len(set(self.amounts)) < len(self.amounts):
            raise InputError("Probe: amount", "must not repeat an amount", given=self.amount)

    @property
    def amounts(self) -> tuple[float, ...]:
        """The amounts of which one is drawn, as a tuple even if there is only one."""
        return (self.amount,) if isinstance(self.amount, float) else tuple(self.amount)


@compiled
def draw_probe(share: float, amounts: npt.NDArray[np.float64], stream: Stream) -> tuple[int, float]:
    """Draw whether an offer is probed, the coin, and the amount at stake."""
    u = uniform(stream)
    if u >= share:
        return NO_PROBE, 0.0
    # Given u < share, u is uniform on [0, share): one half is heads, and each amount has an equal
    # part of either half. So one draw decides everything.
    half = 0.5 * share
    coin = HEADS if u < half else TAILS
    rest = (u if coin == HEADS else u - half) / half
    which = min(int(rest * amounts.shape[0]), amounts.shape[0] - 1)
    return coin, amounts[which]
