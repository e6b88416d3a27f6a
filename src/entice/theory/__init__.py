"""What is proved, and what it says of a study.

A module for each result of the paper, `theorem1`, `theorem2` (with Lemma 1), `theorem3` (with
Lemma 3) and `ucb_proof`, and `lower` for lower bounds. Each holds its `Bound`s: formulas
`as_stated` and `as_proved`, of T and of gaps or means, and answers to `applies(study)` and
`vacuous(study)`. `settled` predicts what UCB does under a linear drift. `bounds(result)` sets all
of them against what was measured; `plot_bounds(result)` draws them; `growth` fits how regret
and compensation grow with T.
"""

from entice.theory import lower, settled, theorem1, theorem2, theorem3, ucb_proof
from entice.theory.bound import Answer, Bound
from entice.theory.figures import plot_bounds
from entice.theory.growth import Growth, growth
from entice.theory.table import BOUNDS, bounds

__all__ = [
    "BOUNDS",
    "Answer",
    "Bound",
    "Growth",
    "bounds",
    "growth",
    "lower",
    "plot_bounds",
    "settled",
    "theorem1",
    "theorem2",
    "theorem3",
    "ucb_proof",
]
