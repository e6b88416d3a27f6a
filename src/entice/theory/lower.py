"""Asymptotic lower bounds on regret and compensation without drift.

Lai and Robbins, "Asymptotically efficient adaptive allocation rules", Advances in Applied
Mathematics 6 (1985): for consistent policies lim inf R(T)/log T ≥ Σ_i Δ_i / KL(D_i, D_1).
Wang and Huang, "Multi-armed Bandits with Compensation", NeurIPS 2018 (arXiv 1811.01715): a lower
bound of the same order for compensation. The constant follows: a suboptimal arm is pulled
(1−ε) log T / KL times with high probability, and in all but a vanishing share of these pulls it
displays, and is paid, a gap of at least Δ_i − ε. Both are asymptotic: at a finite T a policy may
stay below. With drift, no lower bound is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np

from entice.errors import InputError
from entice.policies.policy import PolicySpec
from entice.theory.bound import Bound
from entice.theory.inputs import (
    Floats,
    Numbers,
    between,
    gaps_from,
    numbers_from,
    rounds_from,
)
from entice.theory.setting import (
    Setting,
    no_drift,
    no_model_extensions,
    policy_is_consistent,
    projection_keeps_rewards,
    single_best_arm,
)
from entice.theory.special import digamma
from entice.worlds.arms import Bernoulli, Beta, CustomArms, FixedArms, Gaussian
from entice.worlds.changing_arms import fixed_arms
from entice.worlds.segments import Segments


def kl_gaussian(mean: Any, other: Any, std: Any = 1.0, other_std: Any = None) -> Floats:
    """Return the KL divergence of N(mean, std²) from N(other, other_std²).

    It is Δ²/2σ² for equal standard deviations.
    """
    s = between("std", std, 0.0, math.inf)
    o = s if other_std is None else between("other_std", other_std, 0.0, math.inf)
    apart = numbers_from("mean", mean, "numbers") - numbers_from("other", other, "numbers")
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = (s / o) ** 2 - 1
        value = apart**2 / (2 * o**2) + (wider - np.log1p(wider)) / 2
    # Without noise in one of them, they are identical or distinguished by one sample.
    exact = np.where((s == o) & (apart == 0), 0.0, math.inf)
    return np.asarray(np.where((s > 0) & (o > 0), value, exact))[()]


def kl_bernoulli(mean: Any, other: Any) -> Floats:
    """Return the KL divergence of Bernoulli(mean) from Bernoulli(other).

    It is infinite if `other` excludes a value that `mean` allows.

    >>> from entice.theory.lower import kl_bernoulli
    >>> round(float(kl_bernoulli(0.5, 0.9)), 4)
    0.5108
    """
    p, q = between("mean", mean, 0.0, 1.0), between("other", other, 0.0, 1.0)
    return np.asarray(_relative_entropy(p, q) + _relative_entropy(1 - p, 1 - q))[()]


def kl_beta(a: Any, b: Any, other_a: Any, other_b: Any) -> Floats:
    """Return the KL divergence of Beta(a, b) from Beta(other_a, other_b)."""
    given = {"a": a, "b": b, "other_a": other_a, "other_b": other_b}
    a, b, c, d = (between(name, value, 1e-300, math.inf) for name, value in given.items())
    value = (
        _log_beta(c, d)
        - _log_beta(a, b)
        + (a - c) * digamma(a)
        + (b - d) * digamma(b)
        + (c - a + d - b) * digamma(a + b)
    )
    return np.asarray(np.maximum(value, 0.0))[()]


def kl_discrete(weights: Any, other: Any) -> Floats:
    """Return the KL divergence of two distributions on the same grid, along the last axis."""
    p, q = between("weights", weights, 0.0, 1.0), between("other", other, 0.0, 1.0)
    return np.asarray(_relative_entropy(p, q).sum(axis=-1))[()]


def _relative_entropy(p: Floats, q: Floats) -> Floats:
    """Return p log(p/q) + q − p; terms are non-negative, so small differences do not cancel.

    The terms q − p sum to zero over a distribution. Infinite where only q is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        u = (p - q) / q
        value = q * ((1 + u) * np.log1p(u) - u)
    return np.asarray(np.where(p == 0, q, np.where(q == 0, math.inf, value)))


