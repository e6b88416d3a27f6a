"""Off-policy evaluation: what another policy would have achieved, from a campaign's log.

`off_policy_methods` has the formulas of the estimates and their intervals.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import polars as pl

from entice.errors import InputError
from entice.estimate.decisions import Decisions, Floats, read_decisions
from entice.estimate.interval import Estimate, check_level
from entice.estimate.off_policy_methods import DOUBLY_ROBUST, FEW, Methods
from entice.estimate.probe import probe_slope
from entice.estimate.ratings import Rounds
from entice.estimate.targets import Target, check_support, target_probabilities

UNSEEN = 0.01
"""The share of the policy's choices that may be of arms without a rating in the log."""


class PolicyEstimate(NamedTuple):
    """An estimate of a policy's rating or payment, with its interval."""

    value: float
    low: float
    high: float
    stderr: float
    effective: float
    """The effective number of observations: as many equally weighted ones would be as precise."""


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
    slope = probe_slope(log, level=level) if without_drift else None
    return evaluate_decisions(decisions, target, level, slope)


def evaluate_decisions(
    decisions: Decisions, target: Floats, level: float, slope: Estimate | None = None
) -> Evaluation:
    """Estimate what a policy with these probabilities of arms would have achieved."""
    unseen = _check_observed(target, decisions)
    rated, stars = decisions.rated.astype(np.float64), decisions.stars
    rating = decisions.rating - (slope.slope * stars if slope is not None else 0.0)
    methods, z = Methods(target, decisions), NormalDist().inv_cdf((1 + level) / 2)
    extra = {}
    if slope is not None:
        paid = methods.ratings(rated * stars, rated)
        extra = {name: slope.stderr * found.value for name, found in paid.items()}
    ratings = {
        name: PolicyEstimate(found.value, *found.interval(z, extra.get(name, 0.0)), found.effective)
        for name, found in methods.ratings(rated * rating, rated).items()
    }
    payments = {
        name: PolicyEstimate(found.value, *found.interval(z), found.effective)
        for name, found in methods.payments().items()
    }
    few, pays = [], bool((target * decisions.amounts).any())
    if (effective := ratings[DOUBLY_ROBUST].effective) < FEW:
        few.append(f"the rating is based on only {effective:.0f} effective ratings")
    if pays and (effective := payments[DOUBLY_ROBUST].effective) < FEW:
        few.append(
            f"the payment is based on only {effective:.0f} effective answers to paid offers: its "
            "interval is all that is possible"
        )
    drift = (f"the drift: {slope.warning}",) if slope is not None and slope.warning else ()
    return Evaluation(
        ratings,
        payments,
        decisions.currency,
        float(rating[decisions.rated].mean()),
        float(decisions.paid.mean()),
        len(decisions),
        int(rated.sum()),
        decisions.left_out,
        slope,
        (*few, *unseen, *drift),
    )


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
