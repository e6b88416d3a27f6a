"""The speed of Entice compared with NumPy and C++: `make bench`.

One table of CPU nanoseconds per round and replication: Entice's fast paths and its generic
kernel, NumPy over many replications at once, and three references in C++ (`reference/`, compiled
if g++ is installed): textbook, tuned, and expert. Gaussian arms of unit noise with means from 0.9
down to 0.1, linear drift 0.5, with compensation and drift, each arm once first. Then the fast paths
and the kernel on Bernoulli arms with the same means, feedback projected onto 0 to 1.

CPU time on one thread. The engines of a row alternate, several times, each long enough to be
measured, and the fastest repetition counts. Work that is done once for all replications (machine
code, tables) is not included. To make sure that all engines compute the same, the regret and
compensation of each are compared with the generic kernel's; if one deviates, the benchmark reports
it and fails.
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

# One thread; NumPy reads these on import.
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
REPEATS, NUMPY_REPEATS = 5, 2
REPEAT_SECONDS = 0.4
FALSE_ALARM = 2 * float(stats.norm.sf(4))
"""Probability that one comparison flags a correct engine: four standard errors."""

HEADINGS = {
    (FAST := "fast"): "Entice,\nfast",
    (GENERIC := "generic"): "Entice,\ngeneric",
    (NUMPY := "numpy"): "NumPy",
    (TEXTBOOK := "cpp_textbook"): "C++,\ntextbook",
    (TUNED := "cpp_tuned"): "C++,\ntuned",
    (EXPERT := "cpp_expert"): "C++,\nexpert",
}
CPP = (TEXTBOOK, TUNED, EXPERT)
RATIOS = ((FAST, GENERIC), (FAST, TUNED), (FAST, EXPERT), (GENERIC, TUNED), (GENERIC, EXPERT))


@dataclass(frozen=True)
class Sample:
    """The number of values, their mean and their variance (that of one value)."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0

    @classmethod
    def of(cls, values: npt.NDArray[np.float64]) -> Sample:
        """Summarise at least two values."""
        return cls(values.size, float(values.mean()), float(values.var(ddof=1)))

    def __add__(self, other: Sample) -> Sample:
        if self.count == 0:
            return other
        count, delta = self.count + other.count, other.mean - self.mean
        squares = (self.count - 1) * self.variance + (other.count - 1) * other.variance
        squares += delta * delta * self.count * other.count / count
        return Sample(count, self.mean + delta * other.count / count, squares / (count - 1))

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {(self.variance / self.count) ** 0.5:.2f}"

    def agrees(self, other: Sample) -> bool:
        """Return whether the means agree within four standard errors (Welch's t-test)."""
        if self.variance == other.variance == 0:
            return self.mean == other.mean
        test = stats.ttest_ind_from_stats(
            self.mean, self.variance**0.5, self.count,
            other.mean, other.variance**0.5, other.count, equal_var=False,
        )  # fmt: skip
        return bool(test.pvalue >= FALSE_ALARM)


@dataclass(frozen=True)
class Repetition:
    """The CPU time of one repetition of an engine, and the results of its replications."""

    seconds: float = 0.0
    regret: Sample = Sample()
    compensation: Sample = Sample()


@dataclass(frozen=True)
class Row:
    """A study that all engines run."""

    policy: Policy
    arms: int
    horizon: int
    bernoulli: bool = False
    """Whether rewards are 0 or 1 and feedback is projected; only Entice's engines run this."""

    @property
    def label(self) -> str:
        """The policy, and the arms unless they are Gaussian."""
        return self.policy.label + (", Bernoulli" if self.bernoulli else "")

    @property
    def means(self) -> npt.NDArray[np.float64]:
        """True means; the paper's for nine arms."""
        return 0.9 - 0.8 * np.arange(self.arms) / (self.arms - 1)

    @property
    def name(self) -> str:
        """The policy's name in NumPy and C++."""
        kinds = {"UCB": "ucb", "EpsilonGreedy": "epsilon_greedy"}
        return kinds.get(type(self.policy).__name__, "thompson_sampling")

    @property
    def c(self) -> float:
        """ε-greedy's constant; ignored by the others."""
        return self.policy.c if isinstance(self.policy, entice.EpsilonGreedy) else 1.0


def rows(quick: bool) -> Iterator[Row]:
    """Iterate over the studies of the table."""
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
    # Without T = 2,000,000: there one run of ε-greedy in 300 has two hundred times the usual regret
    # (it stays with a wrong arm), and the kernel has too few runs for a comparison of means.
    for arms, horizon in sizes[:1] if quick else sizes[:4]:
        for policy in (*policies[:3], entice.Greedy()):
            yield Row(policy, arms, horizon, bernoulli=True)


