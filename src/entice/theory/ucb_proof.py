"""Two inequalities in the proof of Theorem 1 that hold in every round of every run.

They hold for any rewards. UCB selects an arm that is displayed as worse only if its confidence
width makes up for the difference, so no payment exceeds noise · sqrt(2 log t / n), where `noise` is
the policy's parameter (1 in the paper). An arm's cumulative drift is at most l times its payments.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from entice.errors import InputError
from entice.policies import UCB
from entice.theory.bound import Bound
from entice.theory.inputs import Floats, above_zero, between, rounds_from, slope
from entice.theory.setting import (
    Setting,
    drift_satisfies_assumption_1,
    each_arm_rated_first,
    no_model_extensions,
)


def payment_bound(T: Any, *, pulls: Any, noise: float = 1.0) -> Floats:
    """Return the bound on a payment in round T for an arm with n ratings.

    It is noise · sqrt(2 log T / n).
    """
    n, width = between("pulls", pulls, 0.0, math.inf), above_zero("noise", noise)
    with np.errstate(divide="ignore"):
        return np.asarray(width * np.sqrt(2 * np.log(rounds_from(T)) / n))[()]


def arm_drift_bound(T: Any, *, pulls: Any, l: float = 0.0, noise: float = 1.0) -> Floats:
    """Return the bound on an arm's cumulative drift after round T.

    It is 2l · noise · sqrt(2 n_i log T).
    """
    logs, n = np.log(rounds_from(T)), between("pulls", pulls, 0.0, math.inf)
    return np.asarray(2 * slope(l) * above_zero("noise", noise) * np.sqrt(2 * n * logs))[()]


def _formula_arguments(setting: Setting) -> dict[str, Any]:
    assert isinstance(setting.policy, UCB)
    return {"pulls": setting.study.horizon, "noise": setting.policy.noise}


payment = Bound(
    name="Proof of Theorem 1",
    metric="payment",
    description="each payment of UCB, by the ratings of the arm",
    policies=(UCB,),
    as_stated=payment_bound,
    as_proved=payment_bound,
    assumptions=(no_model_extensions, each_arm_rated_first),
    formula_arguments=_formula_arguments,
)
arm_drift = Bound(
    name="Proof of Theorem 1",
    metric="arm_drift",
    description="cumulative drift of an arm under UCB, by its ratings",
    policies=(UCB,),
    as_stated=arm_drift_bound,
    as_proved=arm_drift_bound,
    assumptions=(no_model_extensions, drift_satisfies_assumption_1, each_arm_rated_first),
    formula_arguments=lambda setting: _formula_arguments(setting) | {"l": setting.lipschitz},
)


def compare_with_trace(rounds: pl.DataFrame, *, l: float, noise: float = 1.0) -> pl.DataFrame:
    """Compare both inequalities with a traced run of UCB, round by round.

    Parameters
    ----------
    rounds
        A frame returned by `entice.trace`.
    l
        The drift's Lipschitz constant.
    noise
        The `noise` of the policy.

    Returns
    -------
    polars.DataFrame
        For each round from the second on: `t`, `arm`, `payment` and `payment_bound`,
        `arm_drift` (cumulative, of the pulled arm, including this round) and `arm_drift_bound`.
        An arm's first pull is unpaid, and its bound is infinite.

    >>> import entice
    >>> rounds = entice.trace(arms=entice.Bernoulli([0.9, 0.6]), policies=[entice.UCB()],
    ...                       drifts=[entice.LinearDrift(0.5)], horizon=1000, seed=7)
    >>> found = entice.theory.ucb_proof.compare_with_trace(rounds, l=0.5)
    >>> found.select((pl.col("payment") <= pl.col("payment_bound")).all()).item()
    True
    """
    required = {"t", "arm", "payment", "drift"}
    if not isinstance(rounds, pl.DataFrame) or not required <= set(rounds.columns):
        raise InputError("rounds", "must be a frame returned by entice.trace", given=rounds)
    table = rounds.select(
        "t",
        "arm",
        "payment",
        before=pl.int_range(pl.len()).over("arm"),
        arm_drift=pl.col("drift").cum_sum().over("arm"),
    ).filter(pl.col("t") >= 2)
    t, before = table["t"].to_numpy(), table["before"].to_numpy()
    return table.with_columns(
        payment_bound=payment_bound(t, pulls=before, noise=noise),
        arm_drift_bound=arm_drift_bound(t, pulls=before + 1, l=l, noise=noise),
    ).select("t", "arm", "payment", "payment_bound", "arm_drift", "arm_drift_bound")
