"""Theorem 2 and its Lemma 1: incentivized ε-greedy under reward drift."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from entice.checks import as_whole_number
from entice.errors import InputError
from entice.policies import EpsilonGreedy
from entice.theory.bound import Bound
from entice.theory.inputs import Floats, Numbers, above_zero, gaps_from, rounds_from, slope
from entice.theory.setting import (
    Setting,
    drift_satisfies_assumption_1,
    each_arm_rated_first,
    feedback_projected,
    no_model_extensions,
    rewards_in_unit_interval,
    single_best_arm,
)
from entice.theory.special import digamma

DELTA = 0.05
"""The failure probability of Lemma 1 when it is compared with a study."""


def regret_as_stated(
    T: Any, *, c: float, l: float = 0.0, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Return Σ_i c S_i (log T + 1) + c(K−1)(K + π²/6).

    S_i = 1.5 + 3(1 + sqrt(3/c)) l + 18c/Δ_i².
    """
    logs, gap, l, c = np.log(rounds_from(T)), gaps_from(gaps, means), slope(l), above_zero("c", c)
    others = len(gap)
    S = 1.5 + 3 * (1 + math.sqrt(3 / c)) * l + 18 * c / gap**2
    constant = c * others * (others + 1 + math.pi**2 / 6)
    return np.asarray(c * S.sum() * (logs + 1) + constant)[()]


