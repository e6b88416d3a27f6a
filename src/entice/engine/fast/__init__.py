"""Fast paths: replications that are exact in distribution without playing every round.

The generic kernel (`engine/kernel.py`) is the definition of what is computed. A fast path draws
other random numbers, in another order, and far fewer of them; what comes out has the same
distribution, up to rounding. Each says in its own file why.
"""
