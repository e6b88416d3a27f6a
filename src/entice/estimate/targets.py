"""Target policies: the probability with which another policy offers each arm, per decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from entice.errors import InputError
from entice.estimate.decisions import Decisions, Floats
from entice.jit.decorators import compiled_noinline
from entice.jit.specialize import specialize
from entice.model.step import PLAYERS_CHOICE
from entice.policies import (
    MOSS,
    UCB,
    AlternatingThompson,
    EpsilonGreedy,
    Greedy,
    ThompsonSampling,
)
from entice.policies.propensity import DecisionInputs, propensity_function
from entice.rng import Stream

EvaluatedPolicy = UCB | MOSS | EpsilonGreedy | ThompsonSampling | AlternatingThompson
"""Policies whose choice follows from the counts and averages that the log records."""
Row = dict[str, Any]
TargetFunction = Callable[[Row], str | Mapping[str, float]]
"""A function of a row of the log: the arm to offer, or the probability of each arm."""


class Always(msgspec.Struct, frozen=True):
    """Offer one arm whenever it may be offered, and the player's own choice otherwise."""

    arm: str


class Uniform(msgspec.Struct, frozen=True):
    """Draw each arm that may be offered with the same probability."""


Target = EvaluatedPolicy | Greedy | Always | Uniform | TargetFunction


def kinds() -> dict[str, type[Any]]:
    """Return the policies that can be evaluated, by name."""
    return {str(spec.__struct_config__.tag): spec for spec in (Greedy, *get_args(EvaluatedPolicy))}


def target_probabilities(policy: Target, log: Decisions) -> Floats:
    """Return the probability of each arm in each decision.

    The policy is applied decision by decision to the histories of the log. Like every policy of a
    campaign, it chooses among the arms that may be offered.
    """
    own = _one_hot(log.own, len(log.arms))
    match policy:
        case Greedy():
            return own
        case Uniform():
            uniform: Floats = log.permitted / log.permitted.sum(axis=1, keepdims=True)
            return uniform
        case Always(arm=arm):
            if arm not in log.arms:
                rule = f"must be one of the campaign's arms: {', '.join(log.arms)}"
                raise InputError("policy: arm", rule, given=arm)
            index = log.arms.index(arm)
            always = _one_hot(np.full(len(log), index), len(log.arms))
            return np.where(log.permitted[:, [index]], always, own)
    if isinstance(policy, get_args(EvaluatedPolicy)) and _has_formula(policy):
        return _of_policy(policy, log)
    if callable(policy):
        return _of_function(policy, log)
    raise InputError(
        "policy",
        "must be one whose choices follow from the log: UCB, MOSS, EpsilonGreedy, "
        "ThompsonSampling, AlternatingThompson, Greedy, Always(arm), Uniform(), or a function of a "
        "row",
        given=policy,
        todo="Other policies have a memory that the log does not record, or pay more than the gap.",
    )


def check_support(probabilities: Floats, log: Decisions) -> None:
    """Reject a policy that offers arms which had no chance of being offered."""
    missing = (probabilities > 0) & ~log.permitted
    counts = missing.sum(axis=0)
    if counts.any():
        found = [f"{log.arms[i]} in {counts[i]:,}" for i in np.flatnonzero(counts)]
        raise InputError(
            "policy",
            "must offer only arms that had a chance of being offered",
            given=f"{', '.join(found)} of {len(log):,} decisions without such a chance",
            todo="These arms were not eligible, retired, too expensive for the limits, or awaited "
            "their first rating. Choose among the arms with a propensity above 0.",
        )


def _one_hot(arms: npt.NDArray[np.int64], count: int) -> Floats:
    matrix = np.zeros((len(arms), count))
    matrix[np.arange(len(arms)), arms] = 1.0
    return matrix


def _has_formula(policy: Any) -> bool:
    return not isinstance(policy, ThompsonSampling) or policy.scale == "variance"


def _of_policy(policy: Any, log: Decisions) -> Floats:
    """Return the probabilities of a policy, which sees what `constrained_offer` lets it see."""
    found = np.zeros_like(log.propensities)
    for arms in np.unique(log.arms_so_far).tolist():
        rows = np.flatnonzero(log.arms_so_far == arms)
        permitted = log.permitted[rows, :arms]
        means = np.where(permitted, log.averages[rows, :arms], -np.inf)
        counts = log.counts[rows, :arms]
        counts = np.where(permitted, counts, np.maximum(1.0, counts))
        rules, number, own = policy.kernel(arms), log.number[rows], log.own[rows]
        propensity = propensity_function(policy, rules, 0)
        chosen = own.copy()
        if propensity is None or isinstance(policy, AlternatingThompson):  # in even rounds
            run = _compiled_choose_arms(rules.select)
            memory, stream = np.zeros(rules.memory), np.ones(4, np.uint64)
            run(number, counts, means, memory, rules.params, stream, chosen)
            rejected = (chosen == PLAYERS_CHOICE) | ~permitted[np.arange(len(rows)), chosen % arms]
            chosen = np.where(rejected, own, chosen)
        if propensity is None:
            found[rows, chosen] = 1.0
            continue
        assert propensity.every is not None
        for i, row in enumerate(rows.tolist()):
            made = DecisionInputs(
                int(number[i]), counts[i], means[i], permitted[i], means[i], np.inf, int(own[i]),
                int(chosen[i]), np.zeros(rules.memory), int(chosen[i]),
            )  # fmt: skip
            likely = propensity.every(made)
            found[row, :arms] = likely / likely.sum()
    return found


@compiled_noinline
def choose_arms(
    select: Callable[..., int],
    number: npt.NDArray[np.int64],
    counts: Floats,
    means: Floats,
    memory: Floats,
    params: tuple[Any, ...],
    stream: Stream,
    chosen: npt.NDArray[np.int64],
) -> None:
    """Fill `chosen` with the arm that a policy without a past selects in each decision."""
    for row in range(number.shape[0]):
        for i in range(memory.shape[0]):
            memory[i] = 0.0
        chosen[row] = select(number[row], counts[row], means[row], memory, params, stream)


@lru_cache(maxsize=16)
def _compiled_choose_arms(select: Callable[..., int]) -> Callable[..., Any]:
    return specialize(choose_arms, select)


def _of_function(function: TargetFunction, log: Decisions) -> Floats:
    index = {arm: i for i, arm in enumerate(log.arms)}
    found = np.zeros((len(log), len(log.arms)))
    for i, row in enumerate(log.rows.iter_rows(named=True)):
        given = function(row)
        chosen = {given: 1.0} if isinstance(given, str) else dict(given)
        unknown = [arm for arm in chosen if arm not in index]
        if unknown:
            rule = f"must return arms of the campaign: {', '.join(log.arms)}"
            raise InputError("policy", rule, given=unknown[0])
        if min(chosen.values(), default=-1) < 0 or abs(sum(chosen.values()) - 1) > 1e-6:
            rule = "must return an arm, or probabilities that are not negative and add up to 1"
            raise InputError("policy", rule, given=given)
        for arm, likely in chosen.items():
            found[i, index[arm]] = likely
    return found
