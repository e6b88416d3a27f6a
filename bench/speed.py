"""How fast Entice is, next to NumPy and to C++: `make bench`.

One table of CPU nanoseconds per round and replication: Entice's fast paths and its generic
kernel, NumPy over many replications at once, and three references in C++ (`reference/`, compiled
when g++ is there): as a textbook has it, tuned, and by somebody who does this for a living.
Gaussian arms of unit noise with means from 0.9 down to 0.1, linear drift 0.5, compensation and
drift accounted for, each arm once first.

Everyone has one thread and is charged CPU time. The engines of a row take turns, several times,
each long enough to be measured, and the fastest turn counts. What is made once for all
replications (machine code, tables) is not charged to anyone. So that nobody is fast by doing
something else, each engine's regret and compensation are held against the generic kernel's; if
one is off, the bench says so and fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# One thread for everyone; NumPy reads these when it is imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import numpy.typing as npt
import numpy_plain
from rich import box
from rich.console import Console
from rich.table import Table
from scipy import stats  # type: ignore[import-untyped]

import entice
from entice.policies import Policy
from entice.study.running.cell import Cell

HERE = Path(__file__).parent
SLOPE = 0.5
SEED = 7
TURNS, NUMPY_TURNS = 5, 2
TURN_SECONDS = 0.4
ODDS = 2 * float(stats.norm.sf(4))
"""Chance that one correct engine is taken for wrong in one comparison: four standard errors."""

HEADINGS = {
    (FAST := "fast"): "Entice,\nfast",
    (GENERIC := "generic"): "Entice,\ngeneric",
    (NUMPY := "numpy"): "NumPy",
    (TEXTBOOK := "cpp_textbook"): "C++,\ntextbook",
    (TUNED := "cpp_tuned"): "C++,\ntuned",
    (EXPERT := "cpp_expert"): "C++,\nexpert",
}
CPP = (TEXTBOOK, TUNED, EXPERT)
RATIOS = ((FAST, TUNED), (FAST, EXPERT), (GENERIC, TUNED), (GENERIC, EXPERT))


@dataclass(frozen=True)
class Sample:
    """How many values there were, their mean and their variance (that of one value)."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0

    @classmethod
    def of(cls, values: npt.NDArray[np.float64]) -> Sample:
        """Sum up some values, at least two."""
        return cls(values.size, float(values.mean()), float(values.var(ddof=1)))

    def __add__(self, other: Sample) -> Sample:
        if self.count == 0:
            return other
        count, off = self.count + other.count, other.mean - self.mean
        squares = (self.count - 1) * self.variance + (other.count - 1) * other.variance
        squares += off * off * self.count * other.count / count
        return Sample(count, self.mean + off * other.count / count, squares / (count - 1))

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {(self.variance / self.count) ** 0.5:.2f}"

    def agrees(self, other: Sample) -> bool:
        """Whether the means may well be equal: four standard errors, wider for few values."""
        if self.variance == other.variance == 0:
            return self.mean == other.mean
        test = stats.ttest_ind_from_stats(
            self.mean, self.variance**0.5, self.count,
            other.mean, other.variance**0.5, other.count, equal_var=False,
        )  # fmt: skip
        return bool(test.pvalue >= ODDS)


@dataclass(frozen=True)
class Turn:
    """What one turn of an engine cost, and what came out of its replications."""

    seconds: float = 0.0
    regret: Sample = Sample()
    compensation: Sample = Sample()


@dataclass(frozen=True)
class Row:
    """One study that everybody runs."""

    policy: Policy
    arms: int
    horizon: int

    @property
    def means(self) -> npt.NDArray[np.float64]:
        """True means; for nine arms, the paper's."""
        return 0.9 - 0.8 * np.arange(self.arms) / (self.arms - 1)

    @property
    def name(self) -> str:
        """What NumPy and C++ call the policy."""
        kinds = {"UCB": "ucb", "EpsilonGreedy": "epsilon_greedy"}
        return kinds.get(type(self.policy).__name__, "thompson_sampling")

    @property
    def c(self) -> float:
        """ε-greedy's constant, or any number for the others."""
        return self.policy.c if isinstance(self.policy, entice.EpsilonGreedy) else 1.0


def rows(quick: bool) -> Iterator[Row]:
    """Go through the studies of the table."""
    policies: list[Policy] = [
        entice.UCB(),
        entice.EpsilonGreedy(c=5),
        entice.EpsilonGreedy(c=100),
        entice.ThompsonSampling(),
    ]
    sizes = [(9, 20_000), (100, 20_000), (1_000, 20_000), (9, 200_000), (9, 2_000_000)]
    for arms, horizon in sizes[:1] if quick else sizes:
        for policy in policies:
            yield Row(policy, arms, horizon)


