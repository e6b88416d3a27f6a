"""Start-up times and memory: `make bench`.

Wall-clock time of whole processes, the least of a few, on an otherwise idle machine: `entice
--help`; a study of the paper's instance with three policies and 200 replications, with imports, on
an empty cache and with its machine code in the cache. Peak memory of studies with short and long
horizons.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from rich.console import Console

STUDY = """
import entice
entice.simulate(
    arms=entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
    policies=[entice.UCB(), entice.EpsilonGreedy(c=5), entice.ThompsonSampling()],
    drifts=[entice.LinearDrift(0.5)], horizon=20_000, replications=200, seed=7, engine={engine!r})
"""
LONG = """
import resource, entice
entice.simulate(
    arms=entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
    policies=[entice.UCB(), entice.EpsilonGreedy(c=5), entice.ThompsonSampling()],
    drifts=[entice.LinearDrift(0.5)], horizon={horizon}, replications=64, seed=7)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
HELP = "import sys; sys.argv = ['entice', '--help']; from entice.cli.app import main; main()"


def seconds(script: str, cache: str, times: int = 3) -> float:
    """Run a script in new processes, and return the least of their times."""
    least = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run(script, cache)
        least = min(least, time.perf_counter() - start)
    return least


def run(script: str, cache: str) -> str:
    """Run a script with its own cache, and return its output."""
    return subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True,
        env=os.environ | {"ENTICE_CACHE_DIR": cache},
    ).stdout  # fmt: skip


def main() -> None:
    """Measure and print."""
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory() as cache:
        console.print(f"entice --help: {seconds(HELP, cache, 5):.2f} s")
        for engine, label in (("auto", "fast paths"), ("generic", "generic kernel")):
            script = STUDY.format(engine=engine)
            first = seconds(script, cache, times=1)
            console.print(
                f"three policies, 200 replications, {label}: first run on an empty cache "
                f"{first:.1f} s, then {seconds(script, cache):.2f} s"
            )
        for horizon in (10_000, 10_000_000):
            peak = float(run(LONG.format(horizon=horizon), cache))
            console.print(f"64 replications of {horizon:,} rounds: at most {peak:.0f} MB")


if __name__ == "__main__":
    main()
