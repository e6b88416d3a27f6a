"""A process that reads the database, so that reads do not use the Python lock of the service.

Threads of one process share Python's global lock. A commit needs it again after each statement, and
a read in another thread makes each of them wait: together 4 ms for an offer that takes 0.6 ms.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from entice.errors import EnticeError
from entice.service import logs
from entice.service.operations.service_queries import ServiceQueries
from entice.service.storage.store import open_store

NICENESS = 5
"""Added to the niceness of the service: on a busy machine, offers go before reads."""
MAX_SECONDS = 300.0
"""Seconds of a read after which the process is not used any more, such as on a silent database."""
FIRST_DELAY, MAX_DELAY = 1.0, 300.0
"""Seconds until a process that has ended is started again. They double each time up to the
maximum, and are the first again after a process has run for longer than that."""
_RESULT, _ERROR, _FAILED = b"r", b"e", b"f"


class ReadFailed(Exception):
    """A read that was not completed: the process has ended, or an unexpected error occurred."""


class Child(NamedTuple):
    """A process that answers reads."""

    connection: Connection
    pid: int
    wait: Callable[[], object]
    """Collects the exit status of the process when it ends."""


class ReadProcess:
    """A child process that executes reads, one after the other.

    If it ends or does not answer, `start_again` starts another one after a delay.
    """

    def __init__(self, child: Child, start_again: Callable[[], Child]) -> None:
        self.pid = child.pid
        self.alive = True
        self._child = child
        self._start_again = start_again
        self._delay, self._started = FIRST_DELAY, time.monotonic()
        self._lock = threading.Lock()

    @classmethod
    def start(cls, db: str) -> ReadProcess:
        """Start a process, which ends with this one.

        Do so before this process has threads or an open database: a fork copies the locks of both
        in the state that they have at that moment. A process that is started again later is not
        forked, and takes a second to import Entice.
        """
        return cls(_fork(db), partial(_spawn, db))

    def read(self, function: Callable[..., Any], *arguments: Any) -> bytes:
        """Call a function of a module with the child's `ServiceQueries`; return its result as JSON.

        Raises the function's error if it is one of the service, and `ReadFailed` otherwise.
        """
        with self._lock:
            if not self.alive:
                raise ReadFailed
            connection = self._child.connection
            try:
                connection.send((function, arguments))
                if not connection.poll(MAX_SECONDS):
                    raise TimeoutError
                message = connection.recv_bytes()
            except (EOFError, OSError) as error:
                self.alive = False
                threading.Thread(target=self._replace, daemon=True).start()
                raise ReadFailed from error
        if message[:1] == _RESULT:
            return message[1:]
        raise pickle.loads(message[1:]) if message[:1] == _ERROR else ReadFailed

    def _replace(self) -> None:
        """Close the connection, without which the process ends, and start another one."""
        self._child.connection.close()
        if time.monotonic() > self._started + MAX_DELAY:
            self._delay = FIRST_DELAY
        logs.failure("read-process-ended", pid=self.pid, next=f"start in {self._delay:g} s")
        threading.Thread(target=self._child.wait, daemon=True).start()
        while not self.alive:
            time.sleep(self._delay)
            self._delay = min(2 * self._delay, MAX_DELAY)
            try:
                self._child = self._start_again()
            except (EOFError, OSError) as error:
                logs.failure("read-process-not-started", error=str(error) or type(error).__name__)
                continue
            self.pid, self._started = self._child.pid, time.monotonic()
            logs.event("read-process-started", pid=self.pid)
            self.alive = True


def _fork(db: str) -> Child:
    connection, other_end = Pipe()
    pid = os.fork()
    if pid == 0:
        connection.close()
        _run_child(db, other_end)
    other_end.close()
    # Wait until the child has closed its copy of the listening socket: if this process were
    # killed before that, the port would stay in use.
    with contextlib.suppress(EOFError, OSError):
        connection.recv_bytes()
    return Child(connection, pid, partial(_wait_for_end, pid))


def _spawn(db: str) -> Child:
    """Start a process in a new interpreter, which is possible beside other threads."""
    connection, other_end = Pipe()
    with other_end:
        descriptor = other_end.fileno()
        command = [sys.executable, "-m", __name__, str(descriptor)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[descriptor])
    connection.send(db)  # not in the arguments, which everybody can read
    connection.recv_bytes()
    return Child(connection, process.pid, process.wait)


def _wait_for_end(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def encode_read(queries: ServiceQueries, function: Callable[..., Any], *arguments: Any) -> bytes:
    """Call a function with queries, and return its result as JSON."""
    return msgspec.json.encode(function(queries, *arguments))


def answer_reads(db: str, connection: Connection) -> None:
    """Execute the reads that arrive, until the other end is closed.

    Then close the database: SQLite moves its write-ahead log into the file when the last connection
    is closed, which may be one of this process.
    """
    queries: ServiceQueries | None = None
    with contextlib.ExitStack() as at_end, contextlib.suppress(EOFError, OSError):
        while True:
            function, arguments = connection.recv()
            try:
                if queries is None:
                    store = at_end.enter_context(contextlib.closing(open_store(db)))
                    queries = ServiceQueries(store)
                message = _RESULT + encode_read(queries, function, *arguments)
            except EnticeError as error:
                message = _ERROR + pickle.dumps(error)
            except Exception:  # the service repeats the read, and logs the error
                message = _FAILED
            connection.send_bytes(message)


def _run_child(db: str, connection: Connection) -> None:
    """Answer reads, and end the process."""
    try:
        # The terminal and systemd signal all processes; this one ends when its parent has.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _close_other_sockets(connection.fileno())
        connection.send_bytes(_RESULT)
        with contextlib.suppress(OSError):  # a filter of system calls may not allow it
            os.nice(NICENESS)
        answer_reads(db, connection)
    finally:
        os._exit(0)


def _close_other_sockets(kept: int) -> None:
    """Close all sockets but one: nobody else could listen on the port until they are closed."""
    for descriptor in [int(each.name) for each in Path("/dev/fd").iterdir()]:
        with contextlib.suppress(OSError):
            if descriptor != kept and stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.close(descriptor)


if __name__ == "__main__":
    other_end = Connection(int(sys.argv[1]))
    _run_child(other_end.recv(), other_end)
