"""Logs: one JSON object a line, on standard error. No secret and no id of a player is among them.

Routes are named by their template, never by the address that was asked for; errors by their class
and the lines of code they came through, since their words may quote what a caller sent.

A line for each request would cost more than all else in its way if it were written by itself: a
thread that writes lets go of Python's lock, and then waits for it. So these lines are gathered and
written together, some milliseconds later; all others are written at once, with those before.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, BinaryIO

import msgspec
import structlog

GATHER = 0.05
"""Seconds for which lines of requests are gathered."""


class RequestLine(msgspec.Struct):
    """What is logged of a request."""

    at: str
    event: str
    level: str
    method: str
    route: str
    status: int
    ms: float
    key: str
    request: str


class _Lines:
    """Where all lines go."""

    def __init__(self) -> None:
        self._gathered: list[bytes] = []
        self._target: BinaryIO | None = None

    def to(self, target: BinaryIO) -> None:
        self._target = target

    def gather(self, line: bytes) -> None:
        if self._target is not None:
            self._gathered.append(line)

    def flush(self) -> None:
        if self._target is None or not self._gathered:
            return
        gathered, self._gathered = self._gathered, []
        self._target.write(b"\n".join(gathered) + b"\n")
        self._target.flush()

    def msg(self, line: bytes) -> None:
        self.gather(line)
        self.flush()

    info = error = msg


_lines = _Lines()
_encode = msgspec.json.Encoder().encode
_logger: Any = structlog.wrap_logger(
    _lines,
    processors=[
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.add_log_level,
        structlog.processors.JSONRenderer(serializer=lambda line, **_: _encode(line)),
    ],
    wrapper_class=structlog.make_filtering_bound_logger("info"),
)


def configure(target: BinaryIO | None = None) -> None:
    """Begin to log: to standard error, unless told otherwise."""
    _lines.to(sys.stderr.buffer if target is None else target)


async def keep_writing() -> None:
    """Write what has gathered, again and again."""
    while True:
        await asyncio.sleep(GATHER)
        _lines.flush()


def event(name: str, **facts: Any) -> None:
    """Log something that happened to the service itself."""
    _logger.info(name, **facts)


def failure(name: str, **facts: Any) -> None:
    """Log something that happened to the service and should not have."""
    _logger.error(name, **facts)


def trouble(error: Exception, **facts: Any) -> None:
    """Log that the database failed. These errors are worded by Entice: they quote no caller."""
    _logger.error(type(error).__name__.lower(), detail=str(error), **facts)


def unexpected(error: BaseException, **facts: Any) -> None:
    """Log an error that nobody foresaw."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    _logger.error("unexpected", error=type(error).__qualname__, lines=lines, **facts)


def request(method: str, route: str, status: int, seconds: float, key: str, number: str) -> None:
    """Log that a request was answered."""
    at = datetime.now(UTC).isoformat()
    ms = round(seconds * 1e3, 3)
    _lines.gather(
        _encode(RequestLine(at, "request", "info", method, route, status, ms, key, number))
    )
