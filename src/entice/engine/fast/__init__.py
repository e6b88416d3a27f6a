"""Fast paths: replications that skip rounds and are still exact in distribution.

The generic kernel (`engine/kernel.py`) defines the computation. A fast path draws fewer random
numbers, in a different order; its results have the same distribution, up to rounding. Each file
explains why.
"""