class EnticeEngine:
    """A fast path, or the generic kernel, which runs any policy and drift."""

    repeats = REPEATS

    def __init__(self, row: Row, fast: bool = False, horizon: int | None = None) -> None:
        drift = entice.LinearDrift(SLOPE)
        study = entice.Study(
            arms=(entice.Bernoulli if row.bernoulli else entice.Gaussian)(row.means.tolist()),
            feedback_range=(0, 1) if row.bernoulli else None, policies=[row.policy], drifts=[drift],
            horizon=horizon or row.horizon, seed=SEED + fast, checkpoints=1,
            engine="auto" if fast else "generic",
        )  # fmt: skip
        self.cell = Cell(study, row.policy, drift, stop=np.zeros(1, dtype=np.int64))
        self.rounds = study.horizon
        self._first = 0

    def run(self, replications: int) -> Repetition:
        """Run the next replications."""
        arrays = self.cell.allocate(replications)
        arrays.metrics[:] = arrays.pulls[:] = 0  # exclude the first access to new memory
        start = time.process_time()
        self.cell.run(self._first, arrays)
        seconds = time.process_time() - start
        self._first += replications
        last = arrays.metrics[:, -1]
        return Repetition(seconds, Sample.of(last[:, 0]), Sample.of(last[:, 1]))


