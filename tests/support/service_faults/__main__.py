"""`make faults`: run all fault-injection trials at full length, and print a table."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

# The tests have their own kernel cache, shared by all processes.
os.environ.setdefault(
    "ENTICE_CACHE_DIR", str(Path(__file__).parents[3] / ".pytest_cache" / "kernels")
)

from rich.console import Console
from rich.table import Table

import entice
from service_faults.outcome import Outcome

TRIALS = (
    "race", "kill", "power_loss", "reordering", "postgres_restart", "postgres_silence",
    "io_errors", "bit_flips", "clock_jumps", "fuzzing", "replay", "slow_clients",
)  # fmt: skip


class TrialResult(NamedTuple):
    """A trial and its duration."""

    outcome: Outcome
    seconds: float


def run_trial(name: str, long: bool) -> TrialResult:
    """Run one trial. An exception counts as a failure."""
    start = time.perf_counter()
    try:
        outcome: Outcome = import_module(f"service_faults.trials.{name}").run(long)
    except Exception as error:
        outcome = Outcome(name, "", f"error: {error!r}", "", False)
    return TrialResult(outcome, time.perf_counter() - start)


def table(results: Iterable[TrialResult]) -> Table:
    """Format the outcomes for a terminal."""
    grid = Table("test", "tried", "result", "control", "passed", "seconds", show_lines=True)
    for outcome, seconds in results:
        passed = "[green]yes[/]" if outcome.passed else "[red]NO[/]"
        cells = (outcome.name, outcome.tried, outcome.result, outcome.control)
        grid.add_row(*(cell.replace("[", r"\[") for cell in cells), passed, f"{seconds:,.0f}")
    return grid


def markdown(results: Iterable[TrialResult]) -> str:
    """Format the outcomes as Markdown for the docs."""
    lines = [
        "| test | tried | result | control, which must fail | passed | seconds |",
        "|---|---|---|---|---|---:|",
    ]
    for outcome, seconds in results:
        cells = (outcome.name, outcome.tried, outcome.result, outcome.control)
        text = " | ".join(" ".join(cell.replace("|", r"\|").split()) for cell in cells)
        lines.append(f"| {text} | {'yes' if outcome.passed else '**no**'} | {seconds:,.0f} |")
    python = platform.python_version()
    lines += [
        "",
        f"Entice {entice.__version__}, Python {python}, {os.cpu_count()} cores, "
        f"{platform.system()} on {platform.machine()}.",
        "",
    ]
    return "\n".join(lines)


def as_json(results: Iterable[TrialResult], long: bool, note: str) -> str:
    """Format the outcomes as JSON, as shipped in the package for the studio."""
    python, cores = platform.python_version(), os.cpu_count()
    document = {
        "entice": entice.__version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "long": long,
        "machine": f"Python {python}, {cores} cores, {platform.system()} on {platform.machine()}",
        "note": note,
        "trials": [
            {**outcome._asdict(), "seconds": round(seconds)} for outcome, seconds in results
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    """Exit with an exception, so that servers and folders are cleaned up."""
    sys.exit(128 + number)


def main() -> int:
    """Run the selected trials."""
    parser = argparse.ArgumentParser(prog="service_faults", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=TRIALS, help="run only this trial; can be repeated"
    )
    parser.add_argument("--short", action="store_true", help="run the short versions, as in CI")
    parser.add_argument(
        "--out", type=Path, action="append", default=[],
        help="output file, Markdown or JSON by its extension; can be repeated",
    )  # fmt: skip
    parser.add_argument("--note", default="", help="note for readers of the JSON")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _exit)
    with tempfile.TemporaryDirectory(prefix="entice-state-") as state:
        os.environ["ENTICE_STATE_DIR"] = state  # the tokens of the servers
        return run_trials(options)


def run_trials(options: argparse.Namespace) -> int:
    """Run the selected trials, write the table after each, and return the exit code."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    results: list[TrialResult] = []
    for name in options.only or TRIALS:
        console.print(f"{name} …")
        results.append(run_trial(name, not options.short))
        for out in options.out:
            as_text = out.suffix != ".json"
            text = (
                markdown(results) if as_text else as_json(results, not options.short, options.note)
            )
            out.write_text(text, encoding="utf-8")
    console.print(table(results))
    return 0 if all(one.outcome.passed for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