class Entice:
    """A fast path, or the generic kernel, which runs any policy and drift."""

    turns = TURNS

    def __init__(self, row: Row, fast: bool = False, horizon: int | None = None) -> None:
        drift = entice.LinearDrift(SLOPE)
        study = entice.Study(
            arms=entice.Gaussian(row.means.tolist()), policies=[row.policy], drifts=[drift],
            horizon=horizon or row.horizon, seed=SEED + fast, checkpoints=1,
            engine="auto" if fast else "generic",
        )  # fmt: skip
        self.cell = Cell(study, row.policy, drift, stop=np.zeros(1, dtype=np.int64))
        self.rounds = study.horizon
        self._first = 0

    def turn(self, replications: int) -> Turn:
        """Run the next so many replications."""
        room = self.cell.allocate(replications)
        room.metrics[:] = room.pulls[:] = 0  # the first touch of fresh memory is nobody's cost
        start = time.process_time()
        self.cell.run(self._first, room)
        seconds = time.process_time() - start
        self._first += replications
        last = room.metrics[:, -1]
        return Turn(seconds, Sample.of(last[:, 0]), Sample.of(last[:, 1]))


class Numpy:
    """NumPy over 1,000 replications; where that takes too long, over fewer rounds or replications.

    What a round costs does not depend on t, so a part of the rounds is as good as all of them.
    """

    turns = NUMPY_TURNS

    def __init__(self, row: Row) -> None:
        self._row = row
        self.replications = min(1_000, 100_000 // row.arms)
        rounds = min(row.horizon - row.arms, 180_000_000 // (row.arms * self.replications))
        self.horizon = row.arms + rounds
        # To try each arm once is a single call, for all practical purposes free.
        self.rounds = rounds * row.horizon / (row.horizon - row.arms)
        self._seed = SEED

    def turn(self, replications: int) -> Turn:
        """Run it with a seed of its own, always over all replications at once."""
        row, self._seed = self._row, self._seed + 1
        start = time.process_time()
        result = numpy_plain.simulate(
            row.name, row.means, SLOPE, self.horizon, replications, self._seed, row.c
        )
        seconds = time.process_time() - start
        return Turn(seconds, Sample.of(result["regret"]), Sample.of(result["compensation"]))


class Cpp:
    """One of the references; it measures its own CPU time, without starting up."""

    turns = TURNS

    def __init__(self, row: Row, program: Path) -> None:
        self._row, self._program = row, program
        self.rounds = row.horizon
        self._seed = SEED

    def turn(self, replications: int) -> Turn:
        """Run it with a seed of its own."""
        row, self._seed = self._row, self._seed + 1
        options = (row.name, row.arms, row.horizon, replications, self._seed, row.c, SLOPE)
        done = subprocess.run(
            [self._program, *map(str, options)], check=True, capture_output=True, text=True
        )
        found = json.loads(done.stdout)
        regret, compensation = (
            Sample(replications, found[f"{of}_mean"], found[f"{of}_sem"] ** 2 * replications)
            for of in ("regret", "compensation")
        )
        return Turn(found["cpu_seconds"], regret, compensation)


Engine = Entice | Numpy | Cpp


def compiled_references(folder: Path) -> dict[str, Path]:
    """Compile the C++ references into a folder; none when there is no g++."""
    compiler = shutil.which("g++")
    if compiler is None:
        return {}
    programs = {}
    for engine in CPP:
        name = engine.removeprefix("cpp_")
        programs[engine] = folder / name
        subprocess.run(
            [compiler, "-std=c++17", "-O3", "-march=native", "-o", programs[engine],
             HERE / "reference" / f"{name}.cpp"],
            check=True,
        )  # fmt: skip
    return programs


def enough(engine: Engine) -> int:
    """Find out how many replications fill a turn, at least two."""
    if isinstance(engine, Numpy):
        return engine.replications
    pilot = 2
    seconds = engine.turn(pilot).seconds
    if seconds < 0.05 * TURN_SECONDS:  # too short to tell
        pilot *= 10
        seconds = engine.turn(pilot).seconds
    wanted = pilot * TURN_SECONDS / max(seconds, 1e-6)
    return max(2, round(wanted))


@dataclass(frozen=True)
class Measured:
    """What an engine showed in all its turns of one row."""

    nanoseconds: float
    regret: Sample
    compensation: Sample


def measure(engines: dict[str, Engine]) -> dict[str, Measured]:
    """Let the engines of a row take turns."""
    counts = {name: enough(engine) for name, engine in engines.items()}
    turns: dict[str, list[Turn]] = {name: [] for name in engines}
    for number in range(TURNS):
        for name, engine in engines.items():
            if number < engine.turns:
                turns[name].append(engine.turn(counts[name]))
    return {
        name: Measured(
            min(turn.seconds for turn in turns[name]) / (engine.rounds * counts[name]) * 1e9,
            sum((turn.regret for turn in turns[name]), Sample()),
            sum((turn.compensation for turn in turns[name]), Sample()),
        )
        for name, engine in engines.items()
    }


def engines_of(row: Row, programs: dict[str, Path]) -> dict[str, Engine]:
    """Get everyone ready who can run this row, in the order of the columns."""
    engines: dict[str, Engine] = {FAST: Entice(row, fast=True), GENERIC: Entice(row)}
    engines[NUMPY] = Numpy(row)
    for name, program in programs.items():
        engines[name] = Cpp(row, program)
    return engines


class Doubts:
    """Compare everyone's results with the generic kernel's, and remember what did not fit."""

    def __init__(self) -> None:
        self.comparisons = 0
        self.messages: list[str] = []

    def check(
        self, row: Row, engines: dict[str, Engine], found: dict[str, Measured]
    ) -> dict[str, str]:
        """Return what is wrong with each engine of the row of which something is."""
        wrong = {}
        for name, engine in engines.items():
            if name == GENERIC:
                continue
            truth: Turn | Measured = found[GENERIC]
            if isinstance(engine, Numpy) and engine.horizon != row.horizon:
                truth = Entice(row, horizon=engine.horizon).turn(60)
            for what in ("regret", "compensation"):
                ours: Sample = getattr(truth, what)
                theirs: Sample = getattr(found[name], what)
                self.comparisons += 1
                if not theirs.agrees(ours):
                    wrong[name] = "is off"
                    self.messages.append(
                        f"{row.policy.label}, K = {row.arms:,}, T = {row.horizon:,}: "
                        f"{what} is {theirs} in {name}, {ours} in the generic kernel"
                    )
        return wrong


def new_table(columns: list[str]) -> Table:
    """Make the empty table."""
    title = "CPU ns per round and replication, one thread; linear drift 0.5, compensation"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    ratios = [f"{a}\n/ {b.removeprefix('cpp_')}" for a, b in RATIOS if b in columns]
    for heading in ("policy", "K", "T", *(HEADINGS[name] for name in columns), *ratios):
        side: Literal["left", "right"] = "left" if heading == "policy" else "right"
        table.add_column(heading, justify=side, no_wrap=True)
    return table


def add_row(table: Table, columns: list[str], row: Row, found: dict[str, Measured]) -> None:
    """Enter a row: times, then ratios."""
    cells = [row.policy.label, f"{row.arms:,}", f"{row.horizon:,}"]
    for name in columns:
        spent = found[name].nanoseconds if name in found else None
        cells.append("" if spent is None else f"{spent:.3g}" if spent < 100 else f"{spent:,.0f}")
    for a, b in RATIOS:
        if b in columns:
            cells.append(f"{found[a].nanoseconds / found[b].nanoseconds:.2g}")
    table.add_row(*cells)


def bench(quick: bool, console: Console, say: Callable[[str], None]) -> tuple[Table, Doubts, str]:
    """Measure all rows: the table, what is doubtful about it, and the same as JSON."""
    doubts, plain = Doubts(), []
    with tempfile.TemporaryDirectory() as folder:
        programs = compiled_references(Path(folder))
        if not programs:
            console.print("There is no g++ here, so the columns of C++ are left out.")
        columns = [name for name in HEADINGS if programs or name not in CPP]
        table = new_table(columns)
        for row in rows(quick):
            say(f"{row.policy.label}, K = {row.arms:,}, T = {row.horizon:,}")
            engines = engines_of(row, programs)
            found = measure(engines)
            add_row(table, columns, row, found)
            wrong = doubts.check(row, engines, found)
            if wrong:
                table.add_row(
                    "unequal: see below", "", "", *(wrong.get(c, "") for c in columns), style="red"
                )
            for name, measured in found.items():
                plain.append({
                    "policy": row.policy.label, "K": row.arms, "T": row.horizon,
                    "engine": name, "ns_per_round": measured.nanoseconds,
                })  # fmt: skip
    return table, doubts, json.dumps({"rows": plain}, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Print the table, write it down, and say by the exit status whether it compares equals."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only K = 9 and T = 20,000")
    parser.add_argument(
        "--json", type=Path, default=HERE / "speed.json", help="where the same goes as JSON"
    )
    options = parser.parse_args()
    console = Console()
    console.width = max(console.width, 136)  # the table is as wide as that
    with console.status("Getting ready") as status:
        table, doubts, text = bench(options.quick, console, status.update)
    console.print(table)
    options.json.write_text(text, encoding="utf-8")
    console.print(
        f"{doubts.comparisons} comparisons of regret and compensation with the generic kernel's, "
        f"each at four standard errors (Welch's t where replications are few): if all engines are "
        f"right, some comparison fails with probability {doubts.comparisons * ODDS:.2g} at most."
    )
    for message in doubts.messages:
        console.print(f"Unequal: {message}", style="red")
    return 1 if doubts.messages else 0


if __name__ == "__main__":
    sys.exit(main())
