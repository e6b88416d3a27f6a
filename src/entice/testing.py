"""Checks for users' own policies and drifts: what is wrong with them, before a study runs.

Functions are compiled with array bounds checked, which a study leaves out for speed: an index out
of range is an error here, and would be a wrong number there.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from entice.checks import a_whole_number
from entice.errors import EnticeError
from entice.functions import plain_python
from entice.policies import Policy
from entice.rng import POLICY, new_stream
from entice.world.drift import Drift


class CheckFailed(EnticeError, AssertionError):
    """A policy or a drift does not keep to the rules; the message says which rule, and where."""


def check_drift(
    drift: Drift, *, lipschitz: float | None = None, largest_payment: float = 2.0, arms: int = 10
) -> None:
    """Check a drift against Assumption 1 of the paper, on a grid of payments, rounds and arms.

    Parameters
    ----------
    drift
        Any drift.
    lipschitz
        The constant l that is claimed, if one is.
    largest_payment
        Where the grid ends.
    arms
        How many arms to try.

    >>> import entice
    >>> from entice.testing import check_drift
    >>> check_drift(entice.LinearDrift(1.1), lipschitz=1.1)
    >>> check_drift(entice.CustomDrift(lambda x, t, arm, params: x * x), lipschitz=1.0)
    Traceback (most recent call last):
        ...
    entice.testing.CheckFailed: <lambda> has slope 3.99 > 1 at payments 1.99 to 2 (t = 1, arm 0)
    """
    bend = drift.bend()
    function = _checked(bend.function)
    payments = np.linspace(0.0, largest_payment, 201)
    for t in (1, 2, 10, 1_000, 1_000_000):
        for arm in range(arms):
            values = np.array([function(float(x), t, arm, bend.params) for x in payments])
            where = f"(t = {t}, arm {arm})"
            if not np.isfinite(values).all():
                at = payments[~np.isfinite(values)][0]
                raise CheckFailed(f"{drift.label} is not a finite number at payment {at:g} {where}")
            if values[0] != 0.0:
                raise CheckFailed(f"{drift.label} is {values[0]:g} at payment 0, not 0 {where}")
            slopes = np.diff(values) / np.diff(payments)
            steepest, falling = int(np.argmax(slopes)), int(np.argmin(slopes))
            if slopes[falling] < -1e-9:
                between = f"{payments[falling]:g} to {payments[falling + 1]:g}"
                raise CheckFailed(f"{drift.label} decreases at payments {between} {where}")
            if lipschitz is not None and slopes[steepest] > lipschitz * (1 + 1e-9):
                between = f"{payments[steepest]:g} to {payments[steepest + 1]:g}"
                slope = f"{slopes[steepest]:.3g} > {lipschitz:g}"
                raise CheckFailed(f"{drift.label} has slope {slope} at payments {between} {where}")


def check_policy(policy: Policy, *, arms: int = 5, rounds: int = 500, seed: int = 1) -> None:
    """Play a policy against random ratings and check that it keeps to the rules.

    It must choose an existing arm in each round, leave counts and averages alone, stay within
    its memory, and draw from its own stream only (the same draws make the same choices).

    >>> import entice
    >>> from entice.testing import check_policy
    >>> check_policy(entice.ThompsonSampling())
    >>> check_policy(entice.CustomPolicy(lambda t, pulls, means, memory, params, rng: t))
    Traceback (most recent call last):
        ...
    entice.testing.CheckFailed: <lambda> selected arm 5 in round 5, of arms 0 to 4
    """
    arms = a_whole_number("check_policy: arms", arms)
    if _play(policy, arms, rounds, seed) != _play(policy, arms, rounds, seed):
        raise CheckFailed(f"{policy.label} chose other arms when played again with the same draws")


def _play(policy: Policy, arms: int, rounds: int, seed: int) -> list[int]:
    rules = policy.rules(arms)
    select, update = _checked(rules.select), _checked(rules.update)
    stream, world = new_stream(seed, 0, POLICY), np.random.default_rng(seed)
    memory = np.zeros(rules.memory)
    pulls, sums, means = np.zeros(arms, dtype=np.int64), np.zeros(arms), np.zeros(arms)
    chosen = []
    for t in range(1, rounds + 1):
        before = pulls.copy(), means.copy()
        try:
            arm = select(t, pulls, means, memory, rules.params, stream)
        except IndexError as error:
            raise CheckFailed(f"{policy.label}: select in round {t}: {error}") from error
        if not (isinstance(arm, (int, np.integer)) and 0 <= arm < arms):
            raise CheckFailed(
                f"{policy.label} selected arm {arm} in round {t}, of arms 0 to {arms - 1}"
            )
        if not (np.array_equal(before[0], pulls) and np.array_equal(before[1], means)):
            raise CheckFailed(f"{policy.label} changed the counts or averages in round {t}")
        payment = float(means.max() - means[arm])
        feedback = float(world.normal(loc=1.0 / (1 + arm)))
        pulls[arm] += 1
        sums[arm] += feedback
        means[arm] = sums[arm] / pulls[arm]
        try:
            update(memory, rules.params, arm, payment, feedback)
        except IndexError as error:
            raise CheckFailed(f"{policy.label}: update in round {t}: {error}") from error
        chosen.append(int(arm))
    return chosen


def _checked(function: Any) -> Any:
    """Compile a function with its array bounds checked."""
    return numba.njit(boundscheck=True, error_model="numpy")(plain_python(function))
