"""
Estimate the drift from a log
=============================

A log with one row for each rating, as a CSV file. In some offers a coin flip added an amount to the
payment: the difference between heads and tails is the drift. Here it is known, 0.5 per unit paid.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import entice
from entice import estimate

log = Path(tempfile.mkdtemp()) / "log.csv"
entice.trace(
    arms=entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5]),
    policies=[entice.UCB()],
    drifts=[entice.LinearDrift(0.5)],
    horizon=20_000,
    seed=7,
    probe=entice.Probe(share=0.5, amount=[0.1, 0.3, 0.6, 0.9]),
).select("t", "arm", "payment", "feedback", "probe", "probe_amount").write_csv(log)

print(estimate.probe_slope(log))
points = estimate.probe_curve(log).points
print(points)

figure, axes = plt.subplots()
errors = [points["drift"] - points["low"], points["high"] - points["drift"]]
axes.errorbar(points["payment"], points["drift"], errors, fmt="o", label="estimate, 95 % interval")
axes.plot([0, 0.9], [0, 0.45], "k:", label="true drift")
axes.set(xlabel="payment", ylabel="drift of the rating")
axes.legend()
figure
