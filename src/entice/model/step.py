"""THE transition of Algorithm 1, in two halves: `offer` and, once the player has rated, `settle`.

The simulator runs them in a compiled loop, a live principal one call at a time. Neither half can
reach the true means, nor the reward and the drift apart: they are not among the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.model.ledger import Ledger, record
from entice.model.payment import required_payment
from entice.rng import Stream

NO_SUCH_ARM = -1
"""Stands for the greedy arm in an offer whose arm does not exist: the policy is at fault."""

PLAYERS_CHOICE = -(2**63)
"""What a policy may select instead of an arm: the one that the player would choose anyway.

That arm is known; a policy that asks for it by this name need not search the averages for it.
"""


@compiled
def offer(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    counted: npt.NDArray[np.int64],
    shown: npt.NDArray[np.float64],
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    stream: Stream,
    each_arm_once: bool,
) -> tuple[int, int, float]:
    """Decide round t: the principal's arm I, the player's own choice G, and the payment.

    `counted` are the pulls that the policy sees: those that were rated, or also the expected
    ratings of those in flight. `shown` is where `display` puts what the players see.
    """
    arms = ledger.pulls.shape[0]
    if t <= (arms if each_arm_once else 0):
        return t - 1, t - 1, 0.0
    # Line 2: the principal selects I.
    arm = select(t, counted, ledger.means, memory, params, stream)
    # Line 3: the player would choose G, from what is displayed.
    greedy = display(ledger, memory, params, shown)
    if arm == PLAYERS_CHOICE:
        return greedy, greedy, payment_rule(t, greedy, greedy, 0.0, memory, params, stream)
    if arm < 0 or arm >= arms:
        return arm, NO_SUCH_ARM, 0.0
    # Lines 4 to 8: pay the gap, or nothing; when I ties for the best, G is I.
    return _paid(payment_rule, t, arm, greedy, shown, memory, params, stream)


@compiled
def _paid(
    payment_rule: Callable[..., float],
    t: int,
    arm: int,
    greedy: int,
    shown: npt.NDArray[np.float64],
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    stream: Stream,
) -> tuple[int, int, float]:
    forgone = required_payment(shown, greedy, arm)
    if not forgone > 0.0:
        forgone, greedy = 0.0, arm
    return arm, greedy, payment_rule(t, arm, greedy, forgone, memory, params, stream)


TRIES = 64
"""How often a policy that draws is asked again when it wants an arm that it can't have."""


@compiled
def offer_within(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    counted: npt.NDArray[np.float64],
    awaited: npt.NDArray[np.bool_],
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    stream: Stream,
    most: float,
    eligible: npt.NDArray[np.bool_],
    displayed: npt.NDArray[np.float64],
    shown: npt.NDArray[np.float64],
    permitted: npt.NDArray[np.bool_],
    means: npt.NDArray[np.float64],
    counts: npt.NDArray[np.float64],
) -> tuple[int, int, float, int, int]:
    """Decide a round in which not every arm is permitted: `offer` as a campaign needs it.

    An arm is permitted if it is `eligible`, its price is at most `most`, and it is not an arm
    without ratings whose first rating is `awaited` already. An arm that costs nothing is
    permitted while it is eligible. `counted` are the pulls that the policy sees: those that were
    rated and, of those under way, as many as are expected to be.
    `displayed` is what the player sees where the caller knows better (nan: it does not). The last
    four arrays are filled with what was shown, what was permitted, and what the policy saw.

    Returns the arm, the player's own choice, the payment, how many eligible arms were too dear,
    and of the arms that tie for the best the first. When all arms are permitted, the first three
    are what `offer` returns.
    """
    arms = ledger.pulls.shape[0]
    for i in range(arms):
        shown[i] = ledger.means[i]
    display(ledger, memory, params, shown)
    greedy = -1
    for i in range(arms):
        if not np.isnan(displayed[i]):
            shown[i] = displayed[i]
        if eligible[i] and (greedy < 0 or shown[i] > shown[greedy]):
            greedy = i
    limited, whole = 0, True
    for i in range(arms):
        forgone = required_payment(shown, greedy, i)
        permitted[i] = eligible[i] and not (forgone > 0.0 and (forgone > most or awaited[i]))
        limited += eligible[i] and forgone > most
        whole = whole and permitted[i]
        # No policy prefers an arm whose average is so low, nor takes it for unrated.
        means[i] = ledger.means[i] if permitted[i] else -np.inf
        counts[i] = counted[i] if permitted[i] else max(1.0, counted[i])
    arm = greedy
    for _ in range(1 if whole else TRIES):
        wanted = select(t, counts, means, memory, params, stream)
        if wanted == PLAYERS_CHOICE:
            break
        if wanted < 0 or wanted >= arms:
            return wanted, NO_SUCH_ARM, 0.0, limited, greedy
        if permitted[wanted]:
            arm = wanted
            break
    arm, own, payment = _paid(payment_rule, t, arm, greedy, shown, memory, params, stream)
    return arm, own, payment if payment <= most else 0.0, limited, greedy


@compiled
def settle(
    update: Callable[..., None],
    ledger: Ledger,
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    arm: int,
    payment: float,
    feedback: float,
) -> None:
    """Enter the player's feedback, which is all that anyone learns of the round (line 11)."""
    record(ledger, arm, feedback)
    update(memory, params, arm, payment, feedback)
