"""Where displayed gaps settle under a linear drift, and what that makes of UCB (our derivation).

An arm that is Δ worse than the best, and paid for at each pull, displays a gap d. Its next rating
is, on average, its mean plus l·d, so with n ratings so far

    d' = d + (Δ − (1+l) d) / (n+1),

which comes to rest at d = Δ/(1+l), the distance shrinking like n^−(1+l). Each pull then costs
Δ/(1+l) and loses Δ: **regret ≈ (1+l) × compensation** on such arms. UCB pulls an arm for as long as
its width covers the gap, sqrt(2 log T)(1/sqrt(n_i) − 1/sqrt(n_1)) = Δ_i/(1+l), which says how
often. None of it is a bound: expected values stand for random ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from entice.checks import as_number
from entice.errors import InputError
from entice.theory.inputs import Floats, Numbers, gaps_from, rounds_from, slope


class Prediction(NamedTuple):
    """What to expect after T rounds; arrays have the shape of T, `pulls` one more axis for arms."""

    regret: Floats
    compensation: Floats
    pulls: Floats
    """Of the arms that are not the best one."""


def steady_state_gap(
    *, l: float, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Where the displayed gaps of arms that are paid for come to rest: Δ_i/(1+l).

    >>> from entice.theory import steady_state
    >>> steady_state.steady_state_gap(gaps=[0.2, 0.4], l=1.0)
    array([0.1, 0.2])
    """
    return gaps_from(gaps, means) / (1 + slope(l))


def displayed_gaps(pulls: int, *, gap: float, l: float, start: float) -> Floats:
    """Follow an arm's expected displayed gap from one rating on, for so many paid pulls.

    >>> from entice.theory import steady_state
    >>> path = steady_state.displayed_gaps(1000, gap=0.3, l=2.0, start=0.9)
    >>> round(float(path[0]), 3), round(float(path[-1]), 3)
    (0.9, 0.1)
    """
    if pulls < 1:
        raise InputError("pulls", "must be at least 1", given=pulls)
    delta, l = float(gaps_from([gap], None)[0]), slope(l)
    path = np.empty(pulls)
    path[0] = as_number("start", start)
    for n in range(1, pulls):
        path[n] = path[n - 1] + (delta - (1 + l) * path[n - 1]) / (n + 1)
    return path


def ucb(
    T: Any, *, l: float = 0.0, gaps: Numbers | None = None, means: Numbers | None = None
) -> Prediction:
    """Predict UCB's regret and compensation from settled gaps.

    >>> from entice.theory import steady_state
    >>> expected = steady_state.ucb(20_000, means=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    >>> round(float(expected.regret))  # simulated: 384 ± 5
    394
    """
    rounds, gap = rounds_from(T), gaps_from(gaps, means)
    shown = steady_state_gap(gaps=gap, l=l)
    reach = shown / np.sqrt(2 * np.log(rounds))[..., None]
    # The best arm gets what the others leave; what they take grows with it, so bisection finds it.
    low, high = np.zeros_like(rounds), rounds.copy()
    for _ in range(100):
        middle = (low + high) / 2
        total = middle + _taken(reach, middle).sum(axis=-1)
        low, high = np.where(total < rounds, middle, low), np.where(total < rounds, high, middle)
    pulls = _taken(reach, high)
    return Prediction(
        regret=np.asarray((pulls * gap).sum(axis=-1))[()],
        compensation=np.asarray((pulls * shown).sum(axis=-1))[()],
        pulls=pulls,
    )


def _taken(reach: Floats, best: Floats) -> Floats:
    return np.asarray((reach + 1 / np.sqrt(best)[..., None]) ** -2)
