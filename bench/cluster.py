"""What a cluster costs over threads, measured here; and a model of 1,000 workers.

    python bench/cluster.py            # `make bench-cluster`, five minutes on an idle machine

Starts a Dask scheduler and two workers of one thread each, as processes on this machine.

- *Overhead*: the same study on two threads of one process and on the two workers, in turns.
- *A block*: what one costs the scheduler and the client beside its work: a small one, which does
  next to nothing, and one of a large study, whose digest is fetched, kept in a folder and summed.
- *Memory*: of the client, in a study of 1,000,000 replications × 200 checkpoints.
- *Model*: of the time that a long study takes on more workers than there are here.
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
"""Core hours of the study that the model is asked about."""


class Cost(NamedTuple):
    """CPU seconds of one block, beside its work."""

    scheduler: float
    client: float


def seconds(study: entice.Study, **how: Any) -> float:
    began = time.perf_counter()
    entice.run(study, progress=False, **how)
    return time.perf_counter() - began


def overhead(cluster: DaskCluster, wanted: float, turns: int) -> tuple[float, list[float]]:
    """Seconds on two threads, and the ratios of cluster to threads, turn by turn."""
    with Client(cluster.address, set_as_default=False) as client:
        some = msgspec.structs.replace(PAPER, replications=4_000)
        for how in ({"threads": 2}, {"cluster": client}):  # both have compiled before we look
            seconds(some, **how)
        scale = wanted / seconds(some, threads=2)
        study = msgspec.structs.replace(some, replications=round(4_000 * scale))
        pairs = [(seconds(study, threads=2), seconds(study, cluster=client)) for _ in range(turns)]
    return statistics.median(a for a, _ in pairs), [b / a for a, b in pairs]


def costs(cluster: DaskCluster, blocks: int) -> dict[str, Cost]:
    """Run many blocks that take next to no time, and see whose time they take all the same."""
    small = msgspec.structs.replace(
        PAPER, policies=[entice.Greedy()], horizon=9, checkpoints=1, replications=blocks
    )
    # As many rounds as checkpoints: digests as large as those of long runs, from short ones.
    large = msgspec.structs.replace(
        PAPER, policies=[entice.Greedy()], horizon=200, replications=blocks // 10 * 2_000
    )
    return {"small": cost(cluster, small, 1), "large": cost(cluster, large, 2_000)}


def cost(cluster: DaskCluster, study: entice.Study, size: int) -> Cost:
    """What each block of so many replications costs."""
    scheduler = psutil.Process(cluster.scheduler.pid)
    with Client(cluster.address, set_as_default=False) as client:
        for _ in range(2):  # the first time is for compiling
            with tempfile.TemporaryDirectory() as folder:
                before, own = sum(scheduler.cpu_times()[:2]), time.process_time()
                run = StudyRun(study, DaskExecutor(client), Path(folder), block_size=size)
                run.run(lambda done, total: None)
        used = sum(scheduler.cpu_times()[:2]) - before
        blocks = len(run.blocks)
        return Cost(used / blocks, (time.process_time() - own) / blocks)


def memory(cluster: DaskCluster, replications: int) -> tuple[float, float]:
    """Seconds and peak MB of a client that runs a study in a process of its own."""
    command = [sys.executable, __file__, "--client", cluster.address, str(replications)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    took, peak = json.loads(done.stdout)
    return took, peak


def be_client(address: str, replications: int) -> None:
    study = msgspec.structs.replace(
        PAPER, policies=[entice.EpsilonGreedy(c=5)], replications=replications, checkpoints=200
    )
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run_in_folder(study, folder, cluster=address, progress=False)
        took = time.perf_counter() - began
    print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def modelled(workers: int, block: Cost, lasts: float) -> tuple[float, str]:
    """The share of the ideal speed, and what holds it back: a model, measured nowhere.

    All work is W core seconds in blocks of b seconds, n = W / b of them. Workers need W / w, and
    b more, since the last block is waited for. Scheduler and client each need n times what a
    block costs them, at the same time as the others. The slowest of the three decides.
    """
    work = MANY_HOURS * 3600
    needs = {
        "workers": work / workers + lasts,
        "scheduler": work / lasts * block.scheduler,
        "client": work / lasts * block.client,
    }
    slowest = max(needs, key=lambda who: needs[who])
    return work / workers / needs[slowest], slowest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter runs: a look, not a result")
    parser.add_argument("--client", nargs=2, metavar=("ADDRESS", "REPLICATIONS"))
    given = parser.parse_args()
    if given.client:
        be_client(given.client[0], int(given.client[1]))
        return
    console = Console(highlight=False)
    quick = given.quick
    with tempfile.TemporaryDirectory() as folder, dask_cluster(Path(folder), workers=2) as cluster:
        threads, ratios = overhead(cluster, 3 if quick else 20, 1 if quick else 3)
        told = ", ".join(f"{ratio:.3f}" for ratio in sorted(ratios))
        console.print(f"Two threads: {threads:.1f} s. Two workers / two threads: {told}")
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
    lengths = (0.2, 1.0, 3.0, 10.0)
    table = Table(title=f"Model: share of the ideal speed, {MANY_HOURS:,} core hours of work")
    table.add_column("workers", justify="right")
    table.add_column("study")
    for lasts in lengths:
        table.add_column(f"blocks of {lasts:g} s", justify="right")
    for workers in WORKERS:
        for kind, block in found.items():
            shares = [modelled(workers, block, lasts) for lasts in lengths]
            table.add_row(f"{workers:,}", kind, *(f"{share:.0%} ({who})" for share, who in shares))
    console.print(table)


if __name__ == "__main__":
    main()
