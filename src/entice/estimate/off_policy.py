"""Off-policy evaluation: what another policy would have achieved, from a campaign's log.

Let e(a) be the probability with which the campaign offered arm a in a decision, π(a) that of the
other policy, and w = π(A)/e(A) the weight of the arm A that was offered. The average of π over the
decisions of the log is estimated in three ways:

- self-normalised inverse propensity: Σ w y / Σ w
- doubly robust: the average of Γ = Σ_a π(a) m(a) + w (y − m(A)), where the model m(a) is the mean
  of the arm's earlier outcomes, so that Γ minus its mean is a martingale difference
- adaptively weighted (Hadad et al. 2021, PNAS 118, e2014602118): the doubly robust scores of each
  arm, weighted by h = √e(a), which keeps their variance constant while e(a) changes with the
  history; then combined over arms by the share with which the policy chooses each

A rating per rated visitor is a ratio: the estimate of rated · rating over that of rated.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import polars as pl

from entice.errors import InputError
from entice.estimate.decisions import Bools, Decisions, Floats, read_decisions
from entice.estimate.interval import Estimate, check_level, t_critical_value
from entice.estimate.probe import probe_slope
from entice.estimate.ratings import Rounds
from entice.estimate.targets import Target, check_support, target_probabilities

SNIPS = "self-normalised inverse propensity"
DOUBLY_ROBUST = "doubly robust"
ADAPTIVE = "adaptively weighted"
FEW = 30
"""A rating from fewer effective observations carries a warning."""
FEW_PAID = 100
"""So does a payment from fewer effective answers to paid offers. Amounts differ more than ratings:
with about 50 answers, 95 % intervals covered 92 to 95 %."""
UNSEEN = 0.01
"""The share of the policy's choices that may be of arms without a rating in the log."""


class PolicyEstimate(NamedTuple):
    """An estimate of a policy's rating or payment, with its interval."""

    value: float
    low: float
    high: float
    stderr: float
    effective: float
    """The effective number of observations, (Σ w)² / Σ w²: as many equally weighted ones would be
    as precise."""


class Evaluation(NamedTuple):
    """What a policy would have achieved in the decisions of a log."""

    rating: dict[str, PolicyEstimate]
    """By method: the rating per rated visitor, in stars."""
    payment: dict[str, PolicyEstimate]
    """By method: the payment per visitor, in units of the currency."""
    currency: str
    logged_rating: float
    """What the campaign itself achieved in the same decisions."""
    logged_payment: float
    decisions: int
    rated: int
    left_out: dict[str, int]
    """The number of decisions that were left out, by reason."""
    drift: Estimate | None
    """The drift that was taken out of the ratings."""
    warnings: tuple[str, ...]

    @property
    def table(self) -> pl.DataFrame:
        """All estimates, a row for each quantity and method."""
        return pl.DataFrame(
            [
                {"quantity": quantity, "method": method, **estimate._asdict()}
                for quantity in ("rating", "payment")
                for method, estimate in getattr(self, quantity).items()
            ]
        )


def evaluate(
    log: Rounds, policy: Target, *, level: float = 0.95, without_drift: bool = False
) -> Evaluation:
    """Estimate what another policy would have achieved, from the log of a campaign with overlap.

    The policy is applied decision by decision to the histories of the log: its choices are those
    that it would make with the averages, counts and limits of that decision. This is not its own
    trajectory, in which it would have collected other ratings.

    Decisions of players in a holdout, of a paused campaign, without overlap or in shadow mode, and
    offers that were not answered are left out.

    Parameters
    ----------
    log
        A campaign as `entice export` writes it: the path of a Parquet, CSV or JSON Lines file, or a
        frame.
    policy
        `UCB`, `MOSS`, `EpsilonGreedy`, `ThompsonSampling`, `AlternatingThompson` or `Greedy`;
        `Always("tea")`, `Uniform()`; or a function of a row of the log, a dictionary, that returns
        an arm or the probability of each arm.
    level
        Confidence level of the intervals.
    without_drift
        Subtract the drift from ratings: the slope that `probe_slope` estimates from the campaign's
        probe, times the payment. The intervals include the slope's uncertainty.

    >>> import entice
    >>> try:
    ...     entice.estimate.evaluate("teas.parquet", entice.Greedy())
    ... except entice.InputError as error:
    ...     print(error)
    log must be a file that exists; got 'teas.parquet'.
    """
    level = check_level(level)
    decisions = read_decisions(log)
    target = target_probabilities(policy, decisions)
    check_support(target, decisions)
    unseen = _check_observed(target, decisions)
    slope = probe_slope(log, level=level) if without_drift else None
    rated, stars = decisions.rated, decisions.stars
    rating = decisions.rating - (slope.slope * stars if slope is not None else 0.0)
    methods = {
        SNIPS: _Weighted(target, decisions),
        DOUBLY_ROBUST: _DoublyRobust(target, decisions),
        ADAPTIVE: _Adaptive(target, decisions),
    }
    ratings, payments = {}, {}
    for name, method in methods.items():
        found = method.ratio(rated * rating, rated.astype(np.float64))
        extra = 0.0
        if slope is not None:
            extra = slope.stderr * method.ratio(rated * stars, rated.astype(np.float64)).value
        ratings[name] = _interval(found, extra, level)
        payments[name] = _interval(method.payment(), 0.0, level)
    few, pays = [], bool((target * decisions.amounts).any())
    if (effective := ratings[DOUBLY_ROBUST].effective) < FEW:
        few.append(f"the rating is based on only {effective:.0f} effective ratings")
    if pays and (effective := payments[DOUBLY_ROBUST].effective) < FEW_PAID:
        few.append(
            f"the payment is based on only {effective:.0f} effective answers to paid offers: "
            "its intervals may be too narrow"
        )
    drift = (f"the drift: {slope.warning}",) if slope is not None and slope.warning else ()
    return Evaluation(
        ratings,
        payments,
        decisions.currency,
        float(rating[rated].mean()),
        float(decisions.paid.mean()),
        len(decisions),
        int(rated.sum()),
        decisions.left_out,
        slope,
        (*few, *unseen, *drift),
    )


