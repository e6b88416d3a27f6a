"""
Off-policy evaluation
=====================

What would other policies have achieved? A log answers if every arm had a known chance. Here each of
three teas was offered with probability 1/3; the export of a campaign with `overlap` has the same
columns.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from entice.estimate import Always, evaluate

arms, means, shown = ["oolong", "sencha", "mint"], [4.3, 3.9, 3.1], [4.0, 4.1, 3.5]
draw = np.random.default_rng(7)
offered = draw.integers(3, size=3_000)
stars = np.clip(np.round(draw.normal(np.array(means)[offered], 0.8)), 1, 5)
gaps = np.array([0.1, 0.0, 0.6])  # in displayed stars; a star costs 2.00
log = pl.DataFrame({
    "t": np.arange(1, 3_001), "arm": np.array(arms)[offered], "feedback": stars,
    "payment": gaps[offered], "amount": (200 * gaps[offered]).astype(int),
}).with_columns(
    decision="t", paid="amount", kind=pl.lit("offer"), state=pl.lit("rated"),
    reason=pl.lit("overlap"), greedy_arm=pl.lit("sencha"), currency=pl.lit("EUR"),
    currency_digits=2, arms=pl.lit(arms), shown=pl.lit(shown), propensities=pl.lit([1 / 3] * 3),
    amounts=pl.lit([20, 0, 120]), policy_averages=pl.lit(shown), policy_counts=pl.lit([9.0] * 3),
)  # fmt: skip

figure, axes = plt.subplots()
axes.set_ylabel("stars per rated visitor")
for arm in arms:
    found = evaluate(log, Always(arm)).rating["doubly robust"]
    interval = [[found.value - found.low], [found.high - found.value]]
    axes.errorbar(arm, found.value, interval, fmt="o")
    print(arm, found)
axes.set(title="One arm for everybody: estimate, 95 % interval", xmargin=0.2, ymargin=0.2)
figure
