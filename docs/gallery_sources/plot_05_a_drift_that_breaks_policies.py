"""
A drift that UCB and Thompson sampling do not survive
=====================================================

Under a step, any payment, however small, raises a rating by 0.3. Items up to 0.3 worse than the
best one then look as good as it, and regret grows linearly. The paper's theorems do not promise
more: a step violates their Assumption 1.
"""

import entice

step = entice.StepDrift(0.3)
print(step.outside)  # why the assumption does not hold
result = entice.simulate(
    arms=entice.Gaussian([0.9, 0.7, 0.5, 0.3]),
    policies=[entice.UCB(), entice.ThompsonSampling()],
    drifts=[entice.NoDrift(), entice.LinearDrift(1.1), step],
    horizon=50_000,
    replications=100,
    seed=7,
)
print(result)
figure = result.plot("regret")
for axes in figure.axes:
    axes.set(xscale="log", yscale="log", ylim=(1, 20_000))
figure
