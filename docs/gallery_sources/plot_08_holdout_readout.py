"""
Read a holdout every day
========================

A tenth of the visitors is never paid. The interval for the difference between the groups is valid
at every look, so you may read it every day and stop when you have seen enough.
"""

import matplotlib.pyplot as plt
import numpy as np

from entice.estimate import GroupTotals, measure_effect

draw = np.random.default_rng(7)
held_out = draw.random(30_000) < 0.1
ratings = np.clip(np.round(draw.normal(np.where(held_out, 4.0, 4.2), 1.0)), 1, 5)


def totals(group, paid):
    """Return the totals of the ratings of a group."""
    return GroupTotals(
        visitors=len(group), rated=len(group), rating_sum=group.sum(),
        rating_squares=(group**2).sum(), paid=paid * len(group),
    )  # fmt: skip


looks, effects = range(1_000, 30_001, 1_000), []
for n in looks:
    so_far, out = ratings[:n], held_out[:n]
    groups = totals(so_far[~out], paid=14), totals(so_far[out], paid=0)
    effects.append(measure_effect(*groups, holdout_share=0.1, lowest_rating=1, highest_rating=5))
print(effects[-1].sentence)
figure, axes = plt.subplots()
axes.fill_between(looks, [e.low for e in effects], [e.high for e in effects], alpha=0.3)
axes.plot(looks, [e.difference for e in effects])
axes.axhline(0, color="black")
axes.set(xlabel="ratings", ylabel="difference in stars", ylim=(-0.5, 1))
figure
