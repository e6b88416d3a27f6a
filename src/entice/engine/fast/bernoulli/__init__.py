"""Fast paths for Bernoulli arms.

While an arm is pulled unpaid, its feedback is its reward, 0 or 1, even if feedback is projected
onto a range that contains both. So the sum of its feedback is a random walk with steps of 0 and 1,
which `walk.take_pulls` advances by many pulls at a time. `binomial` draws the rewards.

Rewards of 0 and 1 make ties between averages common, and ties decide which arm is greedy and
whether a pull is paid. These paths therefore add up feedback with the same rounding as the
generic kernel (`engine/kernel.py`, which defines the computation), and compare the same numbers: a
replication with the same rewards has the same sums, averages and choices, bit for bit.
"""