def _log_beta(a: Floats, b: Floats) -> Floats:
    log_gamma = np.vectorize(math.lgamma, otypes=[float])
    return np.asarray(log_gamma(a) + log_gamma(b) - log_gamma(a + b))


def divergences(arms: FixedArms) -> Floats:
    """Return KL(D_i, D_1) of each suboptimal arm from the best arm.

    It is infinite for `CustomArms`, whose distribution is not known, so their lower bounds are 0.

    >>> import entice
    >>> from entice.theory.lower import divergences
    >>> divergences(entice.Gaussian([0.9, 0.5, 0.1]))
    array([0.08, 0.32])
    """
    if not isinstance(arms, get_args(FixedArms)):
        rule = "must be arms with fixed means, such as Gaussian or Bernoulli"
        raise InputError("arms", rule, given=arms)
    means = arms.true_means()
    gaps_from(None, means=means)
    best = int(means.argmax())
    if isinstance(arms, Gaussian):
        std = np.broadcast_to(arms.std, means.shape)
        divergence = kl_gaussian(means, means[best], std, std[best])
    elif isinstance(arms, Bernoulli):
        divergence = kl_bernoulli(means, means[best])
    elif isinstance(arms, Beta):
        a, b = np.array(arms.a), np.array(arms.b)
        divergence = kl_beta(a, b, a[best], b[best])
    elif isinstance(arms, CustomArms):  # of which only the means are known
        divergence = np.full(means.shape, math.inf)
    else:
        weights = arms.probabilities()
        divergence = kl_discrete(weights, weights[best])
    return np.delete(divergence, best)


def sum_of_ratios(
    T: Any, *, divergences: Numbers, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Return Σ_i Δ_i log T / KL(D_i, D_1); an arm with infinite divergence contributes 0.

    >>> from entice.theory.lower import kl_gaussian, sum_of_ratios
    >>> gaps = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    >>> round(float(sum_of_ratios(20_000, gaps=gaps, divergences=kl_gaussian(gaps, 0))))
    538
    """
    logs, gap = np.log(rounds_from(T)), gaps_from(gaps, means)
    far = np.asarray(divergences, dtype=np.float64)
    if far.shape != gap.shape or not (far > 0).all():
        rule = f"must be greater than 0, one for each of the {len(gap)} suboptimal arms"
        raise InputError("divergences", rule, given=divergences)
    return np.asarray((gap / far).sum() * logs)[()]


def _formula_arguments(setting: Setting) -> dict[str, Any]:
    # The divergence of nearly identical arms may round to 0; the bound is then huge, and vacuous.
    arms = fixed_arms(setting.study.arms)
    if isinstance(setting.study.arms, Segments):  # the bound does not apply, but has a formula
        arms = Gaussian(setting.study.arms.true_means().tolist())
    far = np.maximum(divergences(arms), np.finfo(np.float64).tiny)
    return {"gaps": setting.gaps, "divergences": far}


def distribution_is_known(setting: Setting) -> Iterator[str]:
    """The divergences follow from the distributions of the rewards."""
    if isinstance(setting.study.arms, CustomArms):
        yield "the distribution of custom arms is not known"


ASSUMPTIONS = (
    single_best_arm,
    distribution_is_known,
    no_model_extensions,
    no_drift,
    policy_is_consistent,
    projection_keeps_rewards,
)
ANY_POLICY = (PolicySpec,)

regret = Bound(
    name="Lai and Robbins 1985",
    metric="regret",
    description="regret of consistent policies, asymptotically",
    policies=ANY_POLICY,
    as_stated=sum_of_ratios,
    as_proved=sum_of_ratios,
    assumptions=ASSUMPTIONS,
    formula_arguments=_formula_arguments,
    kind="lower",
)
compensation = Bound(
    name="Wang and Huang 2018",
    metric="compensation",
    description="compensation of consistent policies, asymptotically",
    policies=ANY_POLICY,
    as_stated=sum_of_ratios,
    as_proved=sum_of_ratios,
    assumptions=ASSUMPTIONS,
    formula_arguments=_formula_arguments,
    kind="lower",
)
