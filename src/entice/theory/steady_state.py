"""The steady state of displayed gaps under a linear drift, and a prediction for UCB.

This is our own derivation. Consider an arm that is Δ worse than the best one and paid for at each
pull. If it displays a gap d, its next rating is, on average, its mean plus l·d. With n ratings so
far, the gap becomes

    d' = d + (Δ − (1+l) d) / (n+1),

which converges to d = Δ/(1+l); the distance shrinks like n^−(1+l). Each pull then costs Δ/(1+l) and
loses Δ: **regret ≈ (1+l) × compensation** on such arms. UCB pulls an arm as long as its confidence
width covers the gap, which determines the number of pulls n_i:
sqrt(2 log T)(1/sqrt(n_i) − 1/sqrt(n_1)) = Δ_i/(1+l). This is not a bound: it replaces random values
by their expectations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from entice.checks import as_number
from entice.errors import InputError
from entice.theory.inputs import Floats, Numbers, gaps_from, rounds_from, slope


class Prediction(NamedTuple):
    """Predicted values after T rounds, as arrays with the shape of T."""

    regret: Floats
    compensation: Floats
    pulls: Floats
    """The pulls of the suboptimal arms, with one more axis."""


def steady_state_gap(
    *, l: float, gaps: Numbers | None = None, means: Numbers | None = None
) -> Floats:
    """Return the steady state of the displayed gaps of paid arms: Δ_i/(1+l).

    >>> from entice.theory import steady_state
    >>> steady_state.steady_state_gap(gaps=[0.2, 0.4], l=1.0)
    array([0.1, 0.2])
    """
    return gaps_from(gaps, means) / (1 + slope(l))


def displayed_gaps(pulls: int, *, gap: float, l: float, start: float) -> Floats:
    """Return an arm's expected displayed gap over `pulls` paid pulls, from its first rating on.

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
    """Predict UCB's regret and compensation from steady-state gaps.

    >>> from entice.theory import steady_state
    >>> expected = steady_state.ucb(20_000, means=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    >>> round(float(expected.regret))  # simulated: 384 ± 5
    394
    """
    rounds, gap = rounds_from(T), gaps_from(gaps, means)
    shown = steady_state_gap(gaps=gap, l=l)
    scaled = shown / np.sqrt(2 * np.log(rounds))[..., None]
    # Find the best arm's pulls by bisection: the pulls of all arms must sum to T, and those of the
    # other arms increase with the best arm's.
    low, high = np.zeros_like(rounds), rounds.copy()
    for _ in range(100):
        middle = (low + high) / 2
        total = middle + _pulls(scaled, middle).sum(axis=-1)
        low, high = np.where(total < rounds, middle, low), np.where(total < rounds, high, middle)
    pulls = _pulls(scaled, high)
    return Prediction(
        regret=np.asarray((pulls * gap).sum(axis=-1))[()],
        compensation=np.asarray((pulls * shown).sum(axis=-1))[()],
        pulls=pulls,
    )


def _pulls(scaled_gaps: Floats, best_arm_pulls: Floats) -> Floats:
    return np.asarray((scaled_gaps + 1 / np.sqrt(best_arm_pulls)[..., None]) ** -2)