class _Found(NamedTuple):
    """An estimate, the influence of each decision on it, and the weights of the observations."""

    value: float
    influence: Floats
    weights: Floats


class _Weighted:
    """Self-normalised inverse propensity."""

    def __init__(self, target: Floats, log: Decisions) -> None:
        rows = np.arange(len(log))
        self.log, self.target = log, target
        self.weights = target[rows, log.arm] / log.propensities[rows, log.arm]

    def ratio(self, outcome: Floats, per: Floats) -> _Found:
        """Estimate the policy's mean of `outcome` over its mean of `per`."""
        total = _require_positive(float(self.weights @ per))
        value = float(self.weights @ outcome) / total
        influence = self.weights * (outcome - value * per) / total
        return _Found(value, influence, self.weights * per)

    def payment(self) -> _Found:
        """Estimate the payment per visitor."""
        found = self.ratio(self.log.paid, np.ones(len(self.log)))
        return found._replace(weights=self._priced_weights())

    def _priced_weights(self) -> Floats:
        """Return the weights of the decisions that say whether a payment is accepted."""
        amounts: Floats = self.log.amounts[np.arange(len(self.log)), self.log.arm]
        return self.weights * amounts


class _DoublyRobust(_Weighted):
    """The average of doubly robust scores."""

    def ratio(self, outcome: Floats, per: Floats) -> _Found:
        over, over_errors = self._mean(outcome, _past_means(outcome, self.log))
        under, under_errors = self._mean(per, _past_means(per, self.log))
        value = over / _require_positive(under)
        return _Found(value, (over_errors - value * under_errors) / under, self.weights * per)

    def payment(self) -> _Found:
        model = self.log.amounts * _past_means(*_acceptance(self.log), start=1.0)
        return _Found(*self._mean(self.log.paid, model), self._priced_weights())

    def _mean(self, outcome: Floats, model: Floats) -> tuple[float, Floats]:
        """Return the mean score, and the error of each decision.

        The model's prediction for the policy is known, so it contributes no error.
        """
        rows, size = np.arange(len(outcome)), len(outcome)
        predicted = float((self.target * model).sum()) / size
        errors = self.weights * (outcome - model[rows, self.log.arm]) / size
        correction = float(errors.sum())
        return predicted + correction, errors - correction / size


