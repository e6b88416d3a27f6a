"""
Compare policies with a paired test
===================================

Runs of one study with the same number start from the same random streams, so they are compared as
pairs. `Result.compare` gives the mean difference and the probability of improvement, with their
intervals.
"""

import matplotlib.pyplot as plt

import entice

result = entice.simulate(
    arms=entice.Gaussian([0.9, 0.7, 0.5, 0.3]),
    policies=[entice.UCB(), entice.ThompsonSampling()],
    drifts=[entice.LinearDrift(1.1)],
    horizon=5_000,
    replications=400,
    seed=7,
)
comparison = result.compare("ThompsonSampling", "UCB")
print(comparison)

regret = result.final.pivot("policy", index="replication", values="regret")
(row,) = comparison.table.iter_rows(named=True)
figure, axes = plt.subplots()
axes.hist(regret["ThompsonSampling"] - regret["UCB"], bins=40)
axes.axvline(0, color="black")
axes.axvspan(
    row["low"], row["high"], alpha=0.4, color="tab:orange", label="95 % interval of the mean"
)
axes.set(xlabel="regret of Thompson sampling minus that of UCB, same run", ylabel="runs")
axes.legend()
figure
