"""A real Dask scheduler and workers, as processes on loopback."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from command_line import without_coverage
from distributed import Client
from forking import ForkedPopen
from service_faults.processes import free_port
from study_fixtures import HANG


class DaskCluster:
    """A scheduler and its workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = self.start_scheduler()
        self.workers: list[subprocess.Popen[bytes]] = []
        """Workers that equal this machine."""
        self._others: list[subprocess.Popen[bytes]] = []

    def repair(self, workers: int) -> None:
        """Replace dead processes, and kill workers that differ from this machine.

        Tests that damage a cluster share one.
        """
        if self.scheduler.poll() is not None:
            self.kill()
            self.workers, self._others = [], []
            self.start_scheduler()
        _kill(self._others)
        self._others = []
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        for _ in range(workers - len(self.workers)):
            self.start_worker()
        self.wait_for(workers)

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
        (self._others if environment else self.workers).append(worker)
        return worker

    def wait_for(self, workers: int) -> None:
        """Wait until exactly this number of workers is connected."""
        deadline = time.monotonic() + HANG
        with Client(self.address, timeout=HANG, set_as_default=False) as client:
            while len(client.nthreads()) != workers:
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def _start(self, role: str, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{role}-{time.monotonic_ns()}.log").open("wb")
        command = [sys.executable, "-m", "dask", role, *options]
        quiet = {"DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__STATUS__TASK_STREAM_LENGTH": "0"}
        # A process with another environment may have to import other modules.
        start = subprocess.Popen if environment else ForkedPopen
        with log:
            return start(
                command, stdout=log, stderr=log, env=without_coverage() | quiet | environment
            )

    def kill(self) -> None:
        """Kill all processes."""
        _kill([self.scheduler, *self.workers, *self._others])


def _kill(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[DaskCluster]:
    """Provide a cluster, and kill it at the end."""
    cluster = DaskCluster(folder)
    try:
        cluster.repair(workers)
        yield cluster
    finally:
        cluster.kill()


class InstalledElsewhere(NamedTuple):
    """A cluster of one worker, and the folder from which that worker imports modules."""

    cluster: DaskCluster
    folder: Path
