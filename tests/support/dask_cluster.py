"""A real Dask scheduler and workers, as processes on loopback."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from command_line import without_coverage
from distributed import Client


class DaskCluster:
    """A scheduler, and workers that come and go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = self.start_scheduler()
        self.workers: list[subprocess.Popen[bytes]] = []

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        """Start a scheduler, the first or one in its place."""
        where = "--host", "127.0.0.1", "--port", str(self.port)
        self.scheduler = self._start("scheduler", *where)
        return self.scheduler

    def start_worker(self, *more: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a worker of one thread, without a nanny who would start another when it dies."""
        options = "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory"
        worker = self._start(
            "worker", self.address, *options, str(self._folder), *more, **environment
        )
        self.workers.append(worker)
        return worker

    def wait_for(self, workers: int) -> None:
        """Wait until so many workers are there."""
        with Client(self.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)

    def _start(self, what: str, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{what}-{time.monotonic_ns()}.log").open("wb")
        command = [sys.executable, "-m", "dask", what, *options]
        quiet = {"DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__STATUS__TASK_STREAM_LENGTH": "0"}
        with log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=without_coverage() | quiet | environment
            )

    def end(self) -> None:
        """Kill everything."""
        for process in (self.scheduler, *self.workers):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[DaskCluster]:
    """Start a cluster, and kill it in the end."""
    cluster = DaskCluster(folder)
    try:
        for _ in range(workers):
            cluster.start_worker()
        if workers:
            cluster.wait_for(workers)
        yield cluster
    finally:
        cluster.end()
