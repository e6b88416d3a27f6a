"""Draws from Bernoulli and binomial distributions, in compiled code.

All of them use the probability of the generic kernel's reward, `uniform(stream) < p`.
"""

from __future__ import annotations

import math

import numpy as np

from entice.jit.decorators import compiled_internal, compiled_internal_noinline
from entice.rng import Stream, advance, get_state, set_state, uniform

WORD = 64
"""The number of rewards in one word of `draw_rewards`."""

_FEW_SUCCESSES = 10.0
"""Below this mean, a binomial variable is drawn by inversion; the other method requires it."""
_ONE, _ALL = np.uint64(1), np.uint64(2**64 - 1)


@compiled_internal_noinline
def draw_rewards(count: int, p: float, stream: Stream) -> np.uint64:
    """Draw `count` ≤ WORD rewards: the lowest bits of a word, the first reward in the lowest bit.

    A reward is 1 if a uniform number of 53 bits is below the threshold 2⁵³ p. All numbers are
    compared with it at once, from their highest bit down, one random word for each bit. A number is
    decided at its first bit that differs from the threshold's, so 64 of them take about 7 words.
    """
    if count == 1:
        return np.uint64(uniform(stream) < p)
    threshold = np.uint64(math.ceil(p * 2.0**53))
    undecided = _ALL >> np.uint64(WORD - count)
    if threshold >> np.uint64(53) != 0:  # p = 1
        return undecided
    rewards = np.uint64(0)
    state = get_state(stream)
    bit = np.uint64(53)
    while undecided != 0 and bit != 0:
        bit -= _ONE
        word, state = advance(state)
        if (threshold >> bit) & _ONE:
            rewards |= undecided & ~word
            undecided &= word
        else:
            undecided &= ~word
    set_state(stream, state)
    return rewards


@compiled_internal
def count_ones(word: np.uint64) -> int:
    """Return the number of bits that are 1."""
    word -= (word >> _ONE) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled_internal
def draw_binomial(n: int, p: float, stream: Stream) -> int:
    """Draw the number of rewards of 1 among n ≥ 1."""
    if n <= WORD:
        return count_ones(draw_rewards(n, p, stream))
    if p <= 0.5:
        return _draw_many(n, p, stream)
    return n - _draw_many(n, 1.0 - p, stream)


@compiled_internal_noinline
def _draw_many(n: int, p: float, stream: Stream) -> int:
    """Draw from Binomial(n, p) with p ≤ 1/2, by inversion or by transformed rejection.

    The rejection is algorithm BTRS of Hörmann (1993), "The generation of binomial random variates",
    Journal of Statistical Computation and Simulation 46.
    """
    if n * p < _FEW_SUCCESSES:
        odds, density = p / (1.0 - p), math.exp(n * math.log1p(-p))
        k, u = 0, uniform(stream)
        while u >= density and k < n:
            u -= density
            k += 1
            density *= odds * (n - k + 1) / k
        return k
    std = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * std
    a = -0.0873 + 0.0248 * b + 0.01 * p
    while True:
        u, v = uniform(stream) - 0.5, uniform(stream)
        s = 0.5 - abs(u)
        k = math.floor((2.0 * a / s + b) * u + n * p + 0.5)
        if s >= 0.07 and v <= 0.92 - 4.2 / b:
            return int(k)
        if 0 <= k <= n and s > 0.0:
            v *= (2.83 + 5.1 / b) * std / (a / (s * s) + b)
            if v <= math.exp(_log_density_ratio(k, n, p)):
                return int(k)


@compiled_internal
def _log_density_ratio(k: float, n: int, p: float) -> float:
    """Return the logarithm of P(k) / P(m), where m is the mode of Binomial(n, p).

    Uses Stirling's formula for k!, m!, (n − k)! and (n − m)!, arranged so that large terms do not
    cancel.
    """
    m = math.floor((n + 1) * p)
    return (
        (m + 0.5) * math.log1p((m - k) / (k + 1.0))
        + (n - m + 0.5) * math.log1p((k - m) / (n - k + 1.0))
        + (k - m) * math.log(p / (1.0 - p) * ((n - k + 1.0) / (k + 1.0)))
        + (_stirling_error(m) + _stirling_error(n - m))
        - (_stirling_error(k) + _stirling_error(n - k))
    )


def _small_errors(count: int) -> list[float]:
    return [
        math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
        for k in range(count)
    ]


_SMALL_ERRORS = np.array(_small_errors(16))


@compiled_internal
def _stirling_error(k: float) -> float:
    """Return log k! − ((k + 1/2) log(k + 1) − (k + 1) + log(2π)/2), with an error below 1e-14."""
    if k < _SMALL_ERRORS.shape[0]:
        return float(_SMALL_ERRORS[np.uint64(k)])
    x = 1.0 / (k + 1.0)
    y = x * x
    return x * (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y / 1680)))
