"""One round of Algorithm 1, in two halves: `offer`, and `settle` once the player has rated.

The simulator runs both in a compiled loop; a live principal makes one call at a time. Neither half
can read the true means, or the reward and the drift separately: they are not among the arguments.
The payment itself is computed in `payment.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled
from entice.model.ledger import Ledger, record
from entice.model.payment import required_payment
from entice.rng import Stream

NO_SUCH_ARM = -1
"""Returned as the greedy arm if the policy selected an arm that does not exist."""

PLAYERS_CHOICE = -(2**63)
"""A policy returns this instead of an arm to select the arm that the player would choose anyway.

The ledger stores that arm, so the policy need not search the averages for it.
"""


@compiled
def offer(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    effective_pulls: npt.NDArray[Any],
    displayed: npt.NDArray[np.float64],
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    stream: Stream,
    each_arm_once: bool,
) -> tuple[int, int, float]:
    """Decide round t: the principal's arm I, the player's own choice G, and the payment.

    `effective_pulls` are the counts that the policy sees: the ratings of each arm, with or without
    those still expected from pulls in flight, or the effective counts of a segment's averages.
    `display` fills `displayed` with the values that players see.
    """
    arms = ledger.pulls.shape[0]
    if t <= (arms if each_arm_once else 0):
        return t - 1, t - 1, 0.0
    # Line 2: the principal selects I.
    arm = select(t, effective_pulls, ledger.means, memory, params, stream)
    # Line 3: the player would choose G, based on the displayed values.
    greedy = display(ledger, memory, params, displayed)
    if arm == PLAYERS_CHOICE:
        arm = greedy
    if arm == greedy:
        return greedy, greedy, payment_rule(t, greedy, greedy, 0.0, memory, params, stream)
    if arm < 0 or arm >= arms:
        return arm, NO_SUCH_ARM, 0.0
    # Lines 4 to 8: pay the difference, or nothing. If I ties for the best, G is I.
    return _with_payment(payment_rule, t, arm, greedy, displayed, memory, params, stream)


@compiled
def _with_payment(
    payment_rule: Callable[..., float],
    t: int,
    arm: int,
    greedy: int,
    displayed: npt.NDArray[np.float64],
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    stream: Stream,
) -> tuple[int, int, float]:
    """Return the arm, the player's own choice and the payment."""
    required = 0.0
    # Without the comparison of arms, each round would wait for the division by which the last one
    # computed the average: UCB and its like took 14 ns a round longer than with it.
    if arm != greedy:
        required = required_payment(displayed, greedy, arm)
        if not required > 0.0:
            required, greedy = 0.0, arm
    return arm, greedy, payment_rule(t, arm, greedy, required, memory, params, stream)


ROUNDING = 1e-9
"""Relative rounding error up to which a payment equals the required one."""
TRIES = 64
"""Maximum number of calls of `select` in a round until it returns a permitted arm."""
NO_MONEY = sys.float_info.min
"""The limit that a policy sees if nothing may be paid. In its memory, 0.0 means no limit."""


@compiled
def own_choice(
    display: Callable[..., int],
    ledger: Ledger,
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    eligible: npt.NDArray[np.bool_],
    display_override: npt.NDArray[np.float64],
    displayed: npt.NDArray[np.float64],
) -> int:
    """Fill `displayed` with the values that a player sees, and return the eligible arm they choose.

    `display_override` replaces displayed values; nan leaves a value as it is.
    """
    arms = ledger.pulls.shape[0]
    for i in range(arms):
        displayed[i] = ledger.means[i]
    # Of the arms that tie for the best, players choose the one that `display` returns.
    greedy = display(ledger, memory, params, displayed)
    for i in range(arms):
        if not np.isnan(display_override[i]):
            displayed[i] = display_override[i]
            greedy = -1
    if greedy >= 0 and not eligible[greedy]:
        greedy = -1
    for i in range(arms):
        if eligible[i] and (greedy < 0 or displayed[i] > displayed[greedy]):
            greedy = i
    return greedy


@compiled
def constrained_offer(
    select: Callable[..., int],
    display: Callable[..., int],
    payment_rule: Callable[..., float],
    t: int,
    ledger: Ledger,
    effective_pulls: npt.NDArray[np.float64],
    awaited: npt.NDArray[np.bool_],
    memory: npt.NDArray[np.float64],
    params: tuple[Any, ...],
    stream: Stream,
    max_payment: float,
    limit_slot: int,
    eligible: npt.NDArray[np.bool_],
    display_override: npt.NDArray[np.float64],
    displayed: npt.NDArray[np.float64],
    permitted: npt.NDArray[np.bool_],
    policy_means: npt.NDArray[np.float64],
    policy_counts: npt.NDArray[np.float64],
) -> tuple[int, int, float, int, int]:
    """Decide a round of a campaign: like `offer`, but some arms may not be permitted.

    An arm is permitted if it is `eligible`, requires a payment of at most `max_payment`, and is not
    an unrated arm whose first rating is `awaited`. An eligible arm that requires no payment is
    always permitted. A policy's payment rule may pay more than an arm requires, but an offer never
    costs more than `max_payment` or pays less than its arm requires: instead, the player gets their
    own choice, unpaid. During `select`, `memory[limit_slot]` is `max_payment`, if the policy has
    such a slot. `effective_pulls` counts each arm's ratings and those expected from pulls in
    flight. `display_override` replaces displayed values; nan leaves a value as it is. The last four
    arrays are outputs: the displayed values, the permitted arms, and the averages and counts that
    the policy saw.

    Returns the arm, the player's own choice, the payment, the number of eligible arms that require
    more than `max_payment`, and the arm that players choose of those that tie for the best. If all
    arms are permitted and `select` does not change what is displayed, the first three equal the
    result of `offer`.
    """
    arms = ledger.pulls.shape[0]
    greedy = own_choice(display, ledger, memory, params, eligible, display_override, displayed)
    unaffordable, all_permitted = 0, True
    for i in range(arms):
        required = required_payment(displayed, greedy, i)
        permitted[i] = eligible[i] and not (
            required > 0.0 and (required > max_payment or awaited[i])
        )
        unaffordable += eligible[i] and required > max_payment
        all_permitted = all_permitted and permitted[i]
        # With these values no policy prefers the arm, or treats it as unrated.
        policy_means[i] = ledger.means[i] if permitted[i] else -np.inf
        policy_counts[i] = effective_pulls[i] if permitted[i] else max(1.0, effective_pulls[i])
    if limit_slot >= 0:
        memory[limit_slot] = max(max_payment, NO_MONEY)
    arm = greedy
    for _ in range(1 if all_permitted else TRIES):
        selected = select(t, policy_counts, policy_means, memory, params, stream)
        if selected == PLAYERS_CHOICE:
            break
        if selected < 0 or selected >= arms:
            return selected, NO_SUCH_ARM, 0.0, unaffordable, greedy
        if permitted[selected]:
            arm = selected
            break
    if limit_slot >= 0:
        memory[limit_slot] = 0.0
    arm, players_choice, payment = _with_payment(
        payment_rule, t, arm, greedy, displayed, memory, params, stream
    )
    required = required_payment(displayed, players_choice, arm)
    if payment > max_payment or payment < required * (1.0 - ROUNDING):
        arm, payment = players_choice, 0.0
    return arm, players_choice, payment, unaffordable, greedy


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
    """Record the player's feedback, the only observation of the round (line 11)."""
    record(ledger, arm, feedback)
    update(memory, params, arm, payment, feedback)
