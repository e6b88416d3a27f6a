"""The control of `silent_logs`: a server that writes each log line where it is made."""

from __future__ import annotations

import argparse
from typing import Any

import entice.service.http.server as serving
from entice.service import logs
from entice.studio.app import studio_extensions


def write_now(writer: Any, line: bytes) -> None:
    """Write a line, and wait for its reader."""
    if writer._target is not None:
        writer._target.write(line + b"\n")


def main() -> None:
    """Serve as `entice serve` does, with a log that the event loop writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--db", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    options = parser.parse_args()
    replaced: Any = logs._LogWriter
    replaced.buffer = replaced.msg = replaced.info = replaced.error = write_now
    serving.serve(
        options.db, port=options.port, workers=options.workers, extensions=studio_extensions
    )


if __name__ == "__main__":
    from service_faults import synchronous_logs  # worker processes import it by this name

    synchronous_logs.main()