class _Adaptive(_Weighted):
    """Doubly robust scores of each arm, weighted by √e; they assume that arms do not change."""

    def ratio(self, outcome: Floats, per: Floats) -> _Found:
        shares = self.target.mean(axis=0)
        weights = self._arm_weights(shares, np.ones_like(self.target, dtype=np.bool_))
        over, over_centred = self._combine(outcome, _past_means(outcome, self.log), weights)
        under, under_centred = self._combine(per, _past_means(per, self.log), weights)
        value = over / _require_positive(under)
        return _Found(
            value,
            (over_centred - value * under_centred) / under,
            self._observed(weights) * per,
        )

    def payment(self) -> _Found:
        accepted, log = _acceptance(self.log)
        costs = (self.target * self.log.amounts).mean(axis=0)
        weights = self._arm_weights(costs, self.log.amounts > 0)
        model = _past_means(accepted, log, start=1.0)
        value, centred = self._combine(np.where(log.counted, accepted, 0.0), model, weights)
        return _Found(value, centred, self._observed(weights) * log.counted)

    def _arm_weights(self, coefficients: Floats, usable: Bools) -> Floats:
        """Return the weight of each arm's score in each decision, h/Σh times its coefficient."""
        weights = np.sqrt(self.log.propensities) * usable
        total = weights.sum(axis=0)
        return weights * np.where(total > 0, coefficients / np.where(total > 0, total, 1.0), 0.0)

    def _observed(self, weights: Floats) -> Floats:
        rows, arm = np.arange(len(self.log)), self.log.arm
        found: Floats = weights[rows, arm] / self.log.propensities[rows, arm]
        return found

    def _combine(self, outcome: Floats, model: Floats, weights: Floats) -> tuple[float, Floats]:
        """Return the weighted sum of scores, and each decision's part minus its expectation."""
        rows, arm = np.arange(len(outcome)), self.log.arm
        scores = model.copy()
        scores[rows, arm] += (outcome - model[rows, arm]) / self.log.propensities[rows, arm]
        parts = weights * scores
        totals, mass = parts.sum(axis=0), weights.sum(axis=0)
        means = np.where(mass > 0, totals / np.where(mass > 0, mass, 1.0), 0.0)
        return float(totals.sum()), parts.sum(axis=1) - weights @ means


def _require_positive(rated: float) -> float:
    """Return the estimated number or share of rated visitors, by which ratings are divided."""
    if rated > 0:
        return rated
    raise InputError(
        "log",
        "must have enough ratings in decisions in which the policy would offer the rated arm",
        given="so few that the estimated share of visitors who rate is not above 0",
        todo="Evaluate more decisions, or set a larger overlap.",
    )


class _Counted(NamedTuple):
    """The arms of the decisions whose outcome a model learns from."""

    arm: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    counted: Bools
    arms: tuple[str, ...]


def _acceptance(log: Decisions) -> tuple[Floats, _Counted]:
    """Return the paid share of the amount of each arm that has one: 1 if accepted, 0 if not."""
    amount = log.amounts[np.arange(len(log)), log.arm]
    counted = amount > 0
    return np.where(counted, log.paid / np.where(counted, amount, 1.0), 0.0), _Counted(
        log.arm, counted, log.arms
    )


def _past_means(outcome: Floats, log: Decisions | _Counted, start: float = 0.0) -> Floats:
    """Return each arm's mean outcome in earlier decisions, shrunk by one of the overall mean."""
    counted = log.counted if isinstance(log, _Counted) else np.ones(len(outcome), dtype=np.bool_)
    chosen = np.zeros((len(outcome), len(log.arms)))
    chosen[np.arange(len(outcome)), log.arm] = counted
    before = np.cumsum(chosen, axis=0) - chosen
    sums = chosen * outcome[:, None]
    sums = np.cumsum(sums, axis=0) - sums
    number = before.sum(axis=1, keepdims=True)
    overall = np.where(number > 0, sums.sum(axis=1, keepdims=True) / np.maximum(number, 1), start)
    means: Floats = (sums + overall) / (before + 1)
    return means


def _interval(found: _Found, extra: float, level: float) -> PolicyEstimate:
    """Return an estimate with its interval, by Student's t.

    The degrees of freedom are the effective number of observations minus 1.
    """
    stderr = math.hypot(float(np.linalg.norm(found.influence)), extra)
    weights, effective = found.weights, 0.0
    if weights.any():
        effective = float(weights.sum() ** 2 / (weights @ weights))
    half_width = t_critical_value(level, round(max(1.0, effective - 1), 1)) * stderr
    value = found.value
    return PolicyEstimate(value, value - half_width, value + half_width, stderr, effective)


def _check_observed(target: Floats, log: Decisions) -> tuple[str, ...]:
    """Reject a policy that mostly chooses arms without a rating in the log."""
    rated = np.bincount(log.arm, weights=log.rated, minlength=len(log.arms)) > 0
    shares = np.where(rated, 0.0, target.mean(axis=0))
    names = ", ".join(log.arms[i] for i in np.flatnonzero(shares))
    if shares.sum() > UNSEEN or not rated.any():
        raise InputError(
            "log",
            "must have ratings of the arms that the policy would offer",
            given=f"none of {names}, which the policy offers in {shares.sum():.0%} of "
            f"{len(log):,} decisions",
            todo="Evaluate more decisions, or set a larger overlap.",
        )
    if not names:
        return ()
    return (f"{names}: offered by the policy, but never rated in the log",)
