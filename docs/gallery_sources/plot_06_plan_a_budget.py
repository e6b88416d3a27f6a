"""
Plan a budget
=============

How much money does a campaign need? Each run draws true means and a drift from your beliefs, and
plays the whole campaign with the rules of the live service.
"""

import entice

forecast = entice.plan(
    arms=5,
    spread=entice.Spread(centre=4.1, width=0.45),
    visitors_a_day=100,
    days=30,
    price_of_a_star=2.00,
    currency="EUR",
    share_who_rate=0.3,
    drift=[0, 1.5],
    acceptance=entice.LogisticAcceptance(midpoint=0.1, width=0.1),
    policies=[entice.UCB(), entice.Greedy()],
    replications=100,
    seed=7,
)
print(forecast)
forecast.plot()
