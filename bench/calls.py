"""The cost of whole calls of `entice.simulate`, compared with C++: `make bench`.

`speed.py` measures inner loops. Here a call does everything that a user waits for: validation,
kernels that are already compiled, threads, and the metrics of 200 checkpoints. The frames of the
result are built when they are first read, so they have a column of their own, "and frames": the
call, and reading `final` and `curves`. Three tables of CPU time on one thread:

- whole calls against the inner loops of the C++ references, which record only the last round;
- the fixed cost of a call: one replication of as many rounds as there are arms;
- 200 checkpoints, the default, against one.

Calls and references alternate; the fastest of several repetitions counts.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from speed import EXPERT, SEED, SLOPE, TUNED, CppEngine, Row, compile_references

import entice
from entice.policies import Policy

POLICIES: tuple[Policy, ...] = (
    entice.UCB(),
    entice.EpsilonGreedy(c=5),
    entice.ThompsonSampling(),
)
HORIZON = 20_000
REPEATS, CHECKPOINT_REPEATS, FIXED_REPEATS = 7, 3, 60


class CallTime(NamedTuple):
    """The CPU seconds of a call."""

    call: float
    and_frames: float
    """The call, and reading the frames of its result."""


def call(row: Row, replications: int, checkpoints: int = 200) -> CallTime:
    """Call `simulate`, and read the frames of its result."""
    arms = entice.Gaussian(row.means.tolist())
    start = time.process_time()
    result = entice.simulate(
        arms=arms, policies=[row.policy], drifts=[entice.LinearDrift(SLOPE)],
        horizon=row.horizon, replications=replications, seed=SEED, checkpoints=checkpoints,
        threads=1, progress=False,
    )  # fmt: skip
    called = time.process_time()
    _ = result.final, result.curves
    return CallTime(called - start, time.process_time() - start)


def fastest(times: list[CallTime]) -> CallTime:
    """Return the minimum of each time."""
    return CallTime(*map(min, zip(*times, strict=True)))


def new_table(title: str, *headings: str) -> Table:
    """Return an empty table, with numbers to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("policy", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def whole_calls(programs: dict[str, Path]) -> Table:
    """Compare calls with the references, in nanoseconds per round and replication."""
    title = "CPU ns per round and replication, one thread: whole calls, 200 checkpoints"
    ratios = [f"/ {name.removeprefix('cpp_')}" for name in programs]
    table = new_table(title, "K", "runs", "call", "and frames", *programs, *ratios)
    for arms, replications in ((9, 400), (1_000, 24)):
        for policy in POLICIES:
            row = Row(policy, arms, HORIZON)
            references = {name: CppEngine(row, program) for name, program in programs.items()}
            call(row, 2)
            ours: list[CallTime] = []
            theirs: dict[str, list[float]] = {name: [] for name in references}
            for _ in range(REPEATS):
                ours.append(call(row, replications))
                for name, reference in references.items():
                    theirs[name].append(reference.run(replications).seconds)
            unit = 1e9 / (HORIZON * replications)
            costs = [seconds * unit for seconds in (*fastest(ours), *map(min, theirs.values()))]
            shown = [f"{cost:.3g}" if cost < 100 else f"{cost:,.0f}" for cost in costs]
            shares = [f"{costs[0] / cost:.2g}" for cost in costs[2:]]
            table.add_row(policy.label, f"{arms:,}", f"{replications}", *shown, *shares)
    return table


def fixed_cost() -> Table:
    """Measure calls that simulate almost nothing."""
    table = new_table("CPU ms of a call with one replication of 9 rounds", "call", "and frames")
    for policy in POLICIES:
        row = Row(policy, 9, 9)
        least = fastest([call(row, 1) for _ in range(FIXED_REPEATS)])
        table.add_row(policy.label, *(f"{seconds * 1e3:.1f}" for seconds in least))
    return table


def checkpoints() -> Table:
    """Compare the default number of checkpoints with a single one, over 6,400 replications."""
    title = "CPU ns per round and replication of whole calls, K = 9, 6,400 replications"
    headings = "1 checkpoint", "200 checkpoints", "more", "and frames", "more"
    table = new_table(title, *headings)
    replications = 6_400
    for policy in POLICIES:
        row = Row(policy, 9, HORIZON)
        times: dict[int, list[CallTime]] = {1: [], 200: []}
        for _ in range(CHECKPOINT_REPEATS):
            for count, seconds in times.items():
                seconds.append(call(row, replications, count))
        unit = 1e9 / (HORIZON * replications)
        one, many = map(fastest, times.values())
        shown = [f"{one.call * unit:.3g}"]
        for less, more in zip(one, many, strict=True):
            shown += [f"{more * unit:.3g}", f"{more / less - 1:+.0%}"]
        table.add_row(policy.label, *shown)
    return table


def main() -> None:
    """Print the three tables."""
    console = Console()
    console.width = max(console.width, 110)
    with tempfile.TemporaryDirectory() as folder:
        programs = compile_references(Path(folder))
        if not programs:
            console.print("g++ is not installed: the C++ columns are omitted.")
        chosen = {name: programs[name] for name in (TUNED, EXPERT) if name in programs}
        console.print(whole_calls(chosen))
    console.print(fixed_cost())
    console.print(checkpoints())


if __name__ == "__main__":
    main()
