"""A randomised probe: what makes a drift estimate honest.

Payments depend on past feedback, so a regression of feedback on payment finds a drift where there
is none. A coin depends on nothing: in a few offers, drawn by chance, it adds a known amount to the
payment or does not, and the difference in feedback is the drift's doing.
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
"""What a round's coin shows: it was not thrown; nothing was added; the amount was."""


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In a share of all offers a fair coin decides whether `amount` is added to the payment.

    Of several amounts one is drawn for each probed offer, each as likely as the others: then
    `entice.estimate.probe_curve` shows the whole drift, and not its slope alone.

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
            raise InputError("Probe: share", rule, given=self.share)
        if is_list(self.amount):
            set_numbers(self, "amount", at_least=1)
        else:
            set_number(self, "amount")
        if min(self.amounts) <= 0:
            raise InputError("Probe: amount", "must be greater than 0", given=self.amount)
        if len(set(self.amounts)) < len(self.amounts):
            raise InputError("Probe: amount", "must not name an amount twice", given=self.amount)

    @property
    def amounts(self) -> tuple[float, ...]:
        """The amounts of which one is drawn, also when there is but one."""
        return (self.amount,) if isinstance(self.amount, float) else tuple(self.amount)


@compiled
def draw_probe(share: float, amounts: npt.NDArray[np.float64], stream: Stream) -> tuple[int, float]:
    """Draw whether an offer is probed, how the coin falls, and which amount hangs on it."""
    u = uniform(stream)
    if u >= share:
        return NO_PROBE, 0.0
    # Below the share u is uniform still: one half of that is heads, and within either half
    # each amount has an equal part. One draw decides all.
    half = 0.5 * share
    coin = HEADS if u < half else TAILS
    rest = (u if coin == HEADS else u - half) / half
    which = min(int(rest * amounts.shape[0]), amounts.shape[0] - 1)
    return coin, amounts[which]
