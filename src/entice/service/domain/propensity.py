"""Propensities: the probabilities of decisions, needed for off-policy estimates."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled_noinline
from entice.jit.specialize import specialize
from entice.model.step import PLAYERS_CHOICE, TRIES
from entice.policies import (
    UCB,
    AlternatingThompson,
    EpsilonGreedy,
    Greedy,
    RoundRobinEpsilonGreedy,
    ThompsonSampling,
)
from entice.policies.policy import PolicyKernel
from entice.rng import seed_stream
from entice.service.domain.spec import ServedPolicy

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DRAWS = 200
"""The number of repetitions from which a propensity is estimated if there is no formula."""
REDRAW = 4
"""The purpose number of the random stream for repetitions (those in `rng.py` are 0 to 3)."""
_SHARPEST = 8
"""The number of rivals whose factors determine the pieces of `probability_of_highest`."""
_AT, _WEIGHT = np.polynomial.legendre.leggauss(16)

Propensity = Callable[[int, Counts, Floats, Bools, int, int, Floats], tuple[float, bool]]
"""A function of the round, the counts, the means, the permitted arms, the player's own choice, the
arm chosen, and the policy's memory before the decision. Returns the probability, and whether it is
an estimate."""


def propensity_function(
    policy: ServedPolicy, rules: PolicyKernel, seed: int, counts: np.dtype[Any]
) -> Propensity | None:
    """Return the function that computes a policy's propensities; None if it is deterministic.

    `counts` is the type of the policy's pull counts.
    """
    match policy:
        case UCB() | Greedy():
            return None
        case EpsilonGreedy(c=c):
            return lambda t, counts, means, permitted, greedy, arm, memory: (
                _epsilon_greedy(min(1.0, c * len(means) / t), permitted, arm == greedy),
                False,
            )
        case RoundRobinEpsilonGreedy(c=c):
            return lambda t, counts, means, permitted, greedy, arm, memory: (
                _round_robin(min(1.0, c * len(means) / t), int(memory[0]), permitted, arm, greedy),
                False,
            )
        case ThompsonSampling(scale="variance", noise=noise):
            run, ends = _compiled_probability_of_highest(counts), np.empty(2 + 3 * _SHARPEST)
            return lambda t, counts, means, permitted, greedy, arm, memory: (
                float(run(means, counts, permitted, arm, noise, ends)),
                False,
            )
        case AlternatingThompson():
            run, ends = _compiled_probability_of_highest(counts), np.empty(2 + 3 * _SHARPEST)
            return lambda t, counts, means, permitted, greedy, arm, memory: (
                1.0 if t % 2 == 0 else run(means, counts, permitted, arm, 1.0, ends),
                False,
            )
        case _:
            return _estimate_by_redrawing(rules, seed, counts)


def _epsilon_greedy(explores: float, permitted: Bools, own_choice: bool) -> float:
    """Return the propensity of ε-greedy, which redraws if an arm is not permitted."""
    arms, some = len(permitted), int(np.count_nonzero(permitted))
    again = explores * (arms - some) / arms
    exhausted = again**TRIES if some < arms else 0.0
    tries = (1.0 - exhausted) / (1.0 - again)
    at_once = explores / arms + (1.0 - explores) * own_choice
    return min(1.0, float(at_once * tries + exhausted * own_choice))


def _round_robin(explores: float, turn: int, permitted: Bools, arm: int, greedy: int) -> float:
    """Return the propensity of round-robin ε-greedy, which skips an arm that is not permitted."""
    order = [*range(turn, len(permitted)), *range(turn)]
    passed, first = next((d, i) for d, i in enumerate(order) if permitted[i])
    reached = explores ** (passed + 1) if passed < TRIES else 0.0
    return float(reached * (arm == first) + (1.0 - reached) * (arm == greedy))


@compiled_noinline
def probability_of_highest(
    means: Floats, counts: Counts, permitted: Bools, arm: int, noise: float, ends: Floats
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


@lru_cache(maxsize=4)
def _compiled_probability_of_highest(counts: np.dtype[Any]) -> Callable[..., Any]:
    return specialize(probability_of_highest)  # caches the machine code for the next process


@compiled_noinline
def count_repeats(
    select: Callable[..., int],
    t: int,
    counts: Counts,
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
def _compiled_count_repeats(
    select: Callable[..., int], counts: np.dtype[Any]
) -> Callable[..., Any]:
    return specialize(count_repeats, select)


def _estimate_by_redrawing(rules: PolicyKernel, seed: int, counts: np.dtype[Any]) -> Propensity:
    run = _compiled_count_repeats(rules.select, counts)
    stream = np.zeros(4, dtype=np.uint64)

    def estimated(
        t: int, counts: Counts, means: Floats, permitted: Bools, greedy: int, arm: int,
        memory: Floats,
    ) -> tuple[float, bool]:  # fmt: skip
        same = run(
            t, counts, means, memory, rules.params, permitted, greedy, arm, seed,
            np.empty_like(memory), stream,
        )  # fmt: skip
        # The decision itself counts as one more repetition, so the estimate is never 0.
        return (same + 1) / (DRAWS + 1), True

    return estimated
