"""The paper's study in straightforward NumPy: all runs at once, a loop over rounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def simulate(
    policy: str, means: npt.NDArray[np.float64], l: float, horizon: int, replications: int,
    seed: int, c: float = 5.0,
) -> dict[str, npt.NDArray[np.float64]]:  # fmt: skip
    """Run Algorithm 1 with Gaussian arms of unit noise and drift b = l x; each arm once first."""
    rng = np.random.default_rng(seed)
    arms, rows = means.size, np.arange(replications)
    gaps = means.max() - means
    sums = means + rng.standard_normal((replications, arms))
    pulls = np.ones((replications, arms))
    averages = sums.copy()
    regret = np.full(replications, gaps.sum())
    compensation, compensated_pulls, total_drift = np.zeros((3, replications))
    for t in range(arms + 1, horizon + 1):
        greedy = averages.argmax(axis=1)
        if policy == "ucb":
            arm = (averages + np.sqrt(2 * np.log(t) / pulls)).argmax(axis=1)
        elif policy == "epsilon_greedy":
            explore = rng.random(replications) < c * arms / t
            arm = np.where(explore, rng.integers(arms, size=replications), greedy)
        else:
            noise = rng.standard_normal((replications, arms))
            arm = (averages + noise / np.sqrt(pulls + 1)).argmax(axis=1)
        payment = averages[rows, greedy] - averages[rows, arm]
        drift = l * payment
        sums[rows, arm] += means[arm] + rng.standard_normal(replications) + drift
        pulls[rows, arm] += 1
        averages[rows, arm] = sums[rows, arm] / pulls[rows, arm]
        regret += gaps[arm]
        compensation += payment
        compensated_pulls += payment > 0
        total_drift += drift
    return {
        "regret": regret,
        "compensation": compensation,
        "compensated_pulls": compensated_pulls,
        "total_drift": total_drift,
    }
