"""One cell of a study, checks of the paper's assumptions, and the largest possible values."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from entice.model.payment import pay_required
from entice.policies import (
    KLUCB,
    UCB,
    BetaThompson,
    EpsilonGreedy,
    EqualPayElimination,
    Policy,
    ThompsonSampling,
)
from entice.policies.elimination_blocks import GRID, leader_places
from entice.study.spec import Study
from entice.testing import CheckFailed, check_drift
from entice.theory.inputs import Floats, gaps_from
from entice.user_functions import is_placeholder
from entice.worlds.adversaries import NoAdversary
from entice.worlds.arms import Bernoulli, Gaussian
from entice.worlds.changing_arms import Arms, Changing, Wandering
from entice.worlds.drifts import ArmDrift, CustomDrift, Drift, FadingDrift
from entice.worlds.players import Players
from entice.worlds.segments import Segments


class Setting(NamedTuple):
    """A cell of a study: one policy and one drift."""

    study: Study
    policy: Policy
    drift: Drift

    @property
    def arms(self) -> int:
        """The number of arms K."""
        return len(self.study.arms.true_means())

    @property
    def gaps(self) -> Floats:
        """Δ_i of the suboptimal arms."""
        return gaps_from(None, means=self.study.arms.true_means())

    @property
    def lipschitz(self) -> float:
        """The drift's Lipschitz constant l: infinite if it does not exist, nan if unknown."""
        l = self.drift.lipschitz
        return math.nan if l is None else l


def study_settings(study: Study) -> list[Setting]:
    """Return the cells of a study, policies × drifts."""
    return [Setting(study, policy, drift) for _, _, policy, drift in study.cells()]


# Each of these functions states an assumption and yields the reasons why it is not met, if any.


def single_best_arm(setting: Setting) -> Iterator[str]:
    """Arm 1 is the unique optimum."""
    means = setting.study.arms.true_means()
    ties = int((means.max() - means <= 1e-12 * max(1.0, abs(means.max()))).sum())
    if ties > 1:
        yield f"{ties} arms share the highest mean, {means.max():g}: gaps must be positive"


def no_model_extensions(setting: Setting) -> Iterator[str]:
    """Means are fixed, all players accept and rate at once, without an adversary or a probe."""
    study = setting.study
    if isinstance(study.arms, Changing | Wandering):
        yield "the arms' means change, which the model excludes"
    if isinstance(study.arms, Segments):
        yield "visitors belong to segments, which the model excludes"
    if study.players != Players():
        yield "players may decline, or rate late or never, which the model excludes"
    if study.adversary != NoAdversary():
        yield f"{study.adversary.label} changes feedback, which the model excludes"
    if study.probe is not None:
        yield "a probe pays more than the gap"


def rewards_in_unit_interval(setting: Setting) -> Iterator[str]:
    """The model's rewards have support [0, 1]."""
    arms = setting.study.arms
    low, high = arms.support()
    if low < 0 or high > 1:
        rule = "the model has rewards in [0, 1]"
        if isinstance(arms, Gaussian):
            yield f"not claimed for Gaussian rewards: {rule}"
        else:
            yield f"not claimed for rewards from {low:g} to {high:g}: {rule}; rescale them"


def drift_satisfies_assumption_1(setting: Setting) -> Iterator[str]:
    """Assumption 1: f(0) = 0, non-decreasing, Lipschitz with a known constant."""
    label = setting.drift.label
    if math.isnan(setting.lipschitz):
        yield (
            f"the Lipschitz constant l of {label} is unknown: if you know it, declare it with "
            "CustomDrift(…, lipschitz=l)"
        )
    elif setting.drift.outside:
        yield f"{label} {setting.drift.outside} (Assumption 1)"
    yield from custom_drift_claims_hold(setting)


def custom_drift_claims_hold(setting: Setting) -> Iterator[str]:
    """A custom drift satisfies its declared properties at all points that were checked."""
    drift = setting.drift
    if not isinstance(drift, CustomDrift):
        return
    if is_placeholder(drift.function):
        yield f"{drift.label} cannot be checked: its function is not available here"
        return
    found = _counterexample(drift, setting.arms)
    if found is not None:
        yield f"Assumption 1 does not hold: {found}"


@functools.lru_cache(maxsize=256)
def _counterexample(drift: CustomDrift, arms: int) -> str | None:
    try:
        check_drift(drift, arms=arms)
    except CheckFailed as found:
        return str(found)
    return None


