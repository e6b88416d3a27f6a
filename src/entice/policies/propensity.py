"""Propensities: the probabilities of decisions, needed for off-policy estimates."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from entice.errors import InputError
from entice.jit.decorators import compiled_noinline
from entice.jit.specialize import specialize
from entice.model.step import NO_MONEY, PLAYERS_CHOICE, ROUNDING, TRIES
from entice.policies import (
    MOSS,
    UCB,
    AlternatingThompson,
    DiscountedUCB,
    EpsilonGreedy,
    EqualPay,
    EqualPayElimination,
    Greedy,
    RoundRobinEpsilonGreedy,
    SlidingWindowUCB,
    ThompsonSampling,
)
from entice.policies.elimination_blocks import fill_probabilities
from entice.policies.policy import PolicyKernel, PolicySpec
from entice.rng import REDRAW, seed_stream

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

DETERMINISTIC = UCB | Greedy | MOSS | EqualPay | DiscountedUCB | SlidingWindowUCB
"""Policies that draw nothing: the arm that they choose has the propensity 1."""
MAX_ARMS_TO_INTEGRATE = 100
"""The most arms of a campaign with overlap if propensities are integrals. Those of all arms are
computed for each decision, which took 0.8 ms for 100 arms and 6 ms for 1,000."""
DRAWS = 200
"""The number of repetitions from which a propensity is estimated if there is no formula."""
_SHARPEST = 8
"""The number of rivals whose factors determine the pieces of `probability_of_highest`."""
_ALL_ARMS = -1
"""The arm for which `probabilities_of_highest` fills in all arms."""
_ANY_OTHER = -1
"""The arm for which a formula returns the propensity of all arms that it does not distinguish."""
_REACH = 7.0
"""Draws further from an arm's mean, in standard deviations, are left out of integrals over all
arms: they have a probability of 1.3e-12 on each side."""
_PIECE = 3.0
"""The length of a piece of these integrals, in standard deviations of the arm with the smallest."""
_AT, _WEIGHT = np.polynomial.legendre.leggauss(16)


class DecisionInputs(NamedTuple):
    """A decision and its inputs."""

    t: int
    counts: Floats
    """The counts and averages that the policy saw."""
    means: Floats
    permitted: Bools
    shown: Floats
    max_payment: float
    greedy: int
    """The arm that the player chooses of those that tie for the best."""
    arm: int
    """The arm chosen."""
    memory: Floats
    """The policy's memory before the decision."""
    chosen: int
    """The arm that the policy chose, if `arm` is replaced to ask for another arm's propensity."""


class Propensity(NamedTuple):
    """A policy's probability of a decision's arm, and whether it is an estimate."""

    one: Callable[[DecisionInputs], float]
    every: Callable[[DecisionInputs], Floats] | None = None
    """The probability of each arm, 0 for those that are not permitted; None if there is no quick
    way to compute it."""
    estimated: bool = False

    def __call__(self, made: DecisionInputs) -> tuple[float, bool]:
        """Return the probability, and whether it is an estimate."""
        return self.one(made), self.estimated


def propensity_function(policy: PolicySpec, rules: PolicyKernel, seed: int) -> Propensity | None:
    """Return the function that computes a policy's propensities; None if it is deterministic."""
    if isinstance(policy, DETERMINISTIC):
        return None
    match policy:
        case EpsilonGreedy(c=c):
            return _by_formula(lambda made: _epsilon_greedy(c, made), lambda made: (made.greedy,))
        case RoundRobinEpsilonGreedy(c=c):
            return _by_formula(
                lambda made: _round_robin(c, made),
                lambda made: (made.greedy, _next_in_turn(made)[1]),
            )
        case ThompsonSampling(scale="variance", noise=noise):
            return _by_integration(noise)
        case AlternatingThompson():
            drawn = _by_integration(1.0)
            chosen = _by_formula(
                lambda made: float(made.arm == made.chosen), lambda made: (made.chosen,)
            )
            assert drawn.every is not None
            assert chosen.every is not None
            odd, even = drawn.every, chosen.every
            return Propensity(
                lambda made: chosen.one(made) if made.t % 2 == 0 else drawn.one(made),
                lambda made: even(made) if made.t % 2 == 0 else odd(made),
            )
        case EqualPayElimination():
            return Propensity(lambda made: _elimination(rules, made))
        case _:
            return _estimate_by_redrawing(rules, seed)


