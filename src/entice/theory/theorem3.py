"""Theorem 3 and its Lemma 3: incentivized Thompson sampling under reward drift.

Both need Δ̲, the smallest nonzero difference between displayed averages over all rounds. This is a
property of the run, not of the problem: it is unknown in advance, and tiny when averages cross.
Here it is the argument `displayed_gap`. For a study, the formulas use the smallest difference
between two true means: in runs long enough for averages to converge, they end up that close (closer
if they are paid for), so Δ̲ is no larger, and the bounds are at least the values given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from entice.policies import ThompsonSampling
from entice.theory.bound import Bound
from entice.theory.inputs import Floats, Numbers, above_zero, gaps_from, rounds_from, slope
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
    T: Any,
    *,
    displayed_gap: float,
    l: float = 0.0,
    gaps: Numbers | None = None,
    means: Numbers | None = None,
) -> Floats:
    """Return Σ_i (4e¹¹ + 21) P_i + 5/Δ_i² + Q_i + π²/6, with P_i = 18 log(TΔ_i²)/Δ_i².

    Q_i = ⌈9/(2Δ_i²) ((1 + a) log T + sqrt(1 + 2a log T))⌉, a = 4Δ_i l/(3Δ̲²). P_i is set to 0
    where it would be negative, for T < 1/Δ_i².
    """
    logs, gap, a = _terms(T, displayed_gap, l, gaps, means)
    Q = np.ceil(9 / (2 * gap**2) * ((1 + a) * logs + np.sqrt(1 + 2 * a * logs)))
    return _regret(logs, gap, Q)


def regret_as_proved(
    T: Any,
    *,
    displayed_gap: float,
    l: float = 0.0,
    gaps: Numbers | None = None,
    means: Numbers | None = None,
) -> Floats:
    """Return the bound with Q_i from the root of the proof's own quadratic inequality.

    (Δ_i²/9) n² − (1 + a) log T · n + (2l log T/Δ̲²)² ≥ 0 holds from
    n = 9/(2Δ_i²) ((1 + a) log T + log T sqrt(1 + 2a)) on, so the last term is log T sqrt(1 + 2a).
    """
    logs, gap, a = _terms(T, displayed_gap, l, gaps, means)
    Q = np.ceil(9 / (2 * gap**2) * logs * (1 + a + np.sqrt(1 + 2 * a)))
    return _regret(logs, gap, Q)


def _terms(
    T: Any, displayed_gap: float, l: float, gaps: Numbers | None, means: Numbers | None
) -> tuple[Floats, Floats, Floats]:
    """Return log T in a column, the gaps in a row, and a = 4Δ_i l/(3Δ̲²)."""
    gap, least = gaps_from(gaps, means), above_zero("displayed_gap", displayed_gap)
    return np.log(rounds_from(T))[..., None], gap, 4 * gap * slope(l) / (3 * least**2)


def _regret(logs: Floats, gap: Floats, Q: Floats) -> Floats:
    P = 18 * np.maximum(0.0, logs + 2 * np.log(gap)) / gap**2
    terms = (4 * math.exp(11) + 21) * P + 5 / gap**2 + Q + math.pi**2 / 6
    return np.asarray(terms.sum(axis=-1))[()]


def compensation_bound(
    T: Any,
    *,
    displayed_gap: float,
    l: float = 0.0,
    gaps: Numbers | None = None,
    means: Numbers | None = None,
) -> Floats:
    """Return 2 max(l, 1) K log T / Δ̲²."""
    K = len(gaps_from(gaps, means)) + 1
    return np.asarray(
        max(slope(l), 1.0) * K * paid_pulls_of_an_arm(T, displayed_gap=displayed_gap)
    )[()]


def paid_pulls_of_an_arm(T: Any, *, displayed_gap: float) -> Floats:
    """Return Lemma 3's bound on the expected paid pulls of an arm: 2 log T / Δ̲²."""
    return np.asarray(2 * np.log(rounds_from(T)) / above_zero("displayed_gap", displayed_gap) ** 2)[
        ()
    ]


