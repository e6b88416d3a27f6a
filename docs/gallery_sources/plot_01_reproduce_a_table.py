"""
Reproduce a table
=================

The compensation of UCB in the paper's Table 1, beside the range of 200 simulated runs. The horizon
of 10,000 rounds is the one that fits the published numbers.
"""

import matplotlib.pyplot as plt

import entice
from entice.paper.setups import COEFFICIENTS, MEANS, published

result = entice.simulate(
    arms=entice.Gaussian(MEANS),
    policies=[entice.UCB()],
    drifts=[entice.LinearDrift(l) for l in COEFFICIENTS],
    horizon=10_000,
    replications=200,
    seed=7,
)
simulated = result.summary().filter(metric="compensation").sort("drift.l")
printed = published().filter(policy="ucb", metric="compensation").sort("l")
print(simulated.select("drift.l", "mean", "q05", "q95").with_columns(published=printed["value"]))

figure, axes = plt.subplots()
axes.fill_between(
    simulated["drift.l"], simulated["q05"], simulated["q95"], alpha=0.3, label="5–95 % of runs"
)
axes.plot(simulated["drift.l"], simulated["q50"], label="median")
axes.plot(printed["l"], printed["value"], "ko", label="published")
axes.set(xlabel="drift coefficient l", ylabel="compensation", title="UCB, Table 1")
axes.legend()
figure
