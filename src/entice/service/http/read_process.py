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
import threading
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from entice.errors import EnticeError
from entice.service.operations.service_queries import ServiceQueries
from entice.service.storage.store import open_store

NICENESS = 5
"""Added to the niceness of the service: on a busy machine, offers go before reads."""
MAX_SECONDS = 300.0
"""Seconds of a read after which the process is not used any more, such as on a silent database."""
_RESULT, _ERROR, _FAILED = b"r", b"e", b"f"


class ReadFailed(Exception):
    """A read that was not completed: the process has ended, or an unexpected error occurred."""


class ReadProcess:
    """A child process that executes reads, one after the other."""

    def __init__(self, connection: Connection, pid: int) -> None:
        self.pid = pid
        self.alive = True
        self._connection = connection
        self._lock = threading.Lock()

    @classmethod
    def start(cls, db: str) -> ReadProcess:
        """Start a process, which ends with this one.

        Do so before this process has threads or an open database: a fork copies the locks of both
        in the state that they have at that moment.
        """
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
        return cls(connection, pid)

    def read(self, function: Callable[..., Any], *arguments: Any) -> bytes:
        """Call a function of a module with the child's `ServiceQueries`; return its result as JSON.

        Raises the function's error if it is one of the service, and `ReadFailed` otherwise.
        """
        with self._lock:
            try:
                self._connection.send((function, arguments))
                if not self._connection.poll(MAX_SECONDS):
                    raise TimeoutError
                message = self._connection.recv_bytes()
            except (EOFError, OSError) as error:
                self._stop_using()
                raise ReadFailed from error
        if message[:1] == _RESULT:
            return message[1:]
        raise pickle.loads(message[1:]) if message[:1] == _ERROR else ReadFailed

    def _stop_using(self) -> None:
        """Close the connection, without which the process ends, and collect its exit status."""
        if self.alive:
            self.alive = False
            self._connection.close()
            threading.Thread(target=_wait_for_end, args=(self.pid,), daemon=True).start()


def _wait_for_end(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def encode_read(queries: ServiceQueries, function: Callable[..., Any], *arguments: Any) -> bytes:
    """Call a function with queries, and return its result as JSON."""
    return msgspec.json.encode(function(queries, *arguments))


def answer_reads(db: str, connection: Connection) -> None:
    """Execute the reads that arrive, until the other end is closed."""
    queries: ServiceQueries | None = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            function, arguments = connection.recv()
            try:
                queries = queries or ServiceQueries(open_store(db))
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
