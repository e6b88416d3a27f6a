"""
Compare policies with a paired test
===================================

All policies of a study face the same random rewards, so runs with the same number are pairs. The
difference of the pairs has less variance than the difference of two independent means.
"""

import matplotlib.pyplot as plt
import numpy as np

import entice

result = entice.simulate(
    arms=entice.Gaussian([0.9, 0.7, 0.5, 0.3]),
    policies=[entice.UCB(), entice.ThompsonSampling()],
    drifts=[entice.LinearDrift(1.1)],
    horizon=5_000,
    replications=400,
    seed=7,
)
regret = result.final.pivot("policy", index="replication", values="regret")
difference = (regret["ThompsonSampling"] - regret["UCB"]).to_numpy()
error = difference.std(ddof=1) / np.sqrt(len(difference))
low, high = difference.mean() - 1.96 * error, difference.mean() + 1.96 * error
print(f"Thompson sampling minus UCB: {difference.mean():.1f} (95 %: {low:.1f} to {high:.1f})")
print(f"Thompson sampling has less regret in {np.mean(difference < 0):.0%} of the pairs")

figure, axes = plt.subplots()
axes.hist(difference, bins=40)
axes.axvline(0, color="black")
axes.axvspan(low, high, alpha=0.4, color="tab:orange", label="95 % interval of the mean")
axes.set(xlabel="regret of Thompson sampling minus that of UCB, same run", ylabel="runs")
axes.legend()
figure