def drift_of_the_payment_alone(setting: Setting) -> Iterator[str]:
    """A drift is a function of the payment: the same for all arms, players and rounds.

    A custom drift is compared between arms and between rounds on a grid of payments.
    """
    drift = setting.drift
    rule = "it must depend on the payment alone"
    if isinstance(drift, CustomDrift):
        if is_placeholder(drift.function):
            yield f"{drift.label} cannot be checked: its function is not available here"
        elif (differs := _differs_between(drift, setting.arms)) is not None:
            yield f"{drift.label} differs between {differs}: {rule}"
    elif isinstance(drift, ArmDrift):
        if len(set(drift.slopes)) > 1:
            yield f"{drift.label} differs between arms: {rule}"
    elif isinstance(drift, FadingDrift):
        yield f"{drift.label} differs between the rounds of a block: {rule}"
    elif not drift.kernel().is_function_of_payment:
        yield f"{drift.label} is not a function of the payment: {rule}"


@functools.lru_cache(maxsize=256)
def _differs_between(drift: CustomDrift, arms: int) -> str | None:
    params = tuple(drift.params)
    for payment in np.linspace(0.0, 2.0, 41).tolist():
        first = drift.function(payment, 1, 0, params)
        if any(drift.function(payment, 1, arm, params) != first for arm in range(1, arms)):
            return "arms"
        if any(drift.function(payment, t, 0, params) != first for t in (2, 10, 1_000, 1_000_000)):
            return "rounds"
    return None


def each_arm_rated_first(setting: Setting) -> Iterator[str]:
    """Each arm is rated once before any payment: averages divide by the number of ratings."""
    if setting.study.cold_start != "each_arm_once":
        yield 'unrated arms display a prior: the proofs need cold_start="each_arm_once"'


def noise_parameter_is_1(setting: Setting) -> Iterator[str]:
    """Algorithms 2 and 4 have confidence widths and samples for a noise of 1."""
    policy = setting.policy
    if isinstance(policy, UCB | ThompsonSampling) and policy.noise != 1:
        yield f"proved for noise=1, the paper's algorithm, unlike {policy.label}"


def feedback_projected(setting: Setting) -> Iterator[str]:
    """Algorithm 3 projects feedback onto [0, 1]."""
    if setting.study.feedback_range != (0.0, 1.0):
        yield "the proof projects feedback: feedback_range=(0, 1)"


def projection_keeps_rewards(setting: Setting) -> Iterator[str]:
    """A projection leaves the rewards unchanged: the proofs are about their means."""
    projected = setting.study.feedback_range
    low, high = setting.study.arms.support()
    if projected is not None and (low < projected[0] or high > projected[1]):
        yield (
            f"feedback_range = ({projected[0]:g}, {projected[1]:g}) cuts off rewards, which range "
            f"from {low:g} to {high:g}"
        )


def no_drift(setting: Setting) -> Iterator[str]:
    """Lower bounds are known only for feedback without drift."""
    if setting.lipschitz != 0:
        yield "known without drift only"
    else:
        yield from custom_drift_claims_hold(setting)


def policy_is_consistent(setting: Setting) -> Iterator[str]:
    """The policy is consistent: its regret is o(T^a) for each a > 0, on every instance.

    - UCB is consistent for noise with a standard deviation of up to 1.
    - Thompson sampling with variance 1/(n+1) is consistent for bounded rewards, but not for
      Gaussian noise with a variance above 1/2: with probability T^(−n/((n+1)σ²)) the best arm's
      first n ratings are so low that it is not sampled again before T.
    - With another `noise`, the same holds for rewards divided by it.
    - KL-UCB is consistent for rewards in [0, 1] (Garivier and Cappé 2011), Beta–Thompson sampling
      for Bernoulli arms (Agrawal and Goyal 2012).
    - Equal-pay elimination is consistent if it knows the horizon and its noise is not too small
      (Theorem E2).
    - ε-greedy with a fixed c is not: on instances with small enough gaps, c is too small.
    """
    policy, arms = setting.policy, setting.study.arms
    is_gaussian = isinstance(arms, Gaussian)
    noise = sub_gaussian_parameter(arms)
    assumed = policy.noise if isinstance(policy, UCB | ThompsonSampling) else 1.0
    if isinstance(policy, UCB):
        if noise > assumed:
            yield (
                "UCB is not known to be consistent here: its confidence widths assume noise with a "
                f"standard deviation up to {assumed:g}, and that of the arms may be {noise:g}"
            )
    elif isinstance(policy, ThompsonSampling):
        if policy.scale == "std":
            yield f"{policy.label} is not consistent: it may lock onto a wrong arm permanently"
        elif is_gaussian and (noise / assumed) ** 2 > 0.5 * (1 + 1e-12):
            half = "1/2" if assumed == 1 else f"{assumed**2 / 2:g}"
            yield (
                f"{_thompson(assumed)} is not consistent for Gaussian noise with a variance above "
                f"{half}: a bad start may prevent the best arm from being sampled again"
            )
        elif noise > assumed:
            yield (
                f"{_thompson(assumed)} is not known to be consistent for rewards with a range "
                f"of {2 * noise:g}"
            )
    elif isinstance(policy, KLUCB):
        yield from rewards_in_unit_interval(setting)
    elif isinstance(policy, BetaThompson):
        if not isinstance(arms, Bernoulli):
            yield "BetaThompson is known to be consistent for Bernoulli arms only"
    elif isinstance(policy, EqualPayElimination):
        too_small = policy.estimate_noise or noise > policy.noise
        if too_small or policy.horizon != setting.study.horizon:
            yield (
                f"{policy.label} is known to be consistent if its noise is at least that of the "
                f"arms, {noise:g}, and its horizon that of the study"
            )
    elif isinstance(policy, EpsilonGreedy):
        yield "ε-greedy with a fixed c is not consistent: c is too small for small gaps"
    else:
        yield f"{policy.label} is not known to be consistent (regret o(T^a) on every instance)"


