"""The speed of the generic kernel relative to the same study in NumPy: `make bench`.

K = 9 (the paper's means), T = 20,000, linear drift 0.5, with compensation and drift. CPU time on
one thread, the fastest of several runs, all in one process. "plain" is straightforward NumPy over
1,000 replications at once, "tuned" is optimised NumPy. (Fast paths are in `speed.py`.) The last
rows compare a user-defined policy and drift, plain Python functions, with the built-in pair.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

# One thread; NumPy reads these on import.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import numpy_plain
import numpy_tuned
from rich.console import Console
from rich.table import Table

import entice
from entice.policies import Policy
from entice.policies.ucb import leads_still, search
from entice.study.running.cell import Cell
from entice.worlds.drifts import Drift

MEANS = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
HORIZON, REPLICATIONS, SLOPE = 20_000, 1_000, 0.5
POLICIES: dict[numpy_tuned.Policy, Policy] = {
    "ucb": entice.UCB(),
    "epsilon_greedy": entice.EpsilonGreedy(c=5),
    "thompson_sampling": entice.ThompsonSampling(),
}


def textbook_ucb(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    """UCB as in a textbook, and as in the package's documentation."""
    best, top = 0, -math.inf
    for i in range(pulls.shape[0]):
        bound = means[i] + math.sqrt(2.0 * math.log(t) / pulls[i])
        if bound > top:
            best, top = i, bound
    return best


def copied_ucb(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    """A copy of the built-in UCB, which in most rounds compares one average with one line."""
    last = int(memory[0])
    if leads_still(last, t, pulls, means, memory):
        return last
    return search(t, pulls, means, memory, 1.0)


def my_linear(payment, t, arm, params):  # type: ignore[no-untyped-def]
    """A user-defined linear drift."""
    return params[0] * payment


def nanoseconds(work: Callable[[], Any], replications: int, repeats: int) -> float:
    """Return CPU time per round and replication, the least of several runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) / (HORIZON * replications) * 1e9


def entice_time(policy: Policy, drift: Drift) -> float:
    study = entice.Study(
        arms=entice.Gaussian(MEANS.tolist()), policies=[policy], drifts=[drift],
        horizon=HORIZON, seed=7, checkpoints=1, engine="generic",
    )  # fmt: skip
    cell = Cell(study, policy, drift, stop=np.zeros(1, dtype=np.int64))
    arrays = cell.allocate(200)
    return nanoseconds(lambda: cell.run(0, arrays), 200, repeats=20)


def main() -> None:
    console = Console()
    table = Table(
        title=f"CPU ns per round, K = 9, T = {HORIZON:,}, one thread", title_justify="left"
    )
    for column in (
        "policy",
        "NumPy, plain",
        "NumPy, tuned",
        "kernel",
        "plain / kernel",
        "tuned / kernel",
    ):
        table.add_column(column, justify="left" if column == "policy" else "right")
    drift = entice.LinearDrift(SLOPE)
    builtin = 0.0
    for name, policy in POLICIES.items():
        ours = entice_time(policy, drift)
        builtin = builtin or ours
        plain, tuned = (
            nanoseconds(
                partial(simulate, name, MEANS, SLOPE, HORIZON, REPLICATIONS, 7),
                REPLICATIONS,
                repeats=2,
            )
            for simulate in (numpy_plain.simulate, numpy_tuned.simulate)
        )
        table.add_row(
            policy.label, f"{plain:.1f}", f"{tuned:.1f}", f"{ours:.1f}",
            f"{plain / ours:.1f}", f"{tuned / ours:.1f}",
        )  # fmt: skip
    console.print(table)
    mine = entice.CustomDrift(my_linear, params=[SLOPE])
    copy = entice.CustomPolicy(copied_ucb, memory=4, memory_per_arm=2)
    for label, user in (
        ("a copy of UCB", copy),
        ("textbook UCB", entice.CustomPolicy(textbook_ucb)),
    ):
        ours = entice_time(user, mine)
        console.print(
            f"{label} and a linear drift, both user-defined: {ours:.1f} ns, "
            f"{ours / builtin:.2f} times the built-in pair"
        )


if __name__ == "__main__":
    main()