def paid_pulls_bound(
    T: Any, *, displayed_gap: float, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Return K times Lemma 3, a bound on the paid pulls of all arms."""
    K = len(gaps_from(gaps, means)) + 1
    return np.asarray(K * paid_pulls_of_an_arm(T, displayed_gap=displayed_gap))[()]


def displayed_gap(rounds: pl.DataFrame) -> float:
    """Return Δ̲ of a traced run: the smallest nonzero difference of two displayed averages.

    Arms without ratings are ignored.

    >>> import entice
    >>> from entice.theory import theorem3
    >>> rounds = entice.trace(arms=entice.Bernoulli([0.9, 0.4]), seed=7, horizon=1000,
    ...                       policies=[entice.ThompsonSampling()])
    >>> theorem3.displayed_gap(rounds) < 0.5
    True
    """
    arm, feedback = rounds["arm"].to_numpy(), rounds["feedback"].to_numpy()
    arms = int(arm.max()) + 1
    sums, pulls = np.zeros(arms), np.zeros(arms)
    means = np.full(arms, np.nan)
    least = math.inf
    for i, rating in zip(arm, feedback, strict=True):
        sums[i] += rating
        pulls[i] += 1
        means[i] = sums[i] / pulls[i]
        apart = np.abs(means - means[i])
        apart = apart[apart > 0]  # leaves out the arm itself, ties and unrated arms (nan)
        if apart.size:
            least = min(least, float(apart.min()))
    return least


def displayed_gap_is_known(setting: Setting) -> Iterator[str]:
    """Δ̲ is known: never met, because Δ̲ is a property of the run."""
    yield "Δ̲, the smallest difference of displayed averages in a run, is unknown (Definition 2)"


def samples_by_variance(setting: Setting) -> Iterator[str]:
    """Algorithm 4 samples with variance 1/(n+1)."""
    assert isinstance(setting.policy, ThompsonSampling)
    if setting.policy.scale != "variance":
        yield f"Algorithm 4 samples with variance 1/(n+1), unlike {setting.policy.label}"


def _formula_arguments(setting: Setting) -> dict[str, Any]:
    return _formula_arguments_without_l(setting) | {"l": setting.lipschitz}


def _formula_arguments_without_l(setting: Setting) -> dict[str, Any]:
    means = np.sort(setting.study.arms.true_means())
    apart = np.diff(means)
    return {"gaps": setting.gaps, "displayed_gap": float(apart[apart > 0].min())}


ASSUMPTIONS = (
    single_best_arm,
    no_model_extensions,
    rewards_in_unit_interval,
    drift_satisfies_assumption_1,
    each_arm_rated_first,
    projection_keeps_rewards,
    samples_by_variance,
    noise_parameter_is_1,
    displayed_gap_is_known,
)

regret = Bound(
    name="Theorem 3",
    metric="regret",
    description="expected regret of Thompson sampling",
    policies=(ThompsonSampling,),
    as_stated=regret_as_stated,
    as_proved=regret_as_proved,
    assumptions=ASSUMPTIONS,
    formula_arguments=_formula_arguments,
    value_is_at_least=True,
)
compensation = Bound(
    name="Theorem 3",
    metric="compensation",
    description="expected compensation of Thompson sampling",
    policies=(ThompsonSampling,),
    as_stated=compensation_bound,
    as_proved=compensation_bound,
    assumptions=ASSUMPTIONS,
    formula_arguments=_formula_arguments,
    value_is_at_least=True,
)
paid_pulls = Bound(
    name="Lemma 3",
    metric="compensated_pulls",
    description="expected paid pulls of Thompson sampling",
    policies=(ThompsonSampling,),
    as_stated=paid_pulls_bound,
    as_proved=paid_pulls_bound,
    assumptions=(
        no_model_extensions,
        each_arm_rated_first,
        samples_by_variance,
        noise_parameter_is_1,
        displayed_gap_is_known,
    ),
    formula_arguments=_formula_arguments_without_l,
    value_is_at_least=True,
)
