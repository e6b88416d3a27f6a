"""The cost of a round against arms, rounds and threads: `make bench`.

Draws docs/scaling.png: CPU nanoseconds per round against K at T = 20,000 (or 20 K, if that is more)
and against T at K = 9, on one thread, and the speed-up of a whole study on more threads (wall
clock). The instance is that of `speed.py`.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from rich.console import Console

import entice
from entice.policies import Policy
from entice.study.results.plots import COLOURS, figure_style
from entice.study.running.cell import Cell

ARMS = (9, 30, 100, 300, 1_000, 3_000, 10_000)
HORIZONS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
POLICIES: dict[str, Policy] = {
    "UCB": entice.UCB(),
    "ε-greedy, c = 5": entice.EpsilonGreedy(c=5),
    "Thompson sampling": entice.ThompsonSampling(),
}
ENGINES: dict[Literal["auto", "generic"], str] = {"auto": "fast path", "generic": "kernel"}
REPEAT_SECONDS, REPEATS = 0.3, 3

Points = dict[tuple[str, str], list[tuple[int, float]]]


def study(
    policy: Policy, engine: Any, arms: int, horizon: int, replications: int = 1
) -> entice.Study:
    """Return a study of one cell: the paper's arms, or another number in the same range."""
    means = 0.9 - 0.8 * np.arange(arms) / (arms - 1)
    return entice.Study(
        arms=entice.Gaussian(means.tolist()), policies=[policy], drifts=[entice.LinearDrift(0.5)],
        horizon=horizon, replications=replications, seed=7, checkpoints=1, engine=engine,
    )  # fmt: skip


def nanoseconds(policy: Policy, engine: Any, arms: int, horizon: int) -> float:
    """Return CPU time per round on one thread, the least of a few repetitions."""
    spec = study(policy, engine, arms, horizon)
    cell = Cell(spec, policy, spec.drifts[0], stop=np.zeros(1, dtype=np.int64))
    replications, seconds = 1, 0.0
    while True:
        arrays = cell.allocate(replications)
        start = time.process_time()
        cell.run(0, arrays)
        seconds = time.process_time() - start
        if seconds > REPEAT_SECONDS / 4:
            break
        replications *= 2
    for _ in range(REPEATS - 1 if seconds < 2 else 0):
        start = time.process_time()
        cell.run(0, arrays)
        seconds = min(seconds, time.process_time() - start)
    return seconds / (replications * horizon) * 1e9


def costs_by(variable: Literal["arms", "horizon"], console: Console) -> Points:
    """Measure the cost of a round against the number of arms or of rounds."""
    points: Points = {}
    for size in ARMS if variable == "arms" else HORIZONS:
        arms, horizon = (size, max(20_000, 20 * size)) if variable == "arms" else (9, size)
        for name, policy in POLICIES.items():
            for engine, label in ENGINES.items():
                cost = nanoseconds(policy, engine, arms, horizon)
                points.setdefault((name, label), []).append((size, cost))
        console.print(
            f"{variable} {size:>10,}: "
            + ", ".join(f"{name} {label} {p[-1][1]:.3g}" for (name, label), p in points.items())
        )
    return points


def speedups(console: Console) -> Points:
    """Measure the speed-up of a study on more threads."""
    cores = os.cpu_count() or 1
    points: Points = {}
    for name, policy in POLICIES.items():
        # About two seconds on one thread, in many blocks.
        cost = nanoseconds(policy, "auto", 9, 20_000)
        spec = study(policy, "auto", 9, 20_000, round(2e9 / (cost * 20_000)))
        walls = {}
        for threads in range(1, cores + 1):
            walls[threads] = min(_wall(spec, threads) for _ in range(REPEATS))
        points[name, "fast path"] = [(n, walls[1] / wall) for n, wall in walls.items()]
        console.print(
            f"{name}: " + ", ".join(f"{n} threads × {s:.2f}" for n, s in points[name, "fast path"])
        )
    return points


def _wall(spec: entice.Study, threads: int) -> float:
    start = time.perf_counter()
    entice.run(spec, threads=threads, progress=False)
    return time.perf_counter() - start


def draw(by_arms: Points, by_rounds: Points, by_threads: Points) -> Figure:
    """Draw the three panels."""
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=(3, 3, 2))
    colours = dict(zip(POLICIES, COLOURS, strict=False))
    for ax, points in zip(axes, (by_arms, by_rounds, by_threads), strict=True):
        for (name, label), line in points.items():
            style = {"fast path": "-o", "kernel": "--o"}[label]
            ax.plot(*zip(*line, strict=True), style, color=colours[name], markersize=3.5,
                    linewidth=1.4, label=f"{name}, {label}")  # fmt: skip
    for ax, title, unit in (
        (axes[0], "More arms", "arms K, at T = 20,000 or 20 K"),
        (axes[1], "More rounds", "rounds T, at K = 9"),
    ):
        ax.set(xscale="log", yscale="log", title=title, xlabel=unit)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda ns, _: f"{ns:,g}"))
    axes[0].set_ylabel("CPU ns per round, one thread")
    most = max(n for n, _ in next(iter(by_threads.values())))
    axes[2].plot([1, most], [1, most], color="#9ca3af", linewidth=1, zorder=0)
    axes[2].set(title="More threads", xlabel="threads", ylabel="speed-up",
                xticks=range(1, most + 1))  # fmt: skip
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def main() -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    home = Path(__file__).parent.parent / "docs"
    parser.add_argument("--out", type=Path, default=home, help="folder for the figure")
    out = parser.parse_args().out
    console = Console(highlight=False, soft_wrap=True)
    with figure_style():
        figure = draw(costs_by("arms", console), costs_by("horizon", console), speedups(console))
        figure.savefig(out / "scaling.png")
    console.print(f"Figure: {out / 'scaling.png'}")


if __name__ == "__main__":
    main()
