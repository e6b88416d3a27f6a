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
from study_fixtures import HANG


class DaskCluster:
    """A scheduler and its workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = self.start_scheduler()
        self.workers: list[subprocess.Popen[bytes]] = []

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        """Start a scheduler, or a successor at the same port."""
        options = "--host", "127.0.0.1", "--port", str(self.port)
        self.scheduler = self._start("scheduler", *options)
        return self.scheduler

    def start_worker(self, *more: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a worker with one thread, and without a nanny, which would restart it."""
        options = "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory"
        worker = self._start(
            "worker", self.address, *options, str(self._folder), *more, **environment
        )
        self.workers.append(worker)
        return worker

    def wait_for(self, workers: int) -> None:
        """Wait until a number of workers are connected."""
        with Client(self.address, timeout=HANG, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=HANG)

    def _start(self, role: str, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{role}-{time.monotonic_ns()}.log").open("wb")
        command = [sys.executable, "-m", "dask", role, *options]
        quiet = {"DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__STATUS__TASK_STREAM_LENGTH": "0"}
        with log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=without_coverage() | quiet | environment
            )

    def kill(self) -> None:
        """Kill all processes."""
        for process in (self.scheduler, *self.workers):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[DaskCluster]:
    """Provide a cluster, and kill it at the end."""
    cluster = DaskCluster(folder)
    try:
        for _ in range(workers):
            cluster.start_worker()
        if workers:
            cluster.wait_for(workers)
        yield cluster
    finally:
        cluster.kill()
