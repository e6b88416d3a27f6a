"""The most that a fast path could gain on Gaussian arms with a `feedback_range`.

    python bench/projected.py

Unpaid feedback is then a projected normal variable, and sums of those have no closed law: each
has to be drawn. This measures a loop that only draws, projects and adds them, which is less than
any exact path has to do, and the generic kernel on the paper's nine arms, feedback projected onto
0 to 1. CPU nanoseconds per round; the engines alternate, and the fastest repetition counts.
"""

from __future__ import annotations

import time
from typing import Any

import numba
import numpy as np

import entice
from entice.rng import fill_normals, new_stream
from entice.study.running.cell import Cell

HORIZON, REPLICATIONS, REPEATS = 20_000, 60, 5


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def _add_projected(stream: Any, draws: Any, batches: int) -> float:
    total = 0.0
    for _ in range(batches):
        fill_normals(stream, draws)
        for i in range(draws.shape[0]):
            total += min(max(0.9 + draws[i], 0.0), 1.0)
    return total


def main() -> None:
    """Print the nanoseconds per round."""
    stream, draws, batches = new_stream(7, 0, 0), np.empty(128), 20_000
    cells = {}
    for policy in (entice.EpsilonGreedy(c=5), entice.Greedy(), entice.UCB()):
        study = entice.Study(
            arms=entice.Gaussian(np.linspace(0.9, 0.1, 9).tolist()), policies=[policy],
            drifts=[entice.LinearDrift(0.5)], feedback_range=(0, 1), horizon=HORIZON, seed=7,
            checkpoints=1, engine="generic",
        )  # fmt: skip
        cells[policy.label] = Cell(study, policy, study.drifts[0], np.zeros(1, np.int64))
    _add_projected(stream, draws, 1)
    best = dict.fromkeys(["draw, project and add", *cells], np.inf)
    for _ in range(REPEATS):
        for name in best:
            start, rounds = time.process_time(), HORIZON * REPLICATIONS
            if name in cells:
                cells[name].run(0, cells[name].allocate(REPLICATIONS))
            else:
                _add_projected(stream, draws, batches)
                rounds = batches * draws.size
            best[name] = min(best[name], (time.process_time() - start) / rounds * 1e9)
    for name, nanoseconds in best.items():
        print(f"{name:24} {nanoseconds:6.2f}")


if __name__ == "__main__":
    main()
