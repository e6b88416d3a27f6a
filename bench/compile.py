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


def main() -> None:
    """Measure and print."""
    console = Console(highlight=False, soft_wrap=True)
    for label, policy in KERNELS.items():
        with tempfile.TemporaryDirectory() as cache:
            output = subprocess.run(
                [sys.executable, "-c", SCRIPT.replace("{policy}", policy)], check=True,
                capture_output=True, text=True, env=os.environ | {"ENTICE_CACHE_DIR": cache},
            ).stdout  # fmt: skip
        first, second, peak = map(float, output.split())
        console.print(
            f"{label}: {first:.1f} s, with another drift {second:.1f} s more, {peak:.0f} MB"
        )


if __name__ == "__main__":
    main()
