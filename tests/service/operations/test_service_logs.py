"""Logs when they cannot be written: a reader that stops reading, no reader, a full disk.

`test_service_faults` has a service whose log is not read.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import time

import pytest
from service_faults.trials.silent_logs import PIPE_SIZE, is_full, small_pipe

from entice.service import logs


def events_in(text: bytes) -> list[str]:
    return [json.loads(line)["event"] for line in text.splitlines() if line]


def test_a_reader_that_stops_reading_delays_nothing_and_logging_resumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "MAX_WAITING", 100)
    dropped = 0

    def count(lines: int) -> None:
        nonlocal dropped
        dropped += lines

    monkeypatch.setattr(logs._writer, "on_drop", count)
    with small_pipe() as (reader, writer):
        logs.configure(io.FileIO(writer, "w", closefd=False))
        start = time.perf_counter()
        for i in range(1000):
            logs.event(f"line-{i}")
            logs.request("GET", "/", 200, 0.001, "-", "1")
        assert time.perf_counter() - start < 5
        logs.flush(0.2)
        assert is_full(writer)
        assert dropped > 1000
        os.set_blocking(reader, False)
        found = b""
        end = time.monotonic() + 10
        while b'"resumed"' not in found and time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                found += os.read(reader, PIPE_SIZE)
            if len(logs._writer._waiting) == 0:
                logs.event("resumed")
            time.sleep(0.001)
        logs.configure(io.BytesIO())  # ends the thread that writes to the pipe
        events = events_in(found.rpartition(b"\n")[0])
    assert events[0] == "line-0"
    assert events[-1] == "resumed"
    assert len([name for name in events if name != "resumed"]) + dropped <= 2000


@pytest.mark.parametrize("error", [errno.EPIPE, errno.ENOSPC])
def test_logging_resumes_after_an_error(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    class Failing(io.BytesIO):
        """Fails twice: at once, and in the middle of a line."""

        failures = 2

        def write(self, text: object) -> int:
            assert isinstance(text, memoryview)
            if self.failures:
                self.failures -= 1
                if self.failures == 0 and self.tell() == 0:
                    self.failures = 1
                    return super().write(text[:10])
                raise OSError(error, os.strerror(error))
            return super().write(text)

    dropped: list[int] = []
    monkeypatch.setattr(logs._writer, "on_drop", dropped.append)
    target = Failing()
    logs.configure(target)
    for name in ("first", "second", "third"):
        logs.event(name)
        logs.flush()
    torn, *rest = target.getvalue().splitlines()
    assert dropped == [1, 1]
    assert len(torn) == 10
    assert events_in(b"\n".join(rest)) == ["third"]
