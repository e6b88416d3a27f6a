"""Granian's supervisor process, which also logs workers that die.

Granian's own messages are off: they are not JSON, and do not say how a worker ended. This module
overrides internals of Granian; the tests kill workers to check that it works.
"""

from __future__ import annotations

import multiprocessing
import signal
import socket
import time
from typing import Any

from granian import Granian
from granian._granian import SocketHolder

from entice.service import logs

CRASH_LOOP = 5.5
"""Seconds after a restart within which Granian treats another death as a crash loop, and stops."""
OWN_SIGNAL = 1.0
"""Seconds after an orderly end of a worker within which this process handles its own signal."""


class Supervisor(Granian):  # type: ignore[misc,valid-type]
    """A Granian server that logs each worker that ends unexpectedly.

    All workers accept connections from one socket, `listener`. Granian's own sockets can not be
    given options, and would silently share the port with another process.
    """

    def __init__(self, target: str, listener: socket.socket, **options: Any) -> None:
        # Workers inherit the socket. From Python 3.14 on, "fork" is not the default.
        multiprocessing.set_start_method("fork", force=True)
        super().__init__(target, **options)
        self._listener = listener

    def _init_shared_socket(self) -> None:
        self._sso = self._listener
        self._sfd = self._listener.fileno()
        self._shd = SocketHolder(self._sfd, False, self.backlog)  # type: ignore[call-arg]

    def _spawn_worker(self, idx: int, *arguments: Any, **named: Any) -> Any:
        worker = super()._spawn_worker(idx, *arguments, **named)
        handle_death = worker._watcher

        def watch() -> None:
            worker.inner.join()
            # Ctrl-C in a terminal signals all processes. A worker may have ended before Granian
            # stops it, or even before this process handles its own signal. After a reload there is
            # no signal to wait for, and the event would stay set: Granian's loop would never pause.
            if worker.inner.exitcode == 0 and not worker.interrupt_by_parent:
                self._await_signal()
            if self.interrupt_signal:
                worker.interrupt_by_parent = True  # otherwise Granian exits with code 1
            if not worker.interrupt_by_parent:
                self._log_death(worker)
            handle_death()

        worker._watcher = watch
        return worker

    def _await_signal(self) -> None:
        """Wait until the main thread has handled a signal, if it got one."""
        self.main_loop_interrupt.set()  # a waiting main thread handles no signal before it wakes up
        end = time.monotonic() + OWN_SIGNAL
        while not self.interrupt_signal and time.monotonic() < end:
            time.sleep(0.01)

    def _log_death(self, worker: Any) -> None:
        restarted = self.respawned_wrks.get(worker.idx)
        looping = restarted is not None and time.monotonic() - restarted <= CRASH_LOOP
        restart = self.respawn_failed_workers and not looping
        logs.failure(
            "worker-died",
            worker=worker.idx + 1,
            pid=worker.inner.pid,
            **exit_reason(worker.inner.exitcode),
            next="restart the worker" if restart else "stop the service with exit code 1",
        )


def exit_reason(exitcode: int | None) -> dict[str, int | str | None]:
    """Return the exit code of a process, or the signal that ended it.

    >>> from entice.service.http.supervisor import exit_reason
    >>> exit_reason(1), exit_reason(-9)
    ({'exit_code': 1, 'signal': None}, {'exit_code': None, 'signal': 'SIGKILL'})
    """
    if exitcode is None or exitcode >= 0:
        return {"exit_code": exitcode, "signal": None}
    try:
        return {"exit_code": None, "signal": signal.Signals(-exitcode).name}
    except ValueError:  # a real-time signal has no name
        return {"exit_code": None, "signal": str(-exitcode)}
