"""`make faults`: all trials in their long version, as a table for the terminal and for the docs."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

# Kernels of the tests are kept apart from the user's, and compiled once for all processes.
os.environ.setdefault(
    "ENTICE_CACHE_DIR", str(Path(__file__).parents[3] / ".pytest_cache" / "kernels")
)

from rich.console import Console
from rich.table import Table

import entice
from service_faults.outcome import Outcome

TRIALS = (
    "race", "kill", "power_loss", "reordering", "postgres_restart", "io_errors", "bit_flips",
    "clock_jumps", "fuzzing", "replay",
)  # fmt: skip


class Tried(NamedTuple):
    """A trial, and how long it took."""

    outcome: Outcome
    seconds: float


def attempt(name: str, long: bool) -> Tried:
    """Run one trial; one that breaks off has failed, and the others go on."""
    began = time.perf_counter()
    try:
        outcome: Outcome = import_module(f"service_faults.{name}").run(long)
    except Exception as error:
        outcome = Outcome(name, "", f"broke off: {error!r}", "", False)
    return Tried(outcome, time.perf_counter() - began)


def table(tried: Iterable[Tried]) -> Table:
    """Lay the outcomes out for a terminal."""
    made = Table("test", "tried", "result", "control", "passed", "seconds", show_lines=True)
    for outcome, seconds in tried:
        passed = "[green]yes[/]" if outcome.passed else "[red]NO[/]"
        cells = (outcome.name, outcome.tried, outcome.result, outcome.control)
        made.add_row(*(cell.replace("[", r"\[") for cell in cells), passed, f"{seconds:,.0f}")
    return made


def markdown(tried: Iterable[Tried]) -> str:
    """Lay the outcomes out for the docs."""
    lines = [
        "| test | tried | result | the control, which must fail | passed | seconds |",
        "|---|---|---|---|---|---:|",
    ]
    for outcome, seconds in tried:
        cells = (outcome.name, outcome.tried, outcome.result, outcome.control)
        told = " | ".join(" ".join(cell.replace("|", r"\|").split()) for cell in cells)
        lines.append(f"| {told} | {'yes' if outcome.passed else '**no**'} | {seconds:,.0f} |")
    python = platform.python_version()
    lines += [
        "",
        f"Entice {entice.__version__}, Python {python}, {os.cpu_count()} cores, "
        f"{platform.system()} on {platform.machine()}.",
        "",
    ]
    return "\n".join(lines)


def as_json(tried: Iterable[Tried], long: bool, note: str) -> str:
    """Write the outcomes as the package ships them, for the studio's page."""
    python, cores = platform.python_version(), os.cpu_count()
    document = {
        "entice": entice.__version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "long": long,
        "machine": f"Python {python}, {cores} cores, {platform.system()} on {platform.machine()}",
        "note": note,
        "trials": [{**outcome._asdict(), "seconds": round(seconds)} for outcome, seconds in tried],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End as after an error, so that servers and folders are cleared away."""
    sys.exit(128 + number)


def main() -> int:
    """Run what was asked for."""
    given = argparse.ArgumentParser(prog="service_faults", description=__doc__)
    given.add_argument(
        "--only", action="append", choices=TRIALS, help="this trial; may be repeated"
    )
    given.add_argument("--short", action="store_true", help="as in CI: a few minutes less")
    given.add_argument(
        "--out", type=Path, action="append", default=[],
        help="write the table to this file: Markdown, or JSON as the studio shows it, by its name",
    )  # fmt: skip
    given.add_argument("--note", default="", help="what a reader of the JSON should know besides")
    asked = given.parse_args()
    signal.signal(signal.SIGTERM, _end)
    console = Console(width=None if sys.stdout.isatty() else 160)
    tried: list[Tried] = []
    for name in asked.only or TRIALS:
        console.print(f"{name} …")
        tried.append(attempt(name, not asked.short))
        for out in asked.out:
            as_text = out.suffix != ".json"
            told = markdown(tried) if as_text else as_json(tried, not asked.short, asked.note)
            out.write_text(told, encoding="utf-8")
    console.print(table(tried))
    return 0 if all(one.outcome.passed for one in tried) else 1


if __name__ == "__main__":
    sys.exit(main())
