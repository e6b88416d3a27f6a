"""Theorem E2: equal-pay elimination, with bounds that no drift enters.

The theorem and its proof are ours; docs/explanation/equal-pay-theorems.md has both. By Theorem E1
the path of an equal-pay policy is the same for every drift that depends on the payment alone, so
these formulas have no argument l.

The proof has a free parameter η between 0 and 1, and every value gives a bound. The formulas
return the lowest value over a grid of η.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from entice.checks import as_number
from entice.errors import InputError
from entice.policies import EqualPayElimination
from entice.policies.elimination_blocks import GRID, leader_places
from entice.theory.bound import Bound
from entice.theory.inputs import Floats, Numbers, above_zero, gaps_from, rounds_from
from entice.theory.setting import (
    Setting,
    drift_of_the_payment_alone,
    no_drift,
    no_model_extensions,
    projection_keeps_rewards,
    single_best_arm,
    sub_gaussian_parameter,
)

ETAS = np.arange(1, 200) / 200
"""The grid of η. The optimum is flat: a finer grid lowers the bounds by less than 0.1 %."""


class _Blocks(NamedTuple):
    """The terms of the proof, for one η."""

    shared: Floats
    """β_i, a bound on the expected number of blocks of arm i and the best arm; the last axis."""
    longest: Floats
    """M, a bound on the expectation of the largest of these numbers."""


class _Race:
    """The quantities of the proof that do not depend on η."""

    def __init__(
        self, T: Any, gaps: Floats, noise: float, rho: float, horizon: float | None
    ) -> None:
        self.rounds, self.gaps = rounds_from(T), gaps
        self.noise, self.rho = above_zero("noise", noise), as_number("rho", rho)
        if self.rho <= 1:
            raise InputError("rho", "must be greater than 1", given=rho)
        self.horizon = self.rounds if horizon is None else rounds_from(horizon)
        self.unit = (self.noise / gaps) ** 2  # σ²/Δ_i²
        self.places = leader_places(len(gaps) + 1)
        kappa = 1 / math.log(self.rho) + 1 / math.e
        # P, the probability to drop the best arm.
        self.failure = np.minimum(1.0, 4 * self.rho * kappa * self.unit.sum() / self.horizon)
        self.payment_scale = (
            4 * self.noise * np.sqrt(self.rho * np.maximum(1.0, np.log(self.horizon)))
        )

    def blocks(self, eta: float) -> _Blocks:
        """Return the terms that depend on η."""
        scale = 4 * self.rho * self.unit / (1 - eta) ** 2
        tau = scale * np.maximum(1.0, np.log(self.horizon[..., None] / scale))
        chance = 4 * self.unit / eta**2
        return _Blocks(tau + chance + 1, tau.max(axis=-1) + 1 + chance.sum())


def regret_bound(
    T: Any,
    *,
    noise: float = 1.0,
    rho: float = 1.1,
    horizon: float | None = None,
    gaps: Numbers | None = None,
    means: Numbers | None = None,
    eta: float | None = None,
) -> Floats:
    """Return Σ_i Δ_i β_i + (k−1) Σ_i 4σ²/Δ_i + T Δ_max P.

    `horizon` is that of the policy, by default T. `eta` fixes η.

    >>> from entice.theory.equal_pay import regret_bound
    >>> means = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    >>> round(float(regret_bound(20_000, means=means, noise=0.5, rho=1.5)))
    1318
    """
    race = _Race(T, gaps_from(gaps, means), noise, rho, horizon)
    wrong_leader = (race.places - 1) * 4 * (race.gaps * race.unit).sum()
    dropped = race.rounds * race.gaps.max() * race.failure

    def at(eta: float) -> Floats:
        shared = (race.blocks(eta).shared * race.gaps).sum(axis=-1)
        return np.asarray(shared + wrong_leader + dropped)

    return _lowest(at, eta)


def compensation_bound(
    T: Any,
    *,
    noise: float = 1.0,
    rho: float = 1.1,
    horizon: float | None = None,
    gaps: Numbers | None = None,
    means: Numbers | None = None,
    eta: float | None = None,
) -> Floats:
    """Return the bound on the compensation.

    It is 4σ sqrt(ρ log T) (Σ_i √β_i + k √M + (K+k−2) √T P), plus the rounding of payments: σ/4096
    times the bound Σ_i β_i + k M + T P on their number.
    """
    race = _Race(T, gaps_from(gaps, means), noise, rho, horizon)
    places, others = race.places, len(race.gaps) + race.places - 1

    def at(eta: float) -> Floats:
        shared, longest = race.blocks(eta)
        roots = np.sqrt(shared).sum(axis=-1) + places * np.sqrt(longest)
        roots = roots + others * np.sqrt(race.rounds) * race.failure
        payments = shared.sum(axis=-1) + places * longest + race.rounds * race.failure
        return np.asarray(race.payment_scale * roots + race.noise / GRID * payments)

    return _lowest(at, eta)


def _lowest(at: Any, eta: float | None) -> Floats:
    if eta is not None and not 0 < as_number("eta", eta) < 1:
        raise InputError("eta", "must lie between 0 and 1, both excluded", given=eta)
    lowest = at(float(ETAS[0]) if eta is None else eta)
    for other in ETAS[1:] if eta is None else ():
        lowest = np.minimum(lowest, at(float(other)))
    return np.asarray(lowest)[()]


def noise_is_not_too_small(setting: Setting) -> Iterator[str]:
    """The policy's `noise` is at least the sub-Gaussian parameter of the rewards."""
    policy, parameter = setting.policy, sub_gaussian_parameter(setting.study.arms)
    assert isinstance(policy, EqualPayElimination)
    if policy.estimate_noise:
        yield f"proved for a known noise, and {policy.label} estimates it"
    elif policy.noise < parameter * (1 - 1e-12):
        yield (
            f"proved for a noise of at least {parameter:g}, the rewards' sub-Gaussian parameter, "
            f"and it is {policy.noise:g}"
        )


def ratings_not_projected(setting: Setting) -> Iterator[str]:
    """Ratings are not projected: how much that changes a rating depends on its arm."""
    if setting.study.feedback_range is None:
        return
    if any(no_drift(setting)):
        yield "feedback_range cuts off drift, and how much of it depends on the arm"
    else:
        yield from projection_keeps_rewards(setting)


def formula_arguments(setting: Setting) -> dict[str, Any]:
    """Return the gaps and the policy's parameters."""
    policy = setting.policy
    assert isinstance(policy, EqualPayElimination)
    return {
        "gaps": setting.gaps,
        "noise": policy.noise,
        "rho": policy.rho,
        "horizon": policy.horizon,
    }


ASSUMPTIONS = (
    single_best_arm,
    no_model_extensions,
    noise_is_not_too_small,
    drift_of_the_payment_alone,
    ratings_not_projected,
)

regret = Bound(
    name="Theorem E2",
    metric="regret",
    description="expected regret of equal-pay elimination",
    policies=(EqualPayElimination,),
    as_stated=regret_bound,
    as_proved=regret_bound,
    assumptions=ASSUMPTIONS,
    formula_arguments=formula_arguments,
)
compensation = Bound(
    name="Theorem E2",
    metric="compensation",
    description="expected compensation of equal-pay elimination",
    policies=(EqualPayElimination,),
    as_stated=compensation_bound,
    as_proved=compensation_bound,
    assumptions=ASSUMPTIONS,
    formula_arguments=formula_arguments,
)
