"""What the simulation process can be asked to do, and the way in which it tells what it finds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from entice.study.running.cell import Stopped

MORE, LAST, NOTE = b"+", b".", b"!"
"""What a line of the process begins with: part of an answer, its end, something for the log."""
CANCEL = b"cancel\n"
"""Sent instead of a job: the one under way is wanted no more."""
OFTEN = 0.1
"""Seconds between two words on how far a job is."""
SOON = 0.3
"""Seconds after which whoever waits for the compiler is told so."""

Plain = dict[str, Any]


class Simulate(msgspec.Struct, frozen=True, tag_field="job", tag="simulate"):
    """Run a study, and show it while it runs."""

    study: Plain


class Trace(msgspec.Struct, frozen=True, tag_field="job", tag="trace"):
    """Run one replication of one cell, and show it round by round."""

    study: Plain
    policy_index: int
    drift_index: int
    replication: int


class MakePlan(msgspec.Struct, frozen=True, tag_field="job", tag="plan"):
    """Say what a campaign would cost."""

    plan: Plain


class Reproduce(msgspec.Struct, frozen=True, tag_field="job", tag="reproduce"):
    """Run the paper's experiments."""


class Replay(msgspec.Struct, frozen=True, tag_field="job", tag="replay"):
    """Replay the log of a campaign."""

    db: str
    campaign: str


Job = Simulate | Trace | MakePlan | Reproduce | Replay


class Task:
    """A job under way: where its findings go, and whether anybody still waits for them."""

    def __init__(self, out: BinaryIO, stop: npt.NDArray[np.int64]) -> None:
        self.stop = stop
        """One element, 1 when the job is to end; compiled loops look at it."""
        self._out = out
        self._lock = threading.Lock()
        self._told = 0.0

    def tell(self, kind: str, **facts: Any) -> None:
        """Send a line to whoever asked. What is not finite becomes null."""
        self.write(MORE, {"kind": kind, **facts})

    def write(self, mark: bytes, line: Any) -> None:
        """Send a line, with its mark."""
        with self._lock:
            self._out.write(mark + msgspec.json.encode(line) + b"\n")
            self._out.flush()

    def progress(self, done: int, total: int) -> None:
        """Tell how far it is, now and then; end here if nobody wants to know."""
        if self.stop[0]:
            raise Stopped
        now = time.monotonic()
        if now - self._told > OFTEN or done == total:
            self._told = now
            self.tell("progress", done=done, total=total)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Tell that something is being compiled, if that takes long enough to be noticed."""
        waiting = threading.Timer(SOON, self.tell, ["compiling"])
        waiting.start()
        try:
            yield
        finally:
            waiting.cancel()
            waiting.join()
