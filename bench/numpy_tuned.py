"""The paper's study in optimised NumPy, a reference for compiled simulators.

Liu, Wang, Shen, Liu, Chen, *Incentivized Exploration for Multi-Armed Bandits under Reward
Drift* (AAAI 2020), with Gaussian arms of unit noise and linear drift ``b = l * x``. All
replications advance together, one round per iteration of a Python loop. The code is independent
of the package.

Its optimisations, all in ordinary NumPy:

* arms are rows and replications are columns, so every reduction over arms is a SIMD pass;
* ``ndarray.argmax`` over a short axis is slow, so ``_ArgMax`` finds the maximum and then looks
  up in bytes which arm attains it;
* only the pulled arm's entry changes, by flat index; averages are updated in place
  (``m += (feedback - m) / n``) and functions of ``n`` are looked up in tables;
* regret needs no work per round: it is the pulls times the gaps, at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Policy = Literal["ucb", "epsilon_greedy", "thompson_sampling"]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
Select = Callable[[int, Floats, Integers], None]
"""``select(t, best, arm)`` writes the arm chosen in round t, for each replication, to ``arm``.

``best`` is the highest average of each replication, which the payment needs anyway.
"""


class _ArgMax:
    """First arm that attains the maximum in each column of an arms x replications array."""

    def __init__(self, arms: int, replications: int) -> None:
        # Arm k has rank K - k, so the highest rank among the maximal arms is the lowest index.
        dtype = np.uint8 if arms < 256 else np.uint16
        ranks = np.arange(arms, 0, -1, dtype=dtype)[:, np.newaxis]
        self._arms = arms
        self._ranks = np.ascontiguousarray(np.broadcast_to(ranks, (arms, replications)))
        self._attains = np.empty((arms, replications), dtype=np.bool_)
        self._rank_if_attains = np.empty((arms, replications), dtype=dtype)
        self._top = np.empty(replications, dtype=dtype)

    def __call__(self, values: Floats, maximum: Floats, arm: Integers) -> None:
        """Write the arm to ``arm``, given ``maximum``, the maximum of ``values`` by column."""
        np.equal(values, maximum, out=self._attains)
        np.multiply(self._attains.view(np.uint8), self._ranks, out=self._rank_if_attains)
        np.maximum.reduce(self._rank_if_attains, axis=0, out=self._top)
        np.subtract(self._arms, self._top, out=arm, dtype=np.intp)


def _index_policy(means: Floats, spread: Callable[[int], Floats]) -> Select:
    """Choose the arm with the highest ``means + spread(t)``; ``spread`` returns its own buffer."""
    argmax = _ArgMax(*means.shape)
    highest = np.empty(means.shape[1])

    def select(t: int, best: Floats, arm: Integers) -> None:
        index = spread(t)
        np.add(index, means, out=index)
        np.maximum.reduce(index, axis=0, out=highest)
        argmax(index, highest, arm)

    return select


def _ucb(means: Floats, width: Floats, horizon: int) -> Select:
    """UCB: the highest ``m + sqrt(2 log t / n)``; ``width`` holds ``1 / sqrt(n)``."""
    growth = np.sqrt(2.0 * np.log(np.arange(1, horizon + 1))).tolist()
    index = np.empty_like(means)
    return _index_policy(means, lambda t: np.multiply(width, growth[t - 1], out=index))


def _thompson_sampling(means: Floats, width: Floats, rng: np.random.Generator) -> Select:
    """Thompson: the highest draw from N(m, 1 / (n + 1)); ``width`` holds ``1 / sqrt(n + 1)``."""
    sample = np.empty_like(means)

    def spread(t: int) -> Floats:
        rng.standard_normal(out=sample)
        return np.multiply(sample, width, out=sample)

    return _index_policy(means, spread)


def _epsilon_greedy(means: Floats, c: float, rng: np.random.Generator) -> Select:
    """Epsilon-greedy: a uniform arm with probability ``min(1, c K / t)``, else the greedy one."""
    arms, replications = means.shape
    argmax = _ArgMax(arms, replications)
    uniform = np.empty(replications)

    def select(t: int, best: Floats, arm: Integers) -> None:
        argmax(means, best, arm)
        rng.random(out=uniform)
        epsilon = min(1.0, c * arms / t)
        explorers = (uniform < epsilon).nonzero()[0]
        # Given that it is below epsilon, uniform / epsilon is uniform on [0, 1) again. The
        # product stays below K in floating point; rng.integers costs 3 ns more per replication.
        arm[explorers] = (uniform[explorers] / epsilon * arms).astype(np.intp)

    return select


def simulate(
    policy: Policy,
    means: npt.NDArray[Any],
    l: float,
    horizon: int,
    replications: int,
    seed: int,
    c: float = 5.0,
) -> dict[str, npt.NDArray[Any]]:
    """Run Algorithm 1 of the paper with one policy, ``replications`` times.

    Parameters
    ----------
    policy
        Policy that selects the arm that players are paid to pull.
    means
        True mean reward of each of the K arms; rewards have unit Gaussian noise.
    l
        Slope of the drift: a payment x raises the feedback by ``l * x``.
    horizon
        Rounds T, at least K. Rounds 1 to K pull each arm once, unpaid.
    replications
        Independent runs R.
    seed
        Seed of the generator (SFC64).
    c
        Exploration constant of epsilon-greedy; other policies ignore it.

    Returns
    -------
    dict
        Totals at the horizon: ``regret``, ``compensation``, ``compensated_pulls`` and
        ``total_drift`` of shape (R,), ``pulls`` of shape (R, K).
    """
    true_means = np.asarray(means, dtype=np.float64)
    arms = true_means.size
    if true_means.ndim != 1 or arms == 0:
        raise ValueError(f"means must be one row of at least one arm, got {true_means.shape}")
    if horizon < arms:
        raise ValueError(f"horizon must be at least the number of arms, {arms}, got {horizon}")
    rng = np.random.Generator(np.random.SFC64(seed))

    # The principal's view after each arm was pulled once. Flat views are for `cell` below.
    average = rng.standard_normal((arms, replications))
    average += true_means[:, np.newaxis]
    pulls = np.ones((arms, replications), dtype=np.intp)
    average_flat, pulls_flat = average.ravel(), pulls.ravel()  # contiguous, so these are views

    # Tables over n = 0 ... T (0 never occurs), and the width of every arm's index: 1 / sqrt(n),
    # or 1 / sqrt(n + 1) for Thompson. Epsilon-greedy does without.
    counts = np.arange(horizon + 1.0)
    one_over_n = 1.0 / np.maximum(counts, 1.0)
    prior_pulls = 1.0 if policy == "thompson_sampling" else 0.0
    width_of_n = 1.0 / np.sqrt(np.maximum(counts + prior_pulls, 1.0))
    width = np.full((arms, replications), width_of_n[1])
    width_flat = width.ravel()

    if policy == "ucb":
        select = _ucb(average, width, horizon)
    elif policy == "thompson_sampling":
        select = _thompson_sampling(average, width, rng)
    elif policy == "epsilon_greedy":
        select = _epsilon_greedy(average, c, rng)
    else:
        raise ValueError(f"unknown policy {policy!r}")
    has_width = policy != "epsilon_greedy"

    compensation = np.zeros(replications)
    compensated_pulls = np.zeros(replications, dtype=np.intp)
    total_drift = np.zeros(replications)

    replication = np.arange(replications)
    arm = np.empty(replications, dtype=np.intp)
    cell = np.empty(replications, dtype=np.intp)  # flat index of (arm, replication)
    n = np.empty(replications, dtype=np.intp)
    paid = np.empty(replications, dtype=np.bool_)
    best, own, payment, drift, feedback, reward, buffer = np.empty((7, replications))

    for t in range(arms + 1, horizon + 1):
        np.maximum.reduce(average, axis=0, out=best)
        select(t, best, arm)
        np.multiply(arm, replications, out=cell)
        np.add(cell, replication, out=cell)

        # Payment: the gap to the greedy arm, zero exactly when the chosen arm ties for best.
        # (mode="clip" lets `take` write to `out` directly; every index is in range.)
        average_flat.take(cell, out=own, mode="clip")
        np.subtract(best, own, out=payment)
        np.greater(payment, 0.0, out=paid)
        np.multiply(payment, l, out=drift)
        np.add(compensation, payment, out=compensation)
        np.add(compensated_pulls, paid, out=compensated_pulls)
        np.add(total_drift, drift, out=total_drift)

        # Feedback: reward plus drift.
        rng.standard_normal(out=feedback)
        true_means.take(arm, out=reward, mode="clip")
        np.add(feedback, reward, out=feedback)
        np.add(feedback, drift, out=feedback)

        # Ledger: one more pull, and the average moves by (feedback - average) / n.
        pulls_flat.take(cell, out=n, mode="clip")
        np.add(n, 1, out=n)
        pulls_flat[cell] = n
        np.subtract(feedback, own, out=feedback)
        one_over_n.take(n, out=buffer, mode="clip")
        np.multiply(feedback, buffer, out=feedback)
        np.add(own, feedback, out=own)
        average_flat[cell] = own
        if has_width:
            width_of_n.take(n, out=buffer, mode="clip")
            width_flat[cell] = buffer

    return {
        "regret": (true_means.max() - true_means) @ pulls,
        "compensation": compensation,
        "compensated_pulls": compensated_pulls,
        "total_drift": total_drift,
        "pulls": np.ascontiguousarray(pulls.T),
    }
