"""Overlap: a small share of arms drawn at random, so that a log can evaluate other policies.

Without it, an arm that the policy did not choose has no chance of being offered, and the log says
nothing about a policy that would choose it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.model.payment import required_payment
from entice.rng import Stream, uniform

NOT_DRAWN = -1
"""Returned by `draw_overlap` if the policy decides."""


@compiled
def draw_overlap(share: float, permitted: npt.NDArray[np.bool_], stream: Stream) -> int:
    """With probability `share`, draw one of the permitted arms, each equally likely.

    Each arm, permitted or not, draws a number, and the permitted arm with the highest number is
    chosen. So if fewer arms are permitted, the choice changes only if its arm is not permitted.
    """
    if uniform(stream) >= share:
        return NOT_DRAWN
    arm, highest = NOT_DRAWN, -1.0
    for i in range(permitted.shape[0]):
        number = uniform(stream)
        if permitted[i] and number > highest:
            arm, highest = i, number
    return arm


@compiled
def offer_drawn_arm(
    displayed: npt.NDArray[np.float64], greedy: int, arm: int
) -> tuple[int, int, float]:
    """Return a drawn arm, the player's own choice, and the payment: the gap, as in Algorithm 1.

    `greedy` is the arm that players choose of those that tie for the best.
    """
    required = required_payment(displayed, greedy, arm)
    if required > 0.0:
        return arm, greedy, required
    return arm, arm, 0.0
