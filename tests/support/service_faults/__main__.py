"""`make faults`: run all fault-injection trials at full length, print a table, and record it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

# The tests have their own kernel cache, shared by all processes.
os.environ.setdefault(
    "ENTICE_CACHE_DIR", str(Path(__file__).parents[3] / ".pytest_cache" / "kernels")
)

from rich.console import Console
from rich.table import Table

from entice.service.operations.fault_report import FaultTrial
from service_faults.outcome import Outcome
from service_faults.record import as_trial, current_version, record

TRIALS = (
    "race", "kill", "power_loss", "reordering", "postgres_restart", "postgres_silence",
    "io_errors", "bit_flips", "clock_jumps", "fuzzing", "replay", "slow_clients", "silent_logs",
    "webhooks",
)  # fmt: skip


def run_trial(name: str, long: bool) -> FaultTrial:
    """Run one trial. An exception counts as a failure."""
    version = current_version()
    start = time.perf_counter()
    try:
        outcome: Outcome = import_module(f"service_faults.trials.{name}").run(long)
    except Exception as error:
        outcome = Outcome(name, "", f"error: {error!r}", "", False)
    return as_trial(name, outcome, time.perf_counter() - start, version)


def table(trials: Iterable[FaultTrial]) -> Table:
    """Format the trials for a terminal."""
    grid = Table("test", "tried", "result", "control", "passed", "seconds", show_lines=True)
    for trial in trials:
        passed = "[green]yes[/]" if trial.passed else "[red]NO[/]"
        cells = (trial.name, trial.tried, trial.result, trial.control)
        grid.add_row(*(cell.replace("[", r"\[") for cell in cells), passed, f"{trial.seconds:,}")
    return grid


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    """Exit with an exception, so that servers and folders are cleaned up."""
    sys.exit(128 + number)


def main() -> int:
    """Run the selected trials."""
    parser = argparse.ArgumentParser(prog="service_faults", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=TRIALS, help="run only this trial; can be repeated"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--short", action="store_true", help="run the short versions, as in CI")
    kind.add_argument(
        "--record", action="store_true",
        help="replace their results in faults.json and in docs/explanation/promises.md",
    )  # fmt: skip
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _exit)
    with tempfile.TemporaryDirectory(prefix="entice-state-") as state:
        os.environ["ENTICE_STATE_DIR"] = state  # the tokens of the servers
        return run_trials(options)


def run_trials(options: argparse.Namespace) -> int:
    """Run the selected trials, record each if asked to, and return the exit code."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    trials: list[FaultTrial] = []
    for name in options.only or TRIALS:
        console.print(f"{name} …")
        trials.append(run_trial(name, not options.short))
        if options.record:
            record(trials[-1:], TRIALS)
    console.print(table(trials))
    return 0 if all(trial.passed for trial in trials) else 1


if __name__ == "__main__":
    sys.exit(main())