class NumpyEngine:
    """NumPy over 1,000 replications, or over fewer rounds or replications if that takes too long.

    The cost of a round does not depend on t, so some of the rounds represent all of them.
    """

    repeats = NUMPY_REPEATS

    def __init__(self, row: Row) -> None:
        self._row = row
        self.replications = min(1_000, 100_000 // row.arms)
        rounds = min(row.horizon - row.arms, 180_000_000 // (row.arms * self.replications))
        self.horizon = row.arms + rounds
        # Trying each arm once is a single call, whose cost is negligible.
        self.rounds = rounds * row.horizon / (row.horizon - row.arms)
        self._seed = SEED

    def run(self, replications: int) -> Repetition:
        """Run it with a new seed, over all replications at once."""
        row, self._seed = self._row, self._seed + 1
        start = time.process_time()
        result = numpy_plain.simulate(
            row.name, row.means, SLOPE, self.horizon, replications, self._seed, row.c
        )
        seconds = time.process_time() - start
        return Repetition(seconds, Sample.of(result["regret"]), Sample.of(result["compensation"]))


class CppEngine:
    """A C++ reference. It measures its own CPU time, without start-up."""

    repeats = REPEATS

    def __init__(self, row: Row, program: Path) -> None:
        self._row, self._program = row, program
        self.rounds = row.horizon
        self._seed = SEED

    def run(self, replications: int) -> Repetition:
        """Run it with a new seed."""
        row, self._seed = self._row, self._seed + 1
        options = (row.name, row.arms, row.horizon, replications, self._seed, row.c, SLOPE)
        done = subprocess.run(
            [self._program, *map(str, options)], check=True, capture_output=True, text=True
        )
        found = json.loads(done.stdout)
        regret, compensation = (
            Sample(
                replications, found[f"{metric}_mean"], found[f"{metric}_sem"] ** 2 * replications
            )
            for metric in ("regret", "compensation")
        )
        return Repetition(found["cpu_seconds"], regret, compensation)


Engine = EnticeEngine | NumpyEngine | CppEngine


def compile_references(folder: Path) -> dict[str, Path]:
    """Compile the C++ references into a folder. Return none without g++."""
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


def replications_for(engine: Engine) -> int:
    """Return the number of replications that fill a repetition, at least two."""
    if isinstance(engine, NumpyEngine):
        return engine.replications
    pilot = 2
    seconds = engine.run(pilot).seconds
    if seconds < 0.05 * REPEAT_SECONDS:  # too short to measure
        pilot *= 10
        seconds = engine.run(pilot).seconds
    wanted = pilot * REPEAT_SECONDS / max(seconds, 1e-6)
    return max(2, round(wanted))


@dataclass(frozen=True)
class Measured:
    """The results of all repetitions of an engine in one row."""

    nanoseconds: float
    regret: Sample
    compensation: Sample


def measure(engines: dict[str, Engine]) -> dict[str, Measured]:
    """Run the engines of a row alternately."""
    counts = {name: replications_for(engine) for name, engine in engines.items()}
    repetitions: dict[str, list[Repetition]] = {name: [] for name in engines}
    for number in range(REPEATS):
        for name, engine in engines.items():
            if number < engine.repeats:
                repetitions[name].append(engine.run(counts[name]))
    return {
        name: Measured(
            min(r.seconds for r in repetitions[name]) / (engine.rounds * counts[name]) * 1e9,
            sum((r.regret for r in repetitions[name]), Sample()),
            sum((r.compensation for r in repetitions[name]), Sample()),
        )
        for name, engine in engines.items()
    }


def engines_of(row: Row, programs: dict[str, Path]) -> dict[str, Engine]:
    """Return the engines of a row, in the order of the columns."""
    engines: dict[str, Engine] = {FAST: EnticeEngine(row, fast=True), GENERIC: EnticeEngine(row)}
    if row.bernoulli:
        return engines
    engines[NUMPY] = NumpyEngine(row)
    for name, program in programs.items():
        engines[name] = CppEngine(row, program)
    return engines


class Deviations:
    """Compares the results of all engines with the generic kernel's, and collects deviations."""

    def __init__(self) -> None:
        self.comparisons = 0
        self.messages: list[str] = []

    def check(
        self, row: Row, engines: dict[str, Engine], found: dict[str, Measured]
    ) -> dict[str, str]:
        """Return a remark for each engine of the row that deviates."""
        wrong = {}
        for name, engine in engines.items():
            if name == GENERIC:
                continue
            truth: Repetition | Measured = found[GENERIC]
            if isinstance(engine, NumpyEngine) and engine.horizon != row.horizon:
                truth = EnticeEngine(row, horizon=engine.horizon).run(60)
            for metric in ("regret", "compensation"):
                ours: Sample = getattr(truth, metric)
                theirs: Sample = getattr(found[name], metric)
                self.comparisons += 1
                if not theirs.agrees(ours):
                    wrong[name] = "deviates"
                    self.messages.append(
                        f"{row.label}, K = {row.arms:,}, T = {row.horizon:,}: "
                        f"{metric} is {theirs} in {name}, {ours} in the generic kernel"
                    )
        return wrong


def new_table(columns: list[str]) -> Table:
    """Return the empty table."""
    title = "CPU ns per round and replication, one thread; linear drift 0.5, compensation"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    ratios = [f"{a}\n/ {b.removeprefix('cpp_')}" for a, b in RATIOS if b in columns]
    for heading in ("policy", "K", "T", *(HEADINGS[name] for name in columns), *ratios):
        side: Literal["left", "right"] = "left" if heading == "policy" else "right"
        table.add_column(heading, justify=side, no_wrap=True)
    return table


def add_row(table: Table, columns: list[str], row: Row, found: dict[str, Measured]) -> None:
    """Add a row: times, then ratios."""
    cells = [row.label, f"{row.arms:,}", f"{row.horizon:,}"]
    for name in columns:
        cost = found[name].nanoseconds if name in found else None
        cells.append("" if cost is None else f"{cost:.3g}" if cost < 100 else f"{cost:,.0f}")
    for a, b in RATIOS:
        if b in columns:
            ratio = found[a].nanoseconds / found[b].nanoseconds if b in found else None
            cells.append("" if ratio is None else f"{ratio:.2g}")
    table.add_row(*cells)


def bench(
    quick: bool, console: Console, report: Callable[[str], None]
) -> tuple[Table, Deviations, str]:
    """Measure all rows. Return the table, deviations, and the results as JSON."""
    deviations, plain = Deviations(), []
    with tempfile.TemporaryDirectory() as folder:
        programs = compile_references(Path(folder))
        if not programs:
            console.print("g++ is not installed: the C++ columns are omitted.")
        columns = [name for name in HEADINGS if programs or name not in CPP]
        table = new_table(columns)
        for row in rows(quick):
            report(f"{row.label}, K = {row.arms:,}, T = {row.horizon:,}")
            engines = engines_of(row, programs)
            found = measure(engines)
            add_row(table, columns, row, found)
            wrong = deviations.check(row, engines, found)
            if wrong:
                table.add_row(
                    "deviates: see below", "", "", *(wrong.get(c, "") for c in columns), style="red"
                )
            for name, measured in found.items():
                plain.append({
                    "policy": row.label, "K": row.arms, "T": row.horizon,
                    "engine": name, "ns_per_round": measured.nanoseconds,
                })  # fmt: skip
    return table, deviations, json.dumps({"rows": plain}, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Print the table and write it as JSON; return 1 if an engine deviates."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only K = 9 and T = 20,000")
    parser.add_argument(
        "--json", type=Path, default=HERE / "speed.json", help="output file for the results as JSON"
    )
    options = parser.parse_args()
    console = Console()
    console.width = max(console.width, 155)  # the width of the table
    with console.status("Preparing") as status:
        table, deviations, text = bench(options.quick, console, status.update)
    console.print(table)
    options.json.write_text(text, encoding="utf-8")
    console.print(
        f"{deviations.comparisons} comparisons of regret and compensation with the generic "
        "kernel's, each at four standard errors (Welch's t-test): if all engines are correct, some "
        f"comparison fails with probability {deviations.comparisons * FALSE_ALARM:.2g} at most."
    )
    for message in deviations.messages:
        console.print(f"Deviation: {message}", style="red")
    return 1 if deviations.messages else 0


if __name__ == "__main__":
    sys.exit(main())
