"""Logs: one JSON object per line on standard error, without secrets or players' ids.

A line names the route's template instead of the path, and an error's class and lines of code
instead of its message, which may quote the request.

A thread writes the lines, so that the event loop never waits for the reader of standard error. At
most `MAX_WAITING` lines wait to be written. Further lines are dropped, and so are lines that cannot
be written because the disk is full or the reader is gone; `entice_log_lines_dropped_total` counts
them. Logging resumes as soon as lines can be written again.

The lines of requests are written together every 50 milliseconds. Writing each line separately would
take longer than the rest of the request, because a thread that writes releases Python's global
interpreter lock and then waits to get it back. All other lines are written immediately, after the
waiting ones.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from io import FileIO
from typing import Any, BinaryIO

import msgspec
import structlog

FLUSH_INTERVAL = 0.05
"""Seconds between two writes of the waiting lines."""
MAX_WAITING = 10_000
"""Maximum number of lines that wait to be written: about 3 MB."""
Target = BinaryIO | FileIO
_MAX_WRITE = 1000
"""Maximum number of lines written together, and so lost together when a write fails."""


class RequestLine(msgspec.Struct):
    """The log line of a request."""

    at: str
    event: str
    level: str
    method: str
    route: str
    status: int
    ms: float
    key: str
    request: str


class _LogWriter:
    """A queue of lines, and the thread that writes them."""

    def __init__(self) -> None:
        self.on_drop: Callable[[int], None] = lambda lines: None
        self._target: Target | None = None

    def to(self, target: Target) -> None:
        """Start the thread. A process that was forked from one which logs has to do so again."""
        self._target = target
        self._waiting: deque[bytes] = deque()
        self._wake = threading.Event()
        self._written = threading.Condition()
        self._writing = False
        self._torn = False
        arguments = target, self._waiting
        threading.Thread(target=self._run, args=arguments, name="entice-log", daemon=True).start()

    def buffer(self, line: bytes) -> None:
        if self._target is None:
            return
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append(line)
        else:
            self.on_drop(1)

    def msg(self, line: bytes) -> None:
        self.buffer(line)
        if self._target is not None:
            self._wake.set()

    info = error = msg

    def flush(self, timeout: float) -> None:
        """Wait until all lines are written or dropped."""
        if self._target is None:
            return
        self._wake.set()
        with self._written:
            self._written.wait_for(lambda: not self._waiting and not self._writing, timeout)

    def _run(self, target: Target, waiting: deque[bytes]) -> None:
        while self._target is target:
            self._wake.wait(FLUSH_INTERVAL)
            self._wake.clear()
            while waiting:
                self._writing = True
                lines = [waiting.popleft() for _ in range(min(len(waiting), _MAX_WRITE))]
                try:
                    self._write(target, b"\n".join(lines) + b"\n")
                except (OSError, ValueError):  # no space, no reader, or a closed file
                    self.on_drop(len(lines))
            with self._written:
                self._writing = False
                self._written.notify_all()

    def _write(self, target: Target, text: bytes) -> None:
        if self._torn:  # a write failed after a part of a line
            text = b"\n" + text
        rest = memoryview(text)
        while rest:
            count = target.write(rest)
            if not count:  # a non-blocking pipe is full
                time.sleep(FLUSH_INTERVAL)
                continue
            self._torn = rest[count - 1] != 10
            rest = rest[count:]
        target.flush()


_writer = _LogWriter()
_encode = msgspec.json.Encoder().encode
_logger: Any = structlog.wrap_logger(
    _writer,
    processors=[
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.add_log_level,
        structlog.processors.JSONRenderer(serializer=lambda line, **_: _encode(line)),
    ],
    wrapper_class=structlog.make_filtering_bound_logger("info"),
)


def configure(target: Target | None = None) -> None:
    """Start logging, to standard error by default."""
    if target is None:
        # Unbuffered: at exit, Python would wait for the lock of a buffer that a thread writes.
        target = FileIO(sys.stderr.fileno(), "w", closefd=False)
    _writer.to(target)


def flush(timeout: float = 1.0) -> None:
    """Wait until all lines are written, or until `timeout`: the reader may have stopped reading."""
    _writer.flush(timeout)


def on_drop(count: Callable[[int], None]) -> None:
    """Call `count` with the number of lines whenever lines are dropped."""
    _writer.on_drop = count


def event(name: str, **facts: Any) -> None:
    """Log an event of the service itself."""
    _logger.info(name, **facts)


def failure(name: str, **facts: Any) -> None:
    """Log a failure of the service itself."""
    _logger.error(name, **facts)


def database_error(error: Exception, **facts: Any) -> None:
    """Log an error of the database. Its message is Entice's own and quotes no request."""
    _logger.error(type(error).__name__.lower(), detail=str(error), **facts)


def unexpected(error: BaseException, **facts: Any) -> None:
    """Log an unexpected error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    _logger.error("unexpected", error=type(error).__qualname__, lines=lines, **facts)


def request(method: str, route: str, status: int, seconds: float, key: str, number: str) -> None:
    """Log a request."""
    at = datetime.now(UTC).isoformat()
    ms = round(seconds * 1e3, 3)
    _writer.buffer(
        _encode(RequestLine(at, "request", "info", method, route, status, ms, key, number))
    )
