"""Lower bounds without drift: what regret and compensation must come to, in the long run.

Lai and Robbins, "Asymptotically efficient adaptive allocation rules", Advances in Applied
Mathematics 6 (1985): for consistent policies lim inf R(T)/log T ≥ Σ_i Δ_i / KL(D_i, D_1).
Wang and Huang, "Multi-armed Bandits with Compensation", NeurIPS 2018 (arXiv 1811.01715): the same
for the compensation of an incentivized policy. Both are asymptotic: at a finite T a policy may
stay below. With drift, no lower bound is known.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from entice.errors import InputError
from entice.policies import UCB, CustomPolicy, EpsilonGreedy, Greedy, ThompsonSampling
from entice.theory.bound import Bound
from entice.theory.inputs import Floats, Numbers, gaps_from, rounds_from
from entice.theory.setting import Setting, policy_is_consistent, without_drift
from entice.theory.special import digamma
from entice.world.arms import Arms, Bernoulli, Beta, Gaussian


def kl_gaussian(mean: Any, other: Any, std: Any = 1.0, other_std: Any = None) -> Floats:
    """KL divergence of N(mean, std²) from N(other, other_std²): Δ²/2σ² for equal widths."""
    s = np.asarray(std, dtype=np.float64)
    o = s if other_std is None else np.asarray(other_std, dtype=np.float64)
    apart = np.asarray(mean, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    return np.asarray(np.log(o / s) + (s**2 + apart**2) / (2 * o**2) - 0.5)[()]


def kl_bernoulli(mean: Any, other: Any) -> Floats:
    """KL divergence of Bernoulli(mean) from Bernoulli(other); infinite if other forbids a value.

    >>> from entice.theory.lower import kl_bernoulli
    >>> round(float(kl_bernoulli(0.5, 0.9)), 4)
    0.5108
    """
    p, q = np.asarray(mean, dtype=np.float64), np.asarray(other, dtype=np.float64)
    return np.asarray(_relative_entropy(p, q) + _relative_entropy(1 - p, 1 - q))[()]


def kl_beta(a: Any, b: Any, other_a: Any, other_b: Any) -> Floats:
    """KL divergence of Beta(a, b) from Beta(other_a, other_b)."""
    a, b, c, d = (np.asarray(v, dtype=np.float64) for v in (a, b, other_a, other_b))
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
    p, q = np.asarray(weights, dtype=np.float64), np.asarray(other, dtype=np.float64)
    return np.asarray(_relative_entropy(p, q).sum(axis=-1))[()]


def _relative_entropy(p: Floats, q: Floats) -> Floats:
    """Return p log(p/q), 0 where p is 0, infinite where only q is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(p > 0, p * np.log(p / q), 0.0))


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
    means = arms.true_means()
    gaps_from(None, means=means)
    best = int(means.argmax())
    if isinstance(arms, Gaussian):
        std = np.broadcast_to(arms.std, means.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            all_of_them = np.nan_to_num(
                kl_gaussian(means, means[best], std, std[best]), nan=math.inf, posinf=math.inf
            )
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


def _known(setting: Setting) -> dict[str, Any]:
    return {"gaps": setting.gaps, "divergences": divergences(setting.study.arms)}


ANY_POLICY = (UCB, EpsilonGreedy, ThompsonSampling, Greedy, CustomPolicy)

regret = Bound(
    name="Lai and Robbins 1985",
    metric="regret",
    of="regret of consistent policies, asymptotically",
    policies=ANY_POLICY,
    as_stated=sum_of_ratios,
    as_proved=sum_of_ratios,
    assumes=(without_drift, policy_is_consistent),
    knows=_known,
    kind="lower",
)
compensation = Bound(
    name="Wang and Huang 2018",
    metric="compensation",
    of="compensation of consistent policies, asymptotically",
    policies=ANY_POLICY,
    as_stated=sum_of_ratios,
    as_proved=sum_of_ratios,
    assumes=(without_drift, policy_is_consistent),
    knows=_known,
    kind="lower",
)
