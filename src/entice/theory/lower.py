"""Lower bounds without drift: what regret and compensation must come to, in the long run.

Lai and Robbins, "Asymptotically efficient adaptive allocation rules", Advances in Applied
Mathematics 6 (1985): for consistent policies lim inf R(T)/log T ≥ Σ_i Δ_i / KL(D_i, D_1).
Wang and Huang, "Multi-armed Bandits with Compensation", NeurIPS 2018 (arXiv 1811.01715): a lower
bound of the same order for compensation. The constant follows: an arm that is not the best is
pulled (1−ε) log T / KL times with high probability, and in all but a vanishing share of these
pulls its average has settled at a gap of at least Δ_i − ε, which is paid. Both are asymptotic: at
a finite T a policy may stay below. With drift, no lower bound is known.
"""

from __future__ import annotations

import math
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
from entice.worlds.arms import Arms, Bernoulli, Beta, Gaussian


def kl_gaussian(mean: Any, other: Any, std: Any = 1.0, other_std: Any = None) -> Floats:
    """KL divergence of N(mean, std²) from N(other, other_std²): Δ²/2σ² for equal widths."""
    s = between("std", std, 0.0, math.inf)
    o = s if other_std is None else between("other_std", other_std, 0.0, math.inf)
    apart = numbers_from("mean", mean, "numbers") - numbers_from("other", other, "numbers")
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = (s / o) ** 2 - 1
        value = apart**2 / (2 * o**2) + (wider - np.log1p(wider)) / 2
    # Without noise in either, they are the same or can be told apart at once.
    exact = np.where((s == o) & (apart == 0), 0.0, math.inf)
    return np.asarray(np.where((s > 0) & (o > 0), value, exact))[()]


def kl_bernoulli(mean: Any, other: Any) -> Floats:
    """KL divergence of Bernoulli(mean) from Bernoulli(other); infinite if other forbids a value.

    >>> from entice.theory.lower import kl_bernoulli
    >>> round(float(kl_bernoulli(0.5, 0.9)), 4)
    0.5108
    """
    p, q = between("mean", mean, 0.0, 1.0), between("other", other, 0.0, 1.0)
    return np.asarray(_relative_entropy(p, q) + _relative_entropy(1 - p, 1 - q))[()]


def kl_beta(a: Any, b: Any, other_a: Any, other_b: Any) -> Floats:
    """KL divergence of Beta(a, b) from Beta(other_a, other_b)."""
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
    """KL divergence of probabilities on a grid, along the last axis, from others on the same."""
    p, q = between("weights", weights, 0.0, 1.0), between("other", other, 0.0, 1.0)
    return np.asarray(_relative_entropy(p, q).sum(axis=-1))[()]


def _relative_entropy(p: Floats, q: Floats) -> Floats:
    """Return p log(p/q) + q − p: no term is negative, and small differences do not cancel.

    The additions sum up to nothing over a distribution. Infinite where only q is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        u = (p - q) / q
        value = q * ((1 + u) * np.log1p(u) - u)
    return np.asarray(np.where(p == 0, q, np.where(q == 0, math.inf, value)))


def _log_beta(a: Floats, b: Floats) -> Floats:
    log_gamma = np.vectorize(math.lgamma, otypes=[float])
    return np.asarray(log_gamma(a) + log_gamma(b) - log_gamma(a + b))


def divergences(arms: Arms) -> Floats:
    """KL(D_i, D_1) of each arm that is not the best one from the best.

    >>> import entice
    >>> from entice.theory.lower import divergences
    >>> divergences(entice.Gaussian([0.9, 0.5, 0.1]))
    array([0.08, 0.32])
    """
    if not isinstance(arms, get_args(Arms)):
        raise InputError("arms", "must be arms such as Gaussian or Bernoulli", given=arms)
    means = arms.true_means()
    gaps_from(None, means=means)
    best = int(means.argmax())
    if isinstance(arms, Gaussian):
        std = np.broadcast_to(arms.std, means.shape)
        all_of_them = kl_gaussian(means, means[best], std, std[best])
    elif isinstance(arms, Bernoulli):
        all_of_them = kl_bernoulli(means, means[best])
    elif isinstance(arms, Beta):
        a, b = np.array(arms.a), np.array(arms.b)
        all_of_them = kl_beta(a, b, a[best], b[best])
    else:
        weights = arms.probabilities()
        all_of_them = kl_discrete(weights, weights[best])
    return np.delete(all_of_them, best)


def sum_of_ratios(
    T: Any, *, divergences: Numbers, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Σ_i Δ_i log T / KL(D_i, D_1), an arm of infinite divergence counting nothing.

    >>> from entice.theory.lower import kl_gaussian, sum_of_ratios
    >>> gaps = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    >>> round(float(sum_of_ratios(20_000, gaps=gaps, divergences=kl_gaussian(gaps, 0))))
    538
    """
    logs, gap = np.log(rounds_from(T)), gaps_from(gaps, means)
    far = np.asarray(divergences, dtype=np.float64)
    if far.shape != gap.shape or not (far > 0).all():
        rule = f"must be greater than 0, one for each of the {len(gap)} arms that are not the best"
        raise InputError("divergences", rule, given=divergences)
    return np.asarray((gap / far).sum() * logs)[()]


def _formula_arguments(setting: Setting) -> dict[str, Any]:
    # Of arms that are all but the same, differences may vanish in rounding; the bound is then
    # larger than any number, and vacuous.
    tiny = np.finfo(np.float64).tiny
    return {"gaps": setting.gaps, "divergences": np.maximum(divergences(setting.study.arms), tiny)}


ASSUMPTIONS = (
    single_best_arm,
    no_model_extensions,
    no_drift,
    policy_is_consistent,
    projection_keeps_rewards,
)
ANY_POLICY = (PolicySpec,)

regret = Bound(
    name="Lai and Robbins 1985",
    metric="regret",
    of="regret of consistent policies, asymptotically",
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
    of="compensation of consistent policies, asymptotically",
    policies=ANY_POLICY,
    as_stated=sum_of_ratios,
    as_proved=sum_of_ratios,
    assumptions=ASSUMPTIONS,
    formula_arguments=_formula_arguments,
    kind="lower",
)
