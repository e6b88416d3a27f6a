"""The ledger: counts and averages of ratings, and the arm that a myopic player would pick."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from entice.jit.decorators import compiled, compiled_noinline
from entice.jit.likely import likely


class Ledger(NamedTuple):
    """The counts and averages that the principal and the players see."""

    pulls: npt.NDArray[np.int64]
    """n_i: the number of ratings of each arm."""
    sums: npt.NDArray[np.float64]
    """S_i: the sum of each arm's feedback, drift included."""
    means: npt.NDArray[np.float64]
    """m_i = S_i / n_i, or the prior while n_i = 0: the displayed average."""
    greedy: npt.NDArray[np.int64]
    """One element: argmax of `means`, ties to the lowest index. `record` keeps it up to date."""
    rival: npt.NDArray[np.float64]
    """One element: an upper bound on the means of all arms but the greedy one."""


def new_ledger(arms: int, prior: float) -> Ledger:
    """Return a ledger without ratings, in which each arm displays the prior."""
    # Not by `clear`, which would have to be compiled for calls from Python.
    pulls, greedy = np.zeros(arms, np.int64), np.zeros(1, np.int64)
    return Ledger(
        pulls, np.zeros(arms), np.full(arms, float(prior)), greedy, np.full(1, float(prior))
    )


@compiled
def clear(ledger: Ledger, prior: float) -> None:
    """Remove all ratings."""
    ledger.pulls[:] = 0
    ledger.sums[:] = 0.0
    ledger.means[:] = prior
    ledger.greedy[0] = 0
    ledger.rival[0] = prior


@compiled
def record(ledger: Ledger, arm: int, feedback: float) -> None:
    """Record one rating (line 11 of Algorithm 1).

    The greedy arm changes only if the rated arm overtakes it, or if the greedy arm itself is rated
    and falls behind. In most rounds a comparison with `rival` rules out both without a search.
    """
    pulls = ledger.pulls[arm] + 1
    total = ledger.sums[arm] + feedback
    mean = total / pulls
    ledger.pulls[arm] = pulls
    ledger.sums[arm] = total
    ledger.means[arm] = mean
    greedy = ledger.greedy[0]
    if arm == greedy:
        if not likely(mean > ledger.rival[0]):
            find_greedy(ledger)
    elif mean >= ledger.rival[0]:
        if mean > ledger.means[greedy] or (mean == ledger.means[greedy] and arm < greedy):
            find_greedy(ledger)
        else:
            ledger.rival[0] = mean


@compiled
def set_arm_ratings(ledger: Ledger, arm: int, pulls: int, total: float, mean: float) -> None:
    """Replace an arm's ratings: some may have been revised or reversed.

    The caller computes the mean, because it may know the sum exactly; without ratings the mean is
    the prior.
    """
    ledger.pulls[arm] = pulls
    ledger.sums[arm] = total
    ledger.means[arm] = mean
    find_greedy(ledger)


@compiled
def is_consistent(ledger: Ledger, prior: float, ratings: int) -> bool:
    """Check that counts and averages agree with the sums and with the number of ratings.

    Policies receive the arrays themselves, and a user's policy may write to them by mistake.
    """
    total = 0
    for i in range(ledger.pulls.shape[0]):
        total += ledger.pulls[i]
        mean = ledger.sums[i] / ledger.pulls[i] if ledger.pulls[i] > 0 else prior
        if ledger.means[i] != mean:
            return False
    return total == ratings


@compiled_noinline
def find_greedy(ledger: Ledger) -> None:
    """Search all averages for the greedy arm and for the best of the others."""
    greedy = argmax(ledger.means)
    rival = -np.inf
    for i in range(ledger.means.shape[0]):
        if i != greedy:
            rival = max(rival, ledger.means[i])
    ledger.greedy[0] = greedy
    ledger.rival[0] = rival


@compiled
def argmax(values: npt.NDArray[np.float64]) -> int:
    """Return the position of the highest value, ties to the lowest index."""
    best = 0
    for i in range(1, values.shape[0]):
        if values[i] > values[best]:
            best = i
    return best
