"""The overhead of a cluster over threads, measured, and a model of 1,000 workers.

    python bench/cluster.py            # `make bench-cluster`, five minutes on an idle machine

Starts a Dask scheduler and two workers of one thread each, as processes on this machine.

- *Overhead*: the same study on two threads of one process and on the two workers, alternately.
- *A block*: its cost to scheduler and client besides the simulation, for a small block and for one
  of a large study, whose digest is fetched, saved in a folder and aggregated.
- *Memory*: of the client, in a study of 1,000,000 replications × 200 checkpoints.
- *Model*: the time that a long study takes on more workers than this machine has.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil  # type: ignore[import-untyped]
from distributed import Client
from rich.console import Console
from rich.table import Table

import entice
from entice.study.running.cluster import DaskExecutor
from entice.study.running.output_folder import run_in_folder
from entice.study.running.run import StudyRun

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from dask_cluster import DaskCluster, dask_cluster

PAPER = entice.Study(
    arms=entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
    policies=[entice.UCB(), entice.EpsilonGreedy(c=5), entice.ThompsonSampling()],
    drifts=[entice.LinearDrift(0.5)],
    horizon=20_000,
    replications=1_000,
    seed=7,
)
WORKERS = (2, 10, 100, 1_000)
MANY_HOURS = 1_000
"""Core hours of the modelled study."""


class Cost(NamedTuple):
    """CPU seconds of one block, besides the simulation."""

    scheduler: float
    client: float


def seconds(study: entice.Study, **options: Any) -> float:
    start = time.perf_counter()
    entice.run(study, progress=False, **options)
    return time.perf_counter() - start


def overhead(cluster: DaskCluster, duration: float, repeats: int) -> tuple[float, list[float]]:
    """Return seconds on two threads, and the ratio of cluster to threads in each repetition."""
    with Client(cluster.address, set_as_default=False) as client:
        pilot = msgspec.structs.replace(PAPER, replications=4_000)
        for options in ({"threads": 2}, {"cluster": client}):  # compiles on both sides
            seconds(pilot, **options)
        scale = duration / seconds(pilot, threads=2)
        study = msgspec.structs.replace(pilot, replications=round(4_000 * scale))
        pairs = [
            (seconds(study, threads=2), seconds(study, cluster=client)) for _ in range(repeats)
        ]
    return statistics.median(a for a, _ in pairs), [b / a for a, b in pairs]


def costs(cluster: DaskCluster, blocks: int) -> dict[str, Cost]:
    """Measure the cost of many blocks that simulate next to nothing."""
    small = msgspec.structs.replace(
        PAPER, policies=[entice.Greedy()], horizon=9, checkpoints=1, replications=blocks
    )
    # As many rounds as checkpoints: short runs with digests as large as those of long runs.
    large = msgspec.structs.replace(
        PAPER, policies=[entice.Greedy()], horizon=200, replications=blocks // 10 * 2_000
    )
    return {"small": cost(cluster, small, 1), "large": cost(cluster, large, 2_000)}


def cost(cluster: DaskCluster, study: entice.Study, size: int) -> Cost:
    """Measure the cost of each block of a study."""
    scheduler = psutil.Process(cluster.scheduler.pid)
    with Client(cluster.address, set_as_default=False) as client:
        for _ in range(2):  # the first time compiles
            with tempfile.TemporaryDirectory() as folder:
                before, own = sum(scheduler.cpu_times()[:2]), time.process_time()
                run = StudyRun(study, DaskExecutor(client), Path(folder), block_size=size)
                run.run(lambda done, total: None)
        used = sum(scheduler.cpu_times()[:2]) - before
        blocks = len(run.blocks)
        return Cost(used / blocks, (time.process_time() - own) / blocks)


def memory(cluster: DaskCluster, replications: int) -> tuple[float, float]:
    """Return seconds and peak MB of a client in its own process."""
    command = [sys.executable, __file__, "--client", cluster.address, str(replications)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    took, peak = json.loads(done.stdout)
    return took, peak


def run_client(address: str, replications: int) -> None:
    study = msgspec.structs.replace(
        PAPER, policies=[entice.EpsilonGreedy(c=5)], replications=replications, checkpoints=200
    )
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run_in_folder(study, folder, cluster=address, progress=False)
        took = time.perf_counter() - start
    print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def model(workers: int, block: Cost, duration: float) -> tuple[float, str]:
    """Return the modelled share of the ideal speed, and the bottleneck.

    The work is W core seconds in n = W / b blocks of b seconds. The w workers need W / w, and b
    more for the last block. Scheduler and client each need n times their cost of a block, at the
    same time. The slowest of the three determines the speed.
    """
    work = MANY_HOURS * 3600
    needs = {
        "workers": work / workers + duration,
        "scheduler": work / duration * block.scheduler,
        "client": work / duration * block.client,
    }
    slowest = max(needs, key=lambda role: needs[role])
    return work / workers / needs[slowest], slowest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="shorter runs, with inaccurate results"
    )
    parser.add_argument("--client", nargs=2, metavar=("ADDRESS", "REPLICATIONS"))
    options = parser.parse_args()
    if options.client:
        run_client(options.client[0], int(options.client[1]))
        return
    console = Console(highlight=False)
    quick = options.quick
    with tempfile.TemporaryDirectory() as folder, dask_cluster(Path(folder), workers=2) as cluster:
        threads, ratios = overhead(cluster, 3 if quick else 20, 1 if quick else 3)
        text = ", ".join(f"{ratio:.3f}" for ratio in sorted(ratios))
        console.print(f"Two threads: {threads:.1f} s. Two workers / two threads: {text}")
        found = costs(cluster, 300 if quick else 3_000)
        for kind, block in found.items():
            console.print(
                f"A {kind} block: scheduler {1e3 * block.scheduler:.2f} ms, client "
                f"{1e3 * block.client:.2f} ms of CPU"
            )
        for replications in (20_000, 100_000) if quick else (100_000, 1_000_000):
            took, peak = memory(cluster, replications)
            console.print(
                f"{replications:,} replications × 200 checkpoints: client at most {peak:.0f} MB, "
                f"{took:.0f} s"
            )
    durations = (0.2, 1.0, 3.0, 10.0)
    table = Table(title=f"Model: share of the ideal speed, {MANY_HOURS:,} core hours of work")
    table.add_column("workers", justify="right")
    table.add_column("study")
    for duration in durations:
        table.add_column(f"blocks of {duration:g} s", justify="right")
    for workers in WORKERS:
        for kind, block in found.items():
            shares = [model(workers, block, duration) for duration in durations]
            table.add_row(
                f"{workers:,}", kind, *(f"{share:.0%} ({role})" for share, role in shares)
            )
    console.print(table)


if __name__ == "__main__":
    main()
