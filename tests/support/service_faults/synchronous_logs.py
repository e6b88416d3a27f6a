"""The control of `silent_logs`: a server that writes each log line where it is made."""

from __future__ import annotations

from typing import Any

from entice.service import logs
from service_faults.serve import serve


def write_now(writer: Any, line: bytes) -> None:
    """Write a line, and wait for its reader."""
    if writer._target is not None:
        writer._target.write(line + b"\n")


def main() -> None:
    """Serve as `entice serve` does, with a log that the event loop writes."""
    replaced: Any = logs._LogWriter
    replaced.buffer = replaced.msg = replaced.info = replaced.error = write_now
    serve()


if __name__ == "__main__":
    from service_faults import synchronous_logs  # worker processes import it by this name

    synchronous_logs.main()
