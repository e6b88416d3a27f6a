"""Jobs of the simulation worker, and the context through which a running job reports."""

from __future__ import annotations

import threading
import time
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from entice.parallel import Stopped

PART, END, LOG = b"+", b".", b"!"
"""First byte of each line of the worker's output: part of a result, its last line, a log entry."""
CANCEL = b"cancel\n"
"""Line that is sent to the worker to cancel the running job."""
BACKGROUND = "--background"
"""Argument of a worker with the lowest priority."""
PROGRESS_INTERVAL = 0.1
"""Minimum seconds between two progress lines."""

Plain = dict[str, Any]


class Simulate(msgspec.Struct, frozen=True, tag_field="job", tag="simulate"):
    """A study to run, with snapshots while it runs."""

    study: Plain


class Trace(msgspec.Struct, frozen=True, tag_field="job", tag="trace"):
    """One replication of one cell to run, as frames."""

    study: Plain
    policy_index: int
    drift_index: int
    replication: int


class MakePlan(msgspec.Struct, frozen=True, tag_field="job", tag="plan"):
    """A plan to forecast."""

    plan: Plain


class Reproduce(msgspec.Struct, frozen=True, tag_field="job", tag="reproduce"):
    """The paper's experiments to run."""


class Replay(msgspec.Struct, frozen=True, tag_field="job", tag="replay"):
    """A campaign's event log to replay."""

    db: str
    campaign: str


class Evaluate(msgspec.Struct, frozen=True, tag_field="job", tag="evaluate"):
    """A policy to evaluate on a campaign's log."""

    db: str
    campaign: str
    policy: str


Job = Simulate | Trace | MakePlan | Reproduce | Replay | Evaluate


class JobContext:
    """The output and the cancellation flag of the running job."""

    def __init__(self, out: BinaryIO, stop: npt.NDArray[np.int64]) -> None:
        self.stop = stop
        """One element, set to 1 to cancel the job; compiled loops poll it."""
        self._out = out
        self._lock = threading.Lock()
        self._last_progress = 0.0

    def send(self, kind: str, **fields: Any) -> None:
        """Send a line of the result. Numbers that are not finite become null."""
        self.write(PART, {"kind": kind, **fields})

    def write(self, mark: bytes, line: Any) -> None:
        """Write a line that starts with `mark`."""
        with self._lock:
            self._out.write(mark + msgspec.json.encode(line) + b"\n")
            self._out.flush()

    def progress(self, done: int, total: int) -> None:
        """Report progress, at most every `PROGRESS_INTERVAL`; raise `Stopped` if cancelled."""
        if self.stop[0]:
            raise Stopped
        now = time.monotonic()
        if now - self._last_progress > PROGRESS_INTERVAL or done == total:
            self._last_progress = now
            self.send("progress", done=done, total=total)

    def compilation(self, done: int, total: int) -> None:
        """Report how many kernels are compiled; raise `Stopped` if cancelled."""
        if self.stop[0]:
            raise Stopped
        self.send("compiling", done=done, total=total)