def check_overlap(where: str, share: float, policy: PolicySpec, arms: int) -> None:
    """Reject overlap together with a policy that it breaks, or whose propensities are estimates."""
    if share == 0:
        return
    if policy.equal_pay:
        rule = f"can't be used with {policy.label}, which compares ratings under equal payments"
        todo = "A drawn arm is paid its own gap. Remove the overlap, or choose another policy."
        raise InputError(where, rule, given=share, todo=todo)
    integrated = isinstance(policy, AlternatingThompson) or (
        isinstance(policy, ThompsonSampling) and policy.scale == "variance"
    )
    formula = isinstance(policy, EpsilonGreedy | RoundRobinEpsilonGreedy)
    if not (integrated or formula or isinstance(policy, DETERMINISTIC)):
        rule = f"can't be used with {policy.label}, whose propensities are not known exactly"
        todo = "Choose UCB, Thompson sampling, ε-greedy, MOSS or Greedy."
        raise InputError(where, rule, given=share, todo=todo)
    if integrated and arms > MAX_ARMS_TO_INTEGRATE:
        rule = f"can't be used with {policy.label} and more than {MAX_ARMS_TO_INTEGRATE} arms"
        todo = "The propensities of so many arms take too long. Choose UCB or ε-greedy."
        raise InputError(where, rule, given=f"{share:g} and {arms} arms", todo=todo)


def mixture_propensities(
    propensity: Propensity | None, made: DecisionInputs, share: float
) -> tuple[float, ...]:
    """Return the propensity of each arm if a share of the arms is drawn from those permitted.

    `made.arm` and `made.chosen` are the arm that the policy chose. An arm that is not permitted has
    the propensity 0.
    """
    likely = (np.arange(len(made.permitted)) == made.chosen).astype(np.float64)
    if propensity is not None:
        assert propensity.every is not None, "see `check_overlap`"
        likely = propensity.every(made)
    drawn = made.permitted / np.count_nonzero(made.permitted)
    # Integrals add up to 1 only approximately.
    mixture = share * drawn + (1 - share) * likely / likely.sum()
    found = mixture.tolist()
    rounded = {likely: round_propensity(likely) for likely in set(found)}  # often only two or three
    return tuple(rounded[likely] for likely in found)


def round_propensity(likely: float) -> float:
    """Round to 9 digits: later ones differ between machines."""
    return float(f"{likely:.9g}")


def _epsilon_greedy(c: float, made: DecisionInputs) -> float:
    """Return the propensity of ε-greedy, which redraws if an arm is not permitted."""
    arms, some = len(made.permitted), int(np.count_nonzero(made.permitted))
    explores, own_choice = min(1.0, c * arms / made.t), made.arm == made.greedy
    again = explores * (arms - some) / arms
    exhausted = again**TRIES if some < arms else 0.0
    tries = (1.0 - exhausted) / (1.0 - again)
    at_once = explores / arms + (1.0 - explores) * own_choice
    return min(1.0, float(at_once * tries + exhausted * own_choice))


def _round_robin(c: float, made: DecisionInputs) -> float:
    """Return the propensity of round-robin ε-greedy, which skips an arm that is not permitted."""
    explores = min(1.0, c * len(made.permitted) / made.t)
    passed, first = _next_in_turn(made)
    reached = explores ** (passed + 1) if passed < TRIES else 0.0
    return float(reached * (made.arm == first) + (1.0 - reached) * (made.arm == made.greedy))


def _next_in_turn(made: DecisionInputs) -> tuple[int, int]:
    """Return how many arms are skipped in turn, and the permitted arm that follows them."""
    turn = int(made.memory[0])
    passed = int(np.argmax(np.roll(made.permitted, -turn)))
    return passed, (turn + passed) % len(made.permitted)


def _by_formula(
    formula: Callable[[DecisionInputs], float],
    special: Callable[[DecisionInputs], tuple[int, ...]],
) -> Propensity:
    """Return the propensities by a formula that is the same for all arms that are not special."""

    def every(made: DecisionInputs) -> Floats:
        found = np.where(made.permitted, formula(made._replace(arm=_ANY_OTHER)), 0.0)
        for arm in special(made):
            if made.permitted[arm]:
                found[arm] = formula(made._replace(arm=arm))
        return found

    return Propensity(formula, every)


