"""One cell of a study as a theorem sees it, and how the paper's assumptions fare there."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from entice.functions import is_stand_in
from entice.policies import UCB, EpsilonGreedy, Policy, ThompsonSampling
from entice.specs import Study
from entice.testing import CheckFailed, check_drift
from entice.theory.inputs import Floats, gaps_from
from entice.world.arms import Gaussian
from entice.world.drift import CustomDrift, Drift


class Setting(NamedTuple):
    """A policy and a drift on the arms of a study."""

    study: Study
    policy: Policy
    drift: Drift

    @property
    def arms(self) -> int:
        """K."""
        return len(self.study.arms.true_means())

    @property
    def gaps(self) -> Floats:
        """Δ_i of the arms that are not the best one."""
        return gaps_from(None, means=self.study.arms.true_means())

    @property
    def lipschitz(self) -> float:
        """The drift's constant l: infinite if there is none, nan if nobody has said."""
        l = self.drift.lipschitz
        return math.nan if l is None else l


def settings_of(study: Study) -> list[Setting]:
    """The cells of a study, policies × drifts."""
    return [Setting(study, policy, drift) for _, _, policy, drift in study.cells()]


# Each assumption says what speaks against it, and nothing if nothing does.


def rewards_in_unit_interval(setting: Setting) -> Iterator[str]:
    """The model's rewards have support [0, 1]."""
    arms = setting.study.arms
    low, high = arms.support()
    if low < 0 or high > 1:
        what = f"from {low:g} to {high:g}"
        if isinstance(arms, Gaussian):
            yield "not claimed for Gaussian rewards: the model has rewards in [0, 1]"
        else:
            yield f"not claimed for rewards {what}: the model has rewards in [0, 1]; rescale them"


def drift_keeps_assumption_1(setting: Setting) -> Iterator[str]:
    """Assumption 1: f(0) = 0, non-decreasing, Lipschitz with a known constant."""
    drift, label = setting.drift, setting.drift.label
    if math.isnan(setting.lipschitz):
        yield (
            f"the Lipschitz constant l of {label} is unknown: "
            "if you can vouch for one, CustomDrift(…, lipschitz=l)"
        )
    elif math.isinf(setting.lipschitz):
        yield f"{label} is not Lipschitz (Assumption 1)"
    if isinstance(drift, CustomDrift):
        contradiction = _contradiction(drift, setting.arms)
        if contradiction is not None:
            yield f"Assumption 1 does not hold: {contradiction}"


@functools.lru_cache(maxsize=256)
def _contradiction(drift: CustomDrift, arms: int) -> str | None:
    if is_stand_in(drift.function):
        return f"the function of {drift.label} is not to be found here"
    try:
        check_drift(drift, arms=arms)
    except CheckFailed as found:
        return str(found)
    return None


def arms_rated_first(setting: Setting) -> Iterator[str]:
    """The averages of the model divide by the number of ratings."""
    if setting.study.cold_start != "each_arm_once":
        yield 'unrated arms display a prior: the proofs need cold_start="each_arm_once"'


def feedback_projected(setting: Setting) -> Iterator[str]:
    """Algorithm 3 projects feedback onto [0, 1]."""
    if setting.study.feedback_range != (0.0, 1.0):
        yield "the proof projects feedback: feedback_range=(0, 1)"


def without_drift(setting: Setting) -> Iterator[str]:
    """Lower bounds are known for feedback that nobody bends."""
    if setting.lipschitz != 0:
        yield "known without drift only"


def policy_is_consistent(setting: Setting) -> Iterator[str]:
    """Lower bounds hold for policies whose regret is o(T^a) for each a > 0, on every instance.

    UCB and Thompson sampling are, for noise no wider than what their widths assume. ε-greedy with
    a fixed c is not: on instances with gaps small enough, c is too small.
    """
    policy, arms = setting.policy, setting.study.arms
    if isinstance(policy, (UCB, ThompsonSampling)):
        if isinstance(policy, ThompsonSampling) and policy.scale == "std":
            yield f"{policy.label} is not consistent: it may lock onto a wrong arm for good"
        noise = float(np.max(arms.std)) if isinstance(arms, Gaussian) else None
        low, high = arms.support()
        spread = (high - low) / 2 if noise is None else noise
        if spread > 1:
            yield f"{policy.label} is consistent for noise up to a standard deviation of 1"
    elif isinstance(policy, EpsilonGreedy):
        yield "ε-greedy with a fixed c is not consistent: for small gaps c is too small"
    else:
        yield f"{policy.label} is not known to be consistent (regret o(T^a) on every instance)"


# What no run can exceed.


def largest(metric: str, setting: Setting) -> tuple[float, str]:
    """The largest value that a metric can have in any run, as far as we know, and why."""
    study, T, K = setting.study, setting.study.horizon, setting.arms
    if metric == "regret":
        return T * float(setting.gaps.max()), "the largest gap in every round"
    if metric == "compensated_pulls":
        return float(T), "a payment in every round"
    each = _widest_payment(setting)
    if metric == "payment":
        return each, "the width of the averages' range"
    total = (T * each, f"{each:g} in every round")
    if isinstance(setting.policy, UCB) and study.cold_start == "each_arm_once":
        # Each payment is at most sqrt(2 log t / n); summed up over n, then over arms by Cauchy
        # and Schwarz.
        cap = 2 * math.sqrt(2 * K * T * math.log(T))
        total = min(total, (cap, "2·sqrt(2KT log T), which UCB's payments can't exceed"))
    if metric == "compensation":
        return total
    if metric == "arm_drift":
        l = setting.lipschitz
        return (l * total[0] if l > 0 else 0.0), "l times the largest compensation"
    raise KeyError(metric)


def _widest_payment(setting: Setting) -> float:
    """How far two displayed averages can lie apart."""
    study = setting.study
    if study.feedback_range is not None:
        low, high = study.feedback_range
    elif setting.lipschitz == 0:
        low, high = study.arms.support()
    else:
        return math.inf  # drift may push averages beyond the rewards' range
    if study.cold_start == "prior":
        low, high = min(low, study.prior), max(high, study.prior)
    return high - low