def regret_as_proved(
    T: Any, *, c: float, l: float = 0.0, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Return the sum of the proof's two final bounds, the one on A and Lemma 2.

    Σ_i c (1 + 3l(1 + sqrt(3/c)))(log T + 1) + (c/2 + 18/Δ_i²) log T + c(K + π²/Δ_i²) + 18/Δ_i².
    The terms in log T are those of the statement with 18/(cΔ_i²) in place of 18c/Δ_i²; the
    constant is larger.
    """
    logs, gap, l, c = np.log(rounds_from(T)), gaps_from(gaps, means), slope(l), above_zero("c", c)
    drifted = c * (1 + 3 * l * (1 + math.sqrt(3 / c))) * len(gap)
    chance = (c / 2 + 18 / gap**2).sum()
    constant = (c * (len(gap) + 1 + math.pi**2 / gap**2) + 18 / gap**2).sum()
    return np.asarray(drifted * (logs + 1) + chance * logs + constant)[()]


def compensation_as_stated(
    T: Any, *, c: float, l: float = 0.0, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Return max(l, 1)(c + sqrt(3c)) K log T."""
    logs, gap, l, c = np.log(rounds_from(T)), gaps_from(gaps, means), slope(l), above_zero("c", c)
    return np.asarray(max(l, 1) * (c + math.sqrt(3 * c)) * (len(gap) + 1) * logs)[()]


def compensation_as_proved(
    T: Any, *, c: float, l: float = 0.0, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Return max(l, 1)(c + sqrt(3c)) K (log T + 1)."""
    per_log_unit = compensation_as_stated(math.e, c=c, l=l, gaps=gaps, means=means)
    return compensation_as_stated(T, c=c, l=l, gaps=gaps, means=means) + per_log_unit


def expected_explorations(T: Any, *, c: float, arms: int) -> Floats:
    """Return the expected explorations of an arm: Σ_{t ≤ T} ε_t / K, ε_t = min(1, cK/t).

    >>> from entice.theory.theorem2 import expected_explorations
    >>> round(float(expected_explorations(20_000, c=5, arms=9)), 1)
    35.4
    """
    rounds, c, K = rounds_from(T), above_zero("c", c), _arms(arms)
    certain = math.floor(min(c * K, 2.0**53))  # the rounds with ε_t = 1
    harmonic = np.maximum(0.0, digamma(rounds + 1) - digamma(certain + 1.0))
    with np.errstate(over="ignore"):
        later = certain / K + c * harmonic
    return np.asarray(np.where(rounds <= certain, rounds / K, later))[()]


def explorations(T: Any, *, c: float, arms: int, delta: float = DELTA) -> Floats:
    """Return Lemma 1's bound m + sqrt(3 m log(K/δ)) on the explorations of an arm.

    m is their expected number. The bound holds with probability 1 − δ. The lemma requires δ ≤ 1/2
    and K m ≥ K log(K/δ)/(e−2); the result is nan where the second condition fails.
    """
    if not 0 < above_zero("delta", delta) <= 0.5:
        raise InputError("delta", "must be greater than 0 and at most 1/2", given=delta)
    m = np.asarray(expected_explorations(T, c=c, arms=arms))
    log_term = math.log(_arms(arms) / delta)
    enough = m >= log_term / (math.e - 2)
    return np.asarray(np.where(enough, m + np.sqrt(3 * m * log_term), np.nan))[()]


def paid_pulls_bound(T: Any, *, c: float, arms: int, delta: float = DELTA) -> Floats:
    """Return K times Lemma 1, a bound on the paid pulls of all arms (K/δ covers all of them)."""
    return np.asarray(arms * explorations(T, c=c, arms=arms, delta=delta))[()]


def _arms(given: Any) -> int:
    K = as_whole_number("arms", given)
    if K < 2:
        raise InputError("arms", "must be at least 2", given=given)
    return K


def large_c(setting: Setting) -> Iterator[str]:
    """Theorem 2 requires c ≥ 36/Δ."""
    policy = setting.policy
    assert isinstance(policy, EpsilonGreedy)
    if any(single_best_arm(setting)):
        return
    least = 36 / float(setting.gaps.min())
    if policy.c < least * (1 - 1e-12):
        yield f"the theorem requires c ≥ 36/Δ = {least:.4g}, and c is {policy.c:g}"


def enough_explorations(setting: Setting) -> Iterator[str]:
    """Lemma 1 requires enough expected explorations."""
    if np.isnan(explorations(max(2, setting.study.horizon), **_formula_arguments(setting))):
        yield f"Lemma 1 requires more expected explorations (δ = {DELTA:g})"


def _formula_arguments(setting: Setting) -> dict[str, Any]:
    policy = setting.policy
    assert isinstance(policy, EpsilonGreedy)
    return {"c": policy.c, "arms": setting.arms}


def _formula_arguments_with_gaps(setting: Setting) -> dict[str, Any]:
    return {"c": _formula_arguments(setting)["c"], "gaps": setting.gaps, "l": setting.lipschitz}


ASSUMPTIONS = (
    single_best_arm,
    no_model_extensions,
    rewards_in_unit_interval,
    drift_satisfies_assumption_1,
    each_arm_rated_first,
    feedback_projected,
    large_c,
)

regret = Bound(
    name="Theorem 2",
    metric="regret",
    description="expected regret of ε-greedy",
    policies=(EpsilonGreedy,),
    as_stated=regret_as_stated,
    as_proved=regret_as_proved,
    assumptions=ASSUMPTIONS,
    formula_arguments=_formula_arguments_with_gaps,
)
compensation = Bound(
    name="Theorem 2",
    metric="compensation",
    description="expected compensation of ε-greedy",
    policies=(EpsilonGreedy,),
    as_stated=compensation_as_stated,
    as_proved=compensation_as_proved,
    assumptions=ASSUMPTIONS,
    formula_arguments=_formula_arguments_with_gaps,
)
paid_pulls = Bound(
    name=f"Lemma 1, {100 * (1 - DELTA):g} % of runs",
    metric="compensated_pulls",
    description="paid pulls of ε-greedy, which are among its explorations",
    policies=(EpsilonGreedy,),
    as_stated=paid_pulls_bound,
    as_proved=paid_pulls_bound,
    assumptions=(no_model_extensions, enough_explorations),
    formula_arguments=_formula_arguments,
)
