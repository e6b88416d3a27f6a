"""
Arms from star counts
=====================

Ten products with the ratings of 100 that ship with Entice: synthetic counts, modelled on published
ones. The drift is fitted to products that have both ordinary and paid reviews. A policy that knows
how much such ratings vary explores far less.
"""

import entice

path = entice.datasets.star_counts()  # or a CSV file of yours, with stars_1 … stars_5
drift = entice.CompressionDrift.from_star_counts(path)
result = entice.simulate(
    arms=entice.Empirical.from_star_counts(path, arms=10),
    policies=[entice.UCB(), entice.UCB(noise=0.27)],
    drifts=[entice.NoDrift(), drift],
    feedback_range=(0, 1),
    horizon=5_000,
    replications=50,
    seed=7,
)
print(drift)
print(result)
result.plot("regret")