def _by_integration(noise: float) -> Propensity:
    """Return the propensities of draws from N(m_i, noise²/(n_i + 1)), the highest of which wins."""
    ends, unused = np.empty(2 + 3 * _SHARPEST), np.empty(0)

    def one(made: DecisionInputs) -> float:
        inputs = made.means, made.counts, made.permitted
        return float(probabilities_of_highest(*inputs, made.arm, noise, ends, unused))

    def every(made: DecisionInputs) -> Floats:
        found = np.empty(len(made.permitted))
        inputs = made.means, made.counts, made.permitted
        probabilities_of_highest(*inputs, _ALL_ARMS, noise, ends, found)
        return found

    return Propensity(one, every)


def _elimination(rules: PolicyKernel, made: DecisionInputs) -> float:
    """Return the propensity of equal-pay elimination.

    An arm for which the block's payment is too low or exceeds the limit is replaced by the player's
    own choice, as in `constrained_offer`.
    """
    chosen, memory = np.empty_like(made.means), made.memory.copy()
    params: Any = rules.params
    memory[rules.limit_slot] = max(made.max_payment, NO_MONEY)
    payment = fill_probabilities(made.t, made.means, memory, params, chosen)
    required = made.shown[made.greedy] - made.shown
    offered = required <= 0.0
    if payment <= made.max_payment:
        offered |= payment >= required * (1.0 - ROUNDING)
    likely = chosen[made.arm] if offered[made.arm] else 0.0
    if made.arm == made.greedy:
        likely += max(0.0, 1.0 - chosen[offered].sum())
    return float(likely)


@compiled_noinline
def probability_of_highest(
    means: Floats, counts: Floats, permitted: Bools, arm: int, noise: float, ends: Floats
) -> float:
    """Return the probability that an arm's draw from N(m_i, noise²/(n_i + 1)) is the highest.

    Integrates φ(z) Π_j Φ((m_i + s_i z − m_j) / s_j) by Gauss–Legendre quadrature, on pieces that
    end where the factors of the strongest rivals rise from 0 to 1. `ends` is a buffer for those
    points.
    """
    arms = means.shape[0]
    spread = noise / math.sqrt(counts[arm] + 1.0)
    ends[0], ends[1], pieces = -7.0, 7.0, 2
    floor = np.inf
    for _ in range(_SHARPEST):  # the rivals with the highest averages, in descending order
        best, at = -np.inf, -1
        for j in range(arms):
            if j != arm and permitted[j] and best < means[j] < floor:
                best, at = means[j], j
        if at < 0:
            break
        floor = best
        width = 3.0 * noise / math.sqrt(counts[at] + 1.0)
        for shift in (-width, 0.0, width):
            end = (best + shift - means[arm]) / spread
            if -7.0 < end < 7.0:
                ends[pieces] = end
                pieces += 1
    for i in range(1, pieces):
        end, j = ends[i], i
        while j > 0 and ends[j - 1] > end:
            ends[j] = ends[j - 1]
            j -= 1
        ends[j] = end
    total = 0.0
    for piece in range(pieces - 1):
        half = 0.5 * (ends[piece + 1] - ends[piece])
        if half <= 0.0:
            continue
        middle = 0.5 * (ends[piece + 1] + ends[piece])
        for k in range(_AT.shape[0]):
            z = middle + half * _AT[k]
            density = _WEIGHT[k] * half * math.exp(-0.5 * z * z)
            for j in range(arms):
                if j != arm and permitted[j]:
                    ahead = means[arm] + spread * z - means[j]
                    above = ahead * math.sqrt(counts[j] + 1.0) / noise
                    density *= 0.5 * math.erfc(-above / math.sqrt(2.0))
                    if density < 1e-18:
                        break
            total += density
    return float(min(1.0, total / math.sqrt(2.0 * math.pi)))


