"""
Fooled by gratitude
===================

What players see in one run: the displayed averages of four items over time. Without drift they
approach the true means (dotted). With drift, items that are paid for look better than they are, and
the principal keeps paying for them.
"""

import matplotlib.pyplot as plt

import entice

means = [0.9, 0.7, 0.5, 0.3]
figure, panels = plt.subplots(1, 2, sharey=True, figsize=(9, 4), layout="constrained")
for axes, l in zip(panels, (0.0, 3.0), strict=True):
    rounds = entice.trace(
        arms=entice.Gaussian(means),
        policies=[entice.UCB()],
        drifts=[entice.LinearDrift(l)],
        horizon=10_000,
        seed=7,
    )
    for arm, mean in enumerate(means):
        [line] = axes.plot(rounds["t"], rounds[f"displayed.{arm}"], label=f"item {arm}")
        axes.axhline(mean, color=line.get_color(), linestyle=":")
    paid = rounds["payment"].sum()
    axes.set(title=f"l = {l:g}: {paid:.0f} paid in total", xlabel="visitor", xscale="log")
panels[0].set(ylabel="displayed average", ylim=(-0.5, 2))
panels[0].legend()
figure
