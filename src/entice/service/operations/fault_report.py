"""The results of the long fault-injection trials, shipped with the package.

`make faults` runs the trials (tests/support/service_faults) and records each result with its date,
its commit and a digest of the source files. Installed packages have no commit; the digest shows
whether the running code is the code of the trial.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import msgspec

SUFFIXES = (".py", ".sql", ".json", ".csv")
"""The kinds of source files."""
_NOT_TESTED = ("studio/page/", "service/operations/faults.json")
"""The page, which has tests of its own, and the results of the trials."""


class FaultTrial(msgspec.Struct, frozen=True):
    """A trial, and its control, which shows that the trial can fail."""

    id: str
    """The name of the trial's module."""
    name: str
    tried: str
    result: str
    control: str
    passed: bool
    """Whether the trial succeeded and the control failed."""
    date: str
    """The day of the run, or of the first record of its result if the commit is unknown."""
    seconds: int | None
    """How long the run took, or None if unknown."""
    commit: str | None
    """The commit of the code, or None if unknown."""
    source: str | None
    """The digest of the code's source files, or None if unknown."""
    machine: str


class FaultReport(msgspec.Struct, frozen=True):
    """The last long run of each trial."""

    trials: list[FaultTrial]


def path_of_report() -> Path:
    """Return the path of the report."""
    return Path(str(files("entice.service.operations") / "faults.json"))


def read_fault_report(path: Path | None = None) -> FaultReport:
    """Read the results of the trials: those shipped with the package, or another file."""
    content = (path or path_of_report()).read_bytes()
    return msgspec.json.decode(content, type=FaultReport)


def digest_of_source(package: Path) -> str:
    """Return a digest of the names and contents of a package's source files.

    All but the studio's page: a list of the modules that the service imports would soon be wrong.
    """
    digest = hashlib.sha256()
    found = {path.relative_to(package).as_posix(): path for path in package.rglob("*")}
    for name in sorted(found):
        if name.endswith(SUFFIXES) and not name.startswith(_NOT_TESTED):
            content = found[name].read_bytes()
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


@lru_cache(1)
def digest_of_running_code() -> str:
    """Return the digest of the running package's source files."""
    return digest_of_source(Path(str(files("entice"))))
