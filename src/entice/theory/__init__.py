"""The bounds of the paper and of equal-pay elimination, and how they compare with studies.

There is a module for each result of the paper: `theorem1`, `theorem2` (with Lemma 1), `theorem3`
(with Lemma 3), `ucb_proof`; one for our own Theorem E2, `equal_pay`; and one for lower bounds,
`lower`. Each defines `Bound` objects with
the formulas `as_stated` and `as_proved`, and the checks `applies(study)` and `vacuous(study)`.

`bounds(result)` compares all of them with the measurements, `plot_bounds(result)` plots them.
`steady_state` predicts UCB's regret under a linear drift. `growth` measures how regret and
compensation grow with T.
"""

from entice.theory import equal_pay, lower, steady_state, theorem1, theorem2, theorem3, ucb_proof
from entice.theory.bound import Bound, BoundCheck
from entice.theory.bounds_table import BOUNDS, bounds, plot_bounds
from entice.theory.growth import Growth, growth

__all__ = [
    "BOUNDS",
    "Bound",
    "BoundCheck",
    "Growth",
    "bounds",
    "equal_pay",
    "growth",
    "lower",
    "plot_bounds",
    "steady_state",
    "theorem1",
    "theorem2",
    "theorem3",
    "ucb_proof",
]
