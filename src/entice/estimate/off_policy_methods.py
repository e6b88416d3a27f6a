"""The three methods of off-policy evaluation, and their intervals.

Let e(a) be the probability with which the campaign offered arm a in a decision, and π(a) that of
the other policy. Every method weights arm a of decision t by some V(t, a) that is known before the
outcome y, predicts the outcome by a model m(t, a), and corrects the model by the arm A offered:

    Σ_t Σ_a V(t, a) m(t, a) + Σ_t V(t, A) / e(A) · (y − m(t, A))

- self-normalised inverse propensity: V = π, m = 0, divided by the same sum of 1 instead of y
- doubly robust: V = π, and m(a) is the mean of the arm's earlier outcomes
- adaptively weighted (Hadad et al. 2021, PNAS 118, e2014602118): the same model, and V is
  proportional to h = √e(a), which keeps the variance of terms constant while e(a) changes with the
  history. Outcomes depend on the payment, so weights are moved between decisions with about the
  same amount for the arm only: there, V has the same total as π.

*Ratings* per rated visitor are a ratio of two such sums, A of rated · rating and B of rated. The
interval is the set of all θ with (A − θB)² ≤ z² Σ_t (error of A − θ · error of B)² (Fieller 1954).
Errors are taken at θ rather than at the estimate, so the normal quantile z serves even if a few
large weights dominate. If no θ can be rejected, there are too few ratings.

*Payments* are known in advance but for the answer: the amount of each arm is that of its gap. So
the outcome is the share of the amount that was paid, mostly 1 or 0, and V is multiplied by the
amount. The variance is that which the known propensities imply, whether or not the draws with large
weights happened to occur: Σ_a c_a · (mean squared error of the arm's shares), with
c_a = Σ_t V(t, a)²/e(a). If all arms' shares were larger by δ, it would be larger by
Σ_a c_a (κ_a − 2 q_a) δ − Σ_a c_a δ², where q_a is the arm's mean share, and κ_a = 1 if shares are 1
or 0. The δ that a test with this variance does not reject form Wilson's interval, if all weights
are equal. That of Agresti and Coull (1998, The American Statistician 52, 119–126) has the same
middle, takes the variance there, and is the safer one if nearly all answers are alike. With fewer
than `FEW` effective answers, the interval is all that is possible.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from entice.errors import InputError
from entice.estimate.decisions import Bools, Counts, Decisions, Floats

SNIPS = "self-normalised inverse propensity"
DOUBLY_ROBUST = "doubly robust"
ADAPTIVE = "adaptively weighted"
STEP = 1.25
"""Amounts are about the same if they differ by less than this factor."""
FEW = 30
"""A rating from fewer effective observations carries a warning, and a payment has no interval but
its limits: with 6 to 30 effective answers, 95 % intervals covered 89 to 97 %, mostly below 93 %."""


class Interval(NamedTuple):
    """The ends of an interval, and the standard error at the estimate."""

    low: float
    high: float
    stderr: float


class Ratio(NamedTuple):
    """A ratio of two estimates, the errors of each decision, and the weights of observations."""

    over: float
    under: float
    over_errors: Floats
    under_errors: Floats
    weights: Floats

    @property
    def value(self) -> float:
        """The estimate."""
        return self.over / self.under

    @property
    def effective(self) -> float:
        """The number of equally weighted ratings that would be as precise, (Σ w)² / Σ w²."""
        return float(self.weights.sum() ** 2 / (self.weights @ self.weights))

    def interval(self, z: float, extra: float) -> Interval:
        """Return Fieller's interval; `extra` is a standard error that something else adds."""
        value, under = self.value, self.under
        errors = self.over_errors - value * self.under_errors
        square = float(errors @ errors) + (extra * under) ** 2
        under_square = float(self.under_errors @ self.under_errors)
        product = float(errors @ self.under_errors)
        scale = under**2 - z**2 * under_square
        if scale <= 0:
            effective = under**2 / under_square
            raise too_few_ratings(f"only {effective:.1f} effective ones, too few for an interval")
        middle = value - z**2 * product / scale
        inner = under**2 * square - z**2 * (square * under_square - product**2)
        half_width = z * math.sqrt(max(inner, 0.0)) / scale
        return Interval(middle - half_width, middle + half_width, math.sqrt(square) / under)


class Payment(NamedTuple):
    """An estimated payment, and its variance if all shares paid were larger by δ."""

    value: float
    cost: float
    """What the policy pays if everybody accepts."""
    most: float
    """The same at the highest share of an amount that was paid: explored prices can be higher."""
    variance: float
    """At δ = 0."""
    slope: float
    """The variance is `variance` + `slope` δ − `curvature` δ²."""
    curvature: float

    @property
    def effective(self) -> float:
        """The effective number of answers to paid offers, as the propensities imply it.

        That of the answers observed is largest if no draw with a large weight occurred.
        """
        return self.cost**2 / self.curvature if self.curvature > 0 else 0.0

    def interval(self, z: float) -> Interval:
        """Return the generalised interval of Agresti and Coull."""
        stderr, scale = math.sqrt(self.variance), self.cost**2 + z**2 * self.curvature
        if self.effective < FEW:
            return Interval(0.0, self.most, stderr)
        shift = z**2 * self.slope / (2 * scale)
        variance = self.variance + self.slope * shift - self.curvature * shift**2
        middle = self.value + self.cost * shift
        half_width = self.cost * z * math.sqrt(max(variance, 0.0) / scale)
        return Interval(middle - half_width, middle + half_width, stderr)


