"""Logs: one JSON object per line on standard error, without secrets or players' ids.

A line names the route's template instead of the path, and an error's class and lines of code
instead of its message, which may quote the request.

The lines of requests are buffered and written together every 50 milliseconds. Writing each line
separately would take longer than the rest of the request, because a thread that writes releases
Python's global interpreter lock and then waits to get it back. All other lines are written
immediately, after the buffered ones.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, BinaryIO

import msgspec
import structlog

FLUSH_INTERVAL = 0.05
"""Seconds between two writes of the buffered lines."""


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
    """Writes lines, either buffered or immediately."""

    def __init__(self) -> None:
        self._buffer: list[bytes] = []
        self._target: BinaryIO | None = None

    def to(self, target: BinaryIO) -> None:
        self._target = target

    def buffer(self, line: bytes) -> None:
        if self._target is not None:
            self._buffer.append(line)

    def flush(self) -> None:
        if self._target is None or not self._buffer:
            return
        lines, self._buffer = self._buffer, []
        self._target.write(b"\n".join(lines) + b"\n")
        self._target.flush()

    def msg(self, line: bytes) -> None:
        self.buffer(line)
        self.flush()

    info = error = msg


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


def configure(target: BinaryIO | None = None) -> None:
    """Start logging, to standard error by default."""
    _writer.to(sys.stderr.buffer if target is None else target)


async def flush_periodically() -> None:
    """Write the buffered lines every `FLUSH_INTERVAL`, until cancelled."""
    while True:
        await asyncio.sleep(FLUSH_INTERVAL)
        _writer.flush()


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
