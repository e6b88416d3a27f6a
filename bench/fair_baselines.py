"""Compare policies with equal knowledge of the noise in three worlds (docs/explanation/noise.md).

In the paper, UCB and Thompson sampling assume ratings with a standard deviation of 1. The
drift-corrected policy estimates it, which accounts for most of its lead on ratings from 0 to 1. So
both are also run with the true standard deviation (the root mean square over the arms), as are the
policies for ratings from 0 to 1. Thompson sampling is run a third time with the standard deviation
of the best arm, which the drift-corrected policy eventually estimates: it uses unpaid ratings, most
of which are of that arm.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from corrected import print_table, with_lock_ins

import entice
from entice.atlas.worlds import SHUFFLED
from entice.paper.setups import MEANS
from entice.policies import Policy
from entice.worlds.arms import Bernoulli, Empirical, FixedArms
from entice.worlds.drifts import Drift

SLOPES = (0.0, 1.1, 5.0)
STARS = entice.datasets.star_counts()


def noise_of(arms: Bernoulli | Empirical) -> tuple[float, float]:
    """Return the root mean square of the arms' standard deviations, and that of the best arm."""
    means = arms.true_means()
    if isinstance(arms, Bernoulli):
        variances = means * (1 - means)
    else:
        variances = arms.probabilities() @ np.array(arms.values) ** 2 - means**2
    noise = np.sqrt([variances.mean(), variances[means.argmax()]])
    return round(float(noise[0]), 2), round(float(noise[1]), 2)


def compare(
    title: str,
    arms: FixedArms,
    policies: Sequence[Policy],
    drifts: Sequence[Drift],
    **settings: Any,
) -> None:
    result = entice.simulate(
        arms=arms, policies=policies, drifts=drifts, horizon=20_000, checkpoints=1, **settings
    )
    print_table(f"{title}, {result.study.replications:,} runs", with_lock_ins(result))


def on_gaussian_arms(**settings: Any) -> None:
    """Run the paper's instance: unit noise, which UCB and Thompson sampling assume by default."""
    policies: list[Policy] = [
        entice.UCB(),
        entice.ThompsonSampling(),
        entice.DriftCorrectedThompson(),
    ]
    drifts = [entice.LinearDrift(l) for l in SLOPES]
    compare(
        "Gaussian arms, the paper's instance", entice.Gaussian(MEANS), policies, drifts, **settings
    )


def on_ratings_from_0_to_1(
    title: str, arms: Bernoulli | Empirical, drifts: list[Drift], **settings: Any
) -> None:
    noise, best_arm_noise = noise_of(arms)
    policies: list[Policy] = [
        entice.UCB(),
        entice.UCB(noise=noise),
        entice.KLUCB(),
        entice.ThompsonSampling(),
        entice.ThompsonSampling(noise=noise),
        entice.ThompsonSampling(noise=best_arm_noise),
        entice.BetaThompson(),
        entice.DriftCorrectedThompson(),
        entice.DriftCorrectedThompson(noise=noise),
    ]
    compare(title, arms, policies, drifts, feedback_range=(0, 1), **settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1_000)
    parser.add_argument("--quick", action="store_true", help="50 runs instead, in a minute")
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument("--only", choices=["gaussian", "bernoulli", "stars"], help="one world")
    options = parser.parse_args()
    settings = {"replications": 50 if options.quick else options.replications, "seed": options.seed}
    drifts: list[Drift] = [entice.LinearDrift(l) for l in SLOPES]
    print('"Locked in": regret above a tenth of that of uniform play.')
    if options.only in (None, "gaussian"):
        on_gaussian_arms(**settings)
    if options.only in (None, "bernoulli"):
        title = "Bernoulli arms with the paper's means, ratings projected onto 0 to 1"
        on_ratings_from_0_to_1(title, entice.Bernoulli(SHUFFLED), drifts, **settings)
    if options.only in (None, "stars"):
        title = "Ten products with star counts, ratings projected onto 0 to 1"
        arms = entice.Empirical.from_star_counts(STARS, arms=10)
        paid = entice.CompressionDrift.from_star_counts(STARS)
        on_ratings_from_0_to_1(title, arms, [*drifts, paid], **settings)


if __name__ == "__main__":
    main()