@compiled_noinline
def fill_probabilities_of_highest(
    means: Floats, counts: Floats, permitted: Bools, noise: float, found: Floats
) -> None:
    """Fill `found` with the probability of each permitted arm that its draw is the highest.

    Integrates f_i(x) Π_{j≠i} F_j(x) for all arms on the same points, where f and F are the density
    and the distribution function of N(m_i, noise²/(n_i + 1)). The highest draw is above `start`, a
    point at most `_REACH` standard deviations below the mean of each arm. So every arm has a
    positive F to divide the product by, and an arm whose draws end above x has a standard deviation
    of at least (x − start) / (2 `_REACH`): pieces become longer, and there are few, about 15 if
    counts differ by a factor of a million. The error is below 1e-10 for 100 arms.
    """
    arms = means.shape[0]
    start, stop = -np.inf, -np.inf
    for j in range(arms):
        found[j] = 0.0
        if permitted[j]:
            reach = _REACH * noise / math.sqrt(counts[j] + 1.0)
            start, stop = max(start, means[j] - reach), max(stop, means[j] + reach)
    while start < stop:
        spread = np.inf
        for j in range(arms):
            own = noise / math.sqrt(counts[j] + 1.0)
            if permitted[j] and means[j] + _REACH * own > start:
                spread = min(spread, own)
        end = min(stop, start + _PIECE * spread)
        half = 0.5 * (end - start)
        for k in range(_AT.shape[0]):
            x = start + half * (1.0 + _AT[k])
            all_below = _WEIGHT[k] * half
            for j in range(arms):
                if permitted[j] and all_below >= 1e-18:
                    z = (x - means[j]) * math.sqrt(counts[j] + 1.0) / noise
                    if z < _REACH:
                        all_below *= 0.5 * math.erfc(-z / math.sqrt(2.0))
            if all_below < 1e-18:
                continue
            for j in range(arms):
                if permitted[j]:
                    precision = math.sqrt(counts[j] + 1.0) / noise
                    z = (x - means[j]) * precision
                    if z < _REACH:
                        density = precision * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
                        below = 0.5 * math.erfc(-z / math.sqrt(2.0))
                        found[j] += all_below * density / below
        start = end


@compiled_noinline
def probabilities_of_highest(
    means: Floats, counts: Floats, permitted: Bools, arm: int, noise: float, ends: Floats,
    found: Floats,
) -> float:  # fmt: skip
    """Return the probability of one arm, or fill `found` with those of all arms.

    They are one entry point, so that all is compiled before the first request.
    """
    if arm != _ALL_ARMS:
        return probability_of_highest(means, counts, permitted, arm, noise, ends)
    fill_probabilities_of_highest(means, counts, permitted, noise, found)
    return 1.0


@compiled_noinline
def count_repeats(
    select: Callable[..., int],
    t: int,
    counts: Floats,
    means: Floats,
    memory: Floats,
    params: tuple[Any, ...],
    permitted: Bools,
    greedy: int,
    arm: int,
    seed: int,
    trial_memory: Floats,
    stream: npt.NDArray[np.uint64],
) -> int:
    """Repeat a decision with other random numbers; return how often it selects the same arm."""
    same = 0
    for k in range(DRAWS):
        seed_stream(stream, seed, t * DRAWS + k, REDRAW)
        for i in range(memory.shape[0]):
            trial_memory[i] = memory[i]
        wanted = PLAYERS_CHOICE
        for _ in range(TRIES):
            wanted = select(t, counts, means, trial_memory, params, stream)
            if wanted == PLAYERS_CHOICE or permitted[wanted]:
                break
            wanted = PLAYERS_CHOICE
        same += (greedy if wanted == PLAYERS_CHOICE else wanted) == arm
    return same


@lru_cache(maxsize=16)
def _compiled_count_repeats(select: Callable[..., int]) -> Callable[..., Any]:
    return specialize(count_repeats, select)


def _estimate_by_redrawing(rules: PolicyKernel, seed: int) -> Propensity:
    run = _compiled_count_repeats(rules.select)
    stream = np.zeros(4, dtype=np.uint64)

    def share_of_repeats(made: DecisionInputs) -> float:
        same = run(
            made.t, made.counts, made.means, made.memory, rules.params, made.permitted,
            made.greedy, made.arm, seed, np.empty_like(made.memory), stream,
        )  # fmt: skip
        # The decision itself counts as one more repetition, so the estimate is never 0.
        return float((same + 1) / (DRAWS + 1))

    return Propensity(share_of_repeats, estimated=True)