def sub_gaussian_parameter(arms: Arms) -> float:
    """Return the largest standard deviation of Gaussian arms; otherwise half the range."""
    if isinstance(arms, Gaussian):
        return float(np.max(arms.std))
    low, high = arms.support()
    return (high - low) / 2


def _thompson(noise: float) -> str:
    return "Thompson sampling" if noise == 1 else f"Thompson sampling with noise={noise:g}"


# The largest possible values, which no run can exceed.


def largest_value(metric: str, setting: Setting) -> tuple[float, str]:
    """Return the largest possible value of a metric, as far as known, and the reason."""
    study, T, K = setting.study, setting.study.horizon, setting.arms
    if metric == "regret":
        if isinstance(study.arms, Changing | Wandering | Segments):
            return T * study.arms.largest_gap(), "the largest possible gap in every round"
        return T * float(setting.gaps.max()), "the largest gap in every round"
    if metric == "compensated_pulls":
        return float(T), "a payment in every round"
    largest = _largest_payment(setting)
    if metric == "payment":
        return largest, "the width of the averages' range"
    total = (T * largest, f"{largest:g} in every round")
    if (
        isinstance(setting.policy, UCB)
        and study.cold_start == "each_arm_once"
        and not any(no_model_extensions(setting))
    ):
        # Each payment is at most noise·sqrt(2 log t / n). Sum over n, then over arms by the
        # Cauchy–Schwarz inequality.
        noise = setting.policy.noise
        cap = noise * 2 * math.sqrt(2 * K * T * math.log(T))
        factor = "2" if noise == 1 else f"{2 * noise:g}"
        total = min(total, (cap, f"{factor}·sqrt(2KT log T), UCB's largest possible total"))
    if isinstance(setting.policy, EqualPayElimination) and not any(no_model_extensions(setting)):
        total = _largest_equal_pay(setting.policy, T, K)
    if metric == "compensation":
        return total
    if metric == "arm_drift":
        l = setting.lipschitz
        return (l * total[0] if l > 0 else 0.0), "l times the largest compensation"
    raise KeyError(metric)


def _largest_equal_pay(policy: EqualPayElimination, T: int, arms: int) -> tuple[float, str]:
    """Return the largest possible compensation of equal-pay elimination, and the reason.

    A block has at most K−1+k places. The payments of a place in its first n blocks sum to at most
    4σ·sqrt(ρ n log T) (docs/explanation/equal-pay-proof.md, step 4), before rounding. Sum over
    the places by the Cauchy–Schwarz inequality.
    """
    places = arms - 1 + leader_places(arms)
    cap = 4 * policy.noise * math.sqrt(policy.rho * places * T * math.log(policy.horizon))
    why = "4σ·sqrt(ρ(K−1+k)T log T), equal-pay elimination's largest possible total"
    return cap + T * policy.noise / GRID, why


def _largest_payment(setting: Setting) -> float:
    """Return the largest possible difference of two displayed averages."""
    study = setting.study
    low, high = -math.inf, math.inf
    if study.probe is not None or _sets_prices(setting.policy):
        return math.inf
    if (
        setting.lipschitz == 0
        and study.adversary == NoAdversary()
        and not any(custom_drift_claims_hold(setting))
    ):
        low, high = study.arms.support()
    # Otherwise drift may push averages beyond the rewards' range.
    if study.feedback_range is not None:
        least, most = study.feedback_range
        low, high = min(max(low, least), most), max(min(high, most), least)
    if study.cold_start == "prior":
        low, high = min(low, study.prior), max(high, study.prior)
    return high - low


def _sets_prices(policy: Policy) -> bool:
    """Return whether a policy may pay more than the difference of displayed averages."""
    return policy.kernel(2).payment_rule is not pay_required
