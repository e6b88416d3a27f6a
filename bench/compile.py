"""Compilation times and memory: `make bench`.

CPU seconds to compile each kernel in a new process with an empty cache, after Numba itself is warm,
and the peak memory of that process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from rich.console import Console

KERNELS = {
    "UCB, fast path": "entice.UCB()",
    "Thompson sampling, fast path": "entice.ThompsonSampling()",
    "ε-greedy, fast path": "entice.EpsilonGreedy(c=5)",
    "UCB, generic kernel": "entice.UCB(), engine='generic'",
    "a user's policy": "entice.CustomPolicy(choose)",
}
SCRIPT = """
import resource, time
import numba, numpy as np
import entice
from entice.study.running.cell import Cell

@numba.njit
def warm(x):
    return x + 1.0

def choose(t, pulls, means, memory, params, rng):
    return int(np.argmax(means))

def compile(policy, drift, engine="auto"):
    study = entice.Study(
        arms=entice.Gaussian([0.9, 0.5, 0.1]), policies=[policy], drifts=[drift], horizon=100,
        replications=1, seed=7, engine=engine)
    start = time.process_time()
    Cell(study, policy, drift, stop=np.zeros(1, dtype=np.int64))
    return time.process_time() - start

warm(1.0)
for drift in entice.LinearDrift(0.5), entice.PowerDrift(0.5, 0.5):
    print(compile({policy}, drift=drift))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
PLAN = """
import resource, time
import numba
import entice
from entice.planner.runner import _compile_loop, _link_policy

@numba.njit
def warm(x):
    return x + 1.0

warm(1.0)
plan = entice.Plan(
    arms=8, spread=entice.Spread(centre=4.1, width=0.45), visitors_a_day=300, days=60,
    price_of_a_star=2.0, share_who_rate=0.3, drift=[0, 1], seed=7)
start = time.process_time()
_compile_loop(plan)
for policy in plan.policies:
    _link_policy(plan, policy)
print(time.process_time() - start)
start = time.process_time()
_link_policy(plan, entice.KLUCB())
print(time.process_time() - start)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main() -> None:
    """Measure and print."""
    console = Console(highlight=False, soft_wrap=True)
    for label, policy in KERNELS.items():
        first, second, peak = measure(SCRIPT.replace("{policy}", policy))
        console.print(
            f"{label}: {first:.1f} s, with another drift {second:.1f} s more, {peak:.0f} MB"
        )
    first, second, peak = measure(PLAN)
    console.print(
        f"a plan with its five policies: {first:.1f} s, another policy {second:.1f} s more, "
        f"{peak:.0f} MB"
    )


def measure(script: str) -> list[float]:
    """Return the numbers that a script prints in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        output = subprocess.run(
            [sys.executable, "-c", script], check=True, capture_output=True, text=True,
            env=os.environ | {"ENTICE_CACHE_DIR": cache},
        ).stdout  # fmt: skip
    return [float(line) for line in output.split()]


if __name__ == "__main__":
    main()
