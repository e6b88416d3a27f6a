"""
Your own drift
==============

A drift is a function of the payment, the round and the arm. This one is linear at first, and fades
as people get used to being paid.
"""

import entice
from entice.testing import check_drift


def fading(payment, t, arm, params):
    """Return how much the payment raises the rating."""
    return params[0] * payment / (1 + t / params[1])


drift = entice.CustomDrift(fading, params=[1.1, 1000], name="fading")
check_drift(drift, lipschitz=1.1)  # raises an error if the paper's Assumption 1 does not hold
result = entice.simulate(
    arms=entice.Gaussian([0.9, 0.7, 0.5, 0.3]),
    policies=[entice.UCB()],
    drifts=[entice.LinearDrift(0), entice.LinearDrift(1.1), drift],
    horizon=5_000,
    replications=200,
    seed=7,
)
print(result)
result.plot("regret")