class Methods:
    """Estimates a policy's ratings and payments in the decisions of a log."""

    def __init__(self, target: Floats, log: Decisions) -> None:
        self._target, self._log = target, log
        self._rows = np.arange(len(log))
        amount = self._observed(log.amounts)
        self._priced: Bools = amount > 0
        self._share_paid: Floats = np.divide(
            log.paid, amount, out=np.zeros(len(log)), where=self._priced
        )

    def ratings(self, outcome: Floats, per: Floats) -> dict[str, Ratio]:
        """Estimate the policy's mean of `outcome` over its mean of `per`, by all methods."""
        every, adaptive = np.ones(len(per), np.bool_), self._adaptive(self._target)
        models = [past_means(one, self._log, every, 0.0) for one in (outcome, per)]
        found = {}
        for method, weights in (
            (SNIPS, self._target), (DOUBLY_ROBUST, self._target), (ADAPTIVE, adaptive),
        ):  # fmt: skip
            ratio, sums, errors = self._ratio(weights), [], []
            for one, model in zip((outcome, per), models, strict=True):
                if method == SNIPS:
                    errors.append(ratio * one)
                    sums.append(float(errors[-1].sum()))
                else:
                    # What the model predicts is known, so it contributes no error.
                    errors.append(ratio * (one - self._observed(model)))
                    sums.append(float((weights * model).sum() + errors[-1].sum()))
            if sums[1] <= 0:
                raise too_few_ratings("so few that their estimated number is not above 0")
            found[method] = Ratio(sums[0], sums[1], errors[0], errors[1], ratio * per)
        return found

    def payments(self) -> dict[str, Payment]:
        """Estimate the payment per visitor by all methods."""
        weights = self._target * self._log.amounts / len(self._log)
        cost, shares = float(weights.sum()), self._share_paid
        model = past_means(shares, self._log, self._priced, 1.0)
        errors = shares - self._observed(model)
        found = {}
        for method, these in ((DOUBLY_ROBUST, weights), (ADAPTIVE, self._adaptive(weights))):
            value = float((these * model).sum() + (self._ratio(these) * self._priced) @ errors)
            found[method] = self._payment(value, cost, these, errors)
        ratio = self._ratio(weights) * self._priced
        answers = shares[self._priced]
        share = float(answers.mean()) if answers.size else 1.0
        if ratio.any():
            share = float(ratio @ shares / ratio.sum())
        return {SNIPS: self._payment(cost * share, cost, weights, shares - share)} | found

    def _payment(self, value: float, cost: float, weights: Floats, errors: Floats) -> Payment:
        """Return an estimate with its variance; `errors` are those of the shares paid."""
        shares = self._share_paid
        possible = np.where(self._log.permitted, self._log.propensities, 1.0)
        coefficients = (weights**2 / possible).sum(axis=0)
        mean, square = self._arm_means(shares), self._arm_means(shares**2)
        kappa = np.divide(square, mean, out=np.ones_like(mean), where=mean > 0)
        return Payment(
            value,
            cost,
            cost * max(1.0, float(shares.max())),
            float(coefficients @ self._arm_means(errors**2)),
            float(coefficients @ (kappa - 2 * mean)),
            float(coefficients.sum()),
        )

    def _observed(self, matrix: Floats) -> Floats:
        """Return the elements of the arms offered."""
        found: Floats = matrix[self._rows, self._log.arm]
        return found

    def _ratio(self, weights: Floats) -> Floats:
        return self._observed(weights) / self._observed(self._log.propensities)

    def _adaptive(self, weights: Floats) -> Floats:
        """Return weights proportional to √e, with the same totals for each arm and amount."""
        root, groups = np.sqrt(self._log.propensities).ravel(), self._groups
        total = np.bincount(groups, weights=root)
        wanted = np.bincount(groups, weights=weights.ravel())
        factor = np.divide(wanted, total, out=np.zeros_like(total), where=total > 0)
        found: Floats = (root * factor[groups]).reshape(weights.shape)
        return found

    @cached_property
    def _groups(self) -> Counts:
        """A number for each arm and amount of a decision, the same for about the same amount."""
        amounts, arms = self._log.amounts, len(self._log.arms)
        positive = amounts > 0
        steps = np.zeros(amounts.shape, np.int64)
        steps[positive] = np.floor(np.log(amounts[positive]) / math.log(STEP))
        steps = np.where(positive, steps - steps.min() + 1, 0)
        return (steps * arms + np.arange(arms)).ravel()

    def _arm_means(self, values: Floats) -> Floats:
        """Return the mean of each arm's answers, or of all answers for an arm without one."""
        arm, arms = self._log.arm[self._priced], len(self._log.arms)
        sums = np.bincount(arm, weights=values[self._priced], minlength=arms)
        counts = np.bincount(arm, minlength=arms)
        overall = sums.sum() / max(1, counts.sum())
        return np.where(counts > 0, sums / np.maximum(counts, 1), overall)


def past_means(outcome: Floats, log: Decisions, counted: Bools, start: float) -> Floats:
    """Return each arm's mean outcome in earlier decisions, shrunk by one of the overall mean.

    Errors then form a martingale although the campaign adapts to its ratings.
    """
    chosen = np.zeros((len(outcome), len(log.arms)))
    chosen[np.arange(len(outcome)), log.arm] = counted
    before = np.cumsum(chosen, axis=0) - chosen
    sums = chosen * outcome[:, None]
    sums = np.cumsum(sums, axis=0) - sums
    number = before.sum(axis=1, keepdims=True)
    overall = np.where(number > 0, sums.sum(axis=1, keepdims=True) / np.maximum(number, 1), start)
    means: Floats = (sums + overall) / (before + 1)
    return means


def too_few_ratings(given: str) -> InputError:
    """Return the error about a log without enough ratings for the policy."""
    return InputError(
        "log",
        "must have enough ratings in decisions in which the policy would offer the rated arm",
        given=given,
        todo="Evaluate more decisions, or set a larger overlap.",
    )
