"""
A live principal in a loop
==========================

`entice.Principal` makes one offer at a time, with the functions that the simulator compiles into
its loop. Here the players are simulated: they rate 0.8 more for each unit that they are paid.
"""

import matplotlib.pyplot as plt
import numpy as np

import entice

means, drift = [0.7, 0.5, 0.3], 0.8
draw = np.random.default_rng(7)
principal = entice.Principal(entice.UCB(), arms=3, seed=7)
paid, averages = [], []
for _ in range(2_000):
    offer = principal.offer()  # show the arm, promise the payment
    rating = draw.normal(means[offer.arm], 0.5) + drift * offer.payment
    principal.settle(offer, feedback=rating)
    paid.append(offer.payment)
    averages.append(principal.ledger.means)
print(principal.ledger.pulls, "ratings;", f"{sum(paid):.1f} paid")

figure, (upper, lower) = plt.subplots(2, sharex=True, layout="constrained")
upper.plot(averages, label=[f"arm {arm}" for arm in range(3)])
upper.set(ylabel="displayed average", ylim=(-0.5, 1.5))
upper.legend(ncols=3)
lower.plot(np.cumsum(paid))
lower.set(xlabel="player", ylabel="total paid")
figure
