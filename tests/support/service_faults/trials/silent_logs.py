"""Logs that are not read, have no reader, or do not fit on the disk: the service answers."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import re
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from service_faults.outcome import Outcome
from service_faults.processes import LOST, SYNCHRONOUS_LOGS, Server, call, folder
from service_faults.trials.slow_clients import memory

PIPE_SIZE = 4096
"""Bytes that the pipe to the reader holds: some 20 lines."""
ANSWER_WITHIN = 5.0
"""Seconds within which each request must be answered."""
STOP_WITHIN = 10.0
MAX_MEMORY = 32
"""Megabytes that lines which cannot be written may take."""


class Answered(NamedTuple):
    """What was measured while the log could not be written."""

    requests: int
    slowest: float
    """Seconds of the slowest request."""
    growth: int
    """Memory of the worker process: afterwards minus before, in MB."""

    @property
    def passed(self) -> bool:
        """Return whether all requests were answered in time, with little memory."""
        return self.slowest < ANSWER_WITHIN and self.growth < MAX_MEMORY


@contextlib.contextmanager
def small_pipe() -> Iterator[tuple[int, int]]:
    """Open a small pipe: its ends to read and to write."""
    ends = os.pipe()
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    try:
        yield ends
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                os.close(end)


def is_full(pipe: int) -> bool:
    """Return whether a write would wait for the reader."""
    return not select.select([], [pipe], [], 0)[1]


def send_requests(server: Server, count: int) -> Answered:
    """Send requests, one after the other; stop at one that is not answered in time."""
    before, slowest = memory(server.worker()), 0.0
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_WITHIN)
    with contextlib.closing(connection):
        for _ in range(count):
            asked = time.monotonic()
            try:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
            except LOST:
                slowest = float("inf")
                break
            slowest = max(slowest, time.monotonic() - asked)
    return Answered(count, slowest, memory(server.worker()) - before)


def dropped_lines(server: Server) -> int:
    """Return the metric of lines that were dropped."""
    _, text = call(server.port, "GET", "/metrics")
    found = re.search(rb"^entice_log_lines_dropped_total ([\d.e+]+)", text, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


class Reader:
    """Reads a pipe until it is stopped."""

    def __init__(self, pipe: int) -> None:
        self.text = b""
        self._pipe = pipe
        self._stopped = False
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._thread.join()

    def _read(self) -> None:
        while not self._stopped:
            if select.select([self._pipe], [], [], 0.05)[0]:
                self.text += os.read(self._pipe, 65536)

    def sees(self, server: Server, seconds: float = 30) -> bool:
        """Return whether a new request is logged."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_WITHIN)
        with contextlib.closing(connection):
            connection.request("GET", "/healthz")
            number = (connection.getresponse().headers["x-request-id"] or "").encode()
        end = time.monotonic() + seconds
        while number not in self.text and time.monotonic() < end:
            time.sleep(0.01)
        return number in self.text


class Silent(NamedTuple):
    """The result with a reader that stops reading, twice."""

    answered: Answered
    dropped: int
    resumed: bool
    """Whether a request was logged after the reader had read again."""
    exit_code: int
    stopped: float
    """Seconds from SIGTERM to the end, while the log was not read."""


def run_silent(where: Path, count: int) -> Silent:
    """Do not read the log; read it; do not read it again, and stop the service."""
    with small_pipe() as (reader, pipe):
        server = Server(f"sqlite:///{where}/entice.db", where, errors=pipe)
        with server:
            while not is_full(pipe):
                call(server.port, "GET", "/healthz")
            answered = send_requests(server, count)
            dropped = dropped_lines(server)
            with Reader(reader) as reading:
                resumed = reading.sees(server)
            while not is_full(pipe):
                call(server.port, "GET", "/healthz")
            code, stopped = server.terminate()
    return Silent(answered, dropped, resumed, code, stopped)


def run_failing(where: Path, name: str, errors: int, count: int) -> Answered:
    """Send requests to a service whose log cannot be written to a descriptor."""
    with Server(f"sqlite:///{where}/{name}.db", where, errors=errors) as server:
        return send_requests(server, count)


def run_control(where: Path) -> Answered:
    """Send requests to a service that writes its log in the event loop."""
    with small_pipe() as (reader, pipe):
        server = Server(f"sqlite:///{where}/control.db", where, kind=SYNCHRONOUS_LOGS, errors=pipe)
        try:
            with Reader(reader):  # otherwise it would not even become ready
                server.start()
            return send_requests(server, 1000)
        finally:
            server.kill()


def run(long: bool) -> Outcome:
    """Send 30,000 requests while the log is not read, or 50 in the short version."""
    count = 30_000 if long else 50
    failing: list[Answered] = []
    with folder() as where:
        silent = run_silent(where, count)
        if long:  # `make test` has tests of both without a server
            read, write = os.pipe()
            os.close(read)
            full = os.open("/dev/full", os.O_WRONLY)
            failing = [
                run_failing(where, name, errors, count // 3)
                for name, errors in (("no-reader", write), ("full", full))
            ]
            os.close(write)
            os.close(full)
        control = run_control(where)
    answered = [silent.answered, *failing]
    return Outcome(
        "log that is not read",
        f"{count:,} requests while the reader of the log does not read"
        + (f", {count // 3:,} each without a reader and on a full disk" if long else "")
        + "; SIGTERM meanwhile",
        f"slowest response {max(a.slowest for a in answered):.2f} s; {silent.dropped:,} lines "
        f"dropped and counted; memory + {max(a.growth for a in answered)} MB at most; logging "
        f"{'resumed' if silent.resumed else 'did not resume'}; stopped within "
        f"{silent.stopped:.1f} s, exit code {silent.exit_code}",
        f"lines written by the event loop: no answer within {ANSWER_WITHIN:.0f} s",
        all(a.passed for a in answered)
        and silent.resumed
        and (silent.dropped > 0) == long
        and silent.exit_code == 0
        and silent.stopped < STOP_WITHIN
        and not control.passed,
    )
