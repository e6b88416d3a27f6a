"""The record of the trials: the report that the package ships, and the table in the docs."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from entice.service.operations.fault_report import (
    FaultReport,
    FaultTrial,
    digest_of_source,
    read_fault_report,
)
from service_faults.outcome import Outcome

PROJECT = Path(__file__).parents[3]
REPORT = "src/entice/service/operations/faults.json"
HEAD = "| test | tried | result | control, which must fail | last run |"


class CodeVersion(NamedTuple):
    """The code that a trial runs on."""

    date: str
    commit: str | None
    source: str


def current_version(project: Path = PROJECT) -> CodeVersion:
    """Return today's date, the commit of the working tree, and the digest of its source files."""
    commit: str | None = None
    try:
        commit = _git(project, "rev-parse", "--short", "HEAD")
        if _git(project, "status", "--porcelain", "--", "src", f":!{REPORT}"):
            commit += " with changes"
    except (OSError, subprocess.CalledProcessError):
        pass  # no repository, or no git
    source = digest_of_source(project / "src" / "entice")
    return CodeVersion(f"{datetime.now(UTC):%Y-%m-%d}", commit, source)


def as_trial(id: str, outcome: Outcome, seconds: float, version: CodeVersion) -> FaultTrial:
    """Return the outcome of a run as a row of the report."""
    python, cores = platform.python_version(), os.cpu_count()
    return FaultTrial(
        **outcome._asdict(),
        **version._asdict(),
        id=id,
        seconds=round(seconds),
        machine=f"Python {python}, {cores} cores, {platform.system()} on {platform.machine()}",
    )


def replace_trials(
    report: FaultReport, run: list[FaultTrial], order: tuple[str, ...]
) -> FaultReport:
    """Return a report with the trials that were run, and the others as they were."""
    trials = {trial.id: trial for trial in (*report.trials, *run)}
    return FaultReport(sorted(trials.values(), key=lambda trial: order.index(trial.id)))


def markdown(report: FaultReport) -> str:
    """Return the report as a table for the docs."""
    return "\n".join([HEAD, "|---|---|---|---|---|", *map(_row, report.trials)])


def record(
    run: list[FaultTrial],
    order: tuple[str, ...],
    path: Path = PROJECT / REPORT,
    docs: Path = PROJECT / "docs" / "explanation" / "promises.md",
) -> None:
    """Replace the trials that were run in the report and in the table of the docs."""
    report = replace_trials(read_fault_report(path), run, order)
    content = msgspec.json.format(msgspec.json.encode(report), indent=1)
    path.write_bytes(content + b"\n")
    text = docs.read_text(encoding="utf-8")
    start = text.index(HEAD)
    end = text.index("\n\n", start)
    docs.write_text(text[:start] + markdown(report) + text[end:], encoding="utf-8")


def _row(trial: FaultTrial) -> str:
    result = trial.result if trial.passed else f"**failed**: {trial.result}"
    run = [trial.date, trial.commit or "commit unknown"]
    if trial.seconds is not None:
        run.append(f"{trial.seconds:,} s")
    cells = (trial.name, trial.tried, result, trial.control, ", ".join(run))
    return f"| {' | '.join(' '.join(cell.replace('|', chr(92) + '|').split()) for cell in cells)} |"


def _git(project: Path, *arguments: str) -> str:
    command = ["git", "-C", str(project), *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
