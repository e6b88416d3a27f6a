"""Theorem 1: incentivized UCB under reward drift."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from entice.policies import UCB
from entice.theory.bound import Bound
from entice.theory.inputs import Floats, Numbers, gaps_from, rounds_from, slope
from entice.theory.setting import (
    Setting,
    drift_satisfies_assumption_1,
    each_arm_rated_first,
    no_model_extensions,
    noise_parameter_is_1,
    projection_keeps_rewards,
    rewards_in_unit_interval,
    single_best_arm,
)


def regret_as_stated(
    T: Any, *, l: float = 0.0, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Return Σ_i 8(l+1)² log T / Δ_i + Δ_i (K−1) π²/3."""
    logs, gap, l = np.log(rounds_from(T)), gaps_from(gaps, means), slope(l)
    constant = gap.sum() * len(gap) * math.pi**2 / 3  # K − 1 arms have a gap
    return np.asarray(8 * (l + 1) * (l + 1) * (1 / gap).sum() * logs + constant)[()]


def regret_as_proved(
    T: Any, *, l: float = 0.0, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Return Σ_i 8(l+1)² log T / Δ_i + Δ_i π²/3, the proof's bound on Σ_i Δ_i E(n_i)."""
    logs, gap, l = np.log(rounds_from(T)), gaps_from(gaps, means), slope(l)
    constant = gap.sum() * math.pi**2 / 3
    return np.asarray(8 * (l + 1) * (l + 1) * (1 / gap).sum() * logs + constant)[()]


def compensation_bound(
    T: Any, *, l: float = 0.0, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Return Σ_i 16(l+1) log T / Δ_i + 16(l+1) log T / Δ + 2πK sqrt(2 log T / 3)."""
    logs, gap, l = np.log(rounds_from(T)), gaps_from(gaps, means), slope(l)
    leading = 16 * (l + 1) * ((1 / gap).sum() + 1 / gap.min())
    return np.asarray(leading * logs + 2 * math.pi * (len(gap) + 1) * np.sqrt(2 * logs / 3))[()]


def formula_arguments(setting: Setting) -> dict[str, Any]:
    """Return the gaps and l."""
    return {"gaps": setting.gaps, "l": setting.lipschitz}


ASSUMPTIONS = (
    single_best_arm,
    no_model_extensions,
    rewards_in_unit_interval,
    drift_satisfies_assumption_1,
    each_arm_rated_first,
    projection_keeps_rewards,
    noise_parameter_is_1,
)

regret = Bound(
    name="Theorem 1",
    metric="regret",
    description="expected regret of UCB",
    policies=(UCB,),
    as_stated=regret_as_stated,
    as_proved=regret_as_proved,
    assumptions=ASSUMPTIONS,
    formula_arguments=formula_arguments,
)
compensation = Bound(
    name="Theorem 1",
    metric="compensation",
    description="expected compensation of UCB",
    policies=(UCB,),
    as_stated=compensation_bound,
    as_proved=compensation_bound,
    assumptions=ASSUMPTIONS,
    formula_arguments=formula_arguments,
)
