"""Python processes that are forked from one which has imported Entice and what it uses.

A new process imports its modules and loads machine code: `entice serve` takes 5.2 s of CPU until it
is ready, on a busy machine, and a Dask scheduler 1.4 s. Forked, they take 0.6 s and 0.05 s. Tests
whose subject is not the start of a process use `ForkedPopen` in place of `subprocess.Popen`, with
the same command. A forked service has the studio's worker of `studio_worker`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import studio_worker
from command_line import CommandResult, without_coverage

SERVICE = (
    "entice.cli.app", "entice.service.http.app", "entice.service.http.server",
    "entice.service.http.supervisor", "entice.service.operations.warm_up",
    "entice.service.storage.postgres", "entice.service.storage.sqlite", "entice.studio.app",
)  # fmt: skip
CLUSTER = (
    "dask.__main__", "distributed.cli.dask_scheduler", "distributed.cli.dask_worker",
    "entice.cli.app", "entice.study.running.cluster",
)  # fmt: skip
STUDY = (
    "entice.cli.app", "entice.study.running.output_folder", "entice.study.results.result",
    "matplotlib.figure", "polars", "scipy.stats",
)  # fmt: skip
"""What the processes of a service, of a cluster and of a study import."""


class ForkedPopen(subprocess.Popen[Any]):
    """A process with the command and options of `subprocess.Popen`, forked instead of started.

    The command is `entice`, or Python with `-c`, `-m` or a script. It overrides internals of
    `subprocess.Popen`: how a process is started and how its exit status is read.
    """

    _close_pipe_fds: Any
    _handle_exitstatus: Any
    _waitpid_lock: threading.Lock

    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any,
        cwd: Any, env: Any, startupinfo: Any, creationflags: Any, shell: Any,
        p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
        restore_signals: Any, gid: Any, gids: Any, uid: Any, umask: Any, start_new_session: bool,
        *more: Any,
    ) -> None:  # fmt: skip
        self._status, status = os.pipe()
        request = {
            "command": [str(part) for part in args],
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "session": start_new_session,
        }
        streams = {0: p2cread, 1: c2pwrite, 2: errwrite}
        self.pid = _server().fork(request, streams, status)
        self._child_created = True
        os.close(status)
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        timeout = 0 if wait_flags & os.WNOHANG else None
        if not select.select([self._status], [], [], timeout)[0]:
            return 0, 0
        status = os.read(self._status, 16)
        os.close(self._status)
        return self.pid, int(status or b"9")  # the server was killed, and its children with it

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def run_forked(*command: str | Path, cwd: Path | None = None, code: int = 0) -> CommandResult:
    """Run a command to its end without coverage, and assert its exit code."""
    pipe = subprocess.PIPE
    process = ForkedPopen(
        command, cwd=cwd, stdout=pipe, stderr=pipe, text=True, env=without_coverage()
    )
    out, errors = process.communicate(timeout=600)
    assert process.returncode == code, errors
    return CommandResult(code, out, errors)


class _Server:
    """The process that forks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env=without_coverage(), stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                start_new_session=True,
            )  # fmt: skip
        atexit.register(self._socket.close)

    def fork(self, request: dict[str, Any], streams: dict[int, int], status: int) -> int:
        """Fork a process, and return its id."""
        given = {number: fd for number, fd in streams.items() if fd != -1}
        message = json.dumps({**request, "streams": list(given)}).encode()
        with self._lock:
            socket.send_fds(self._socket, [message], [status, *given.values()])
            return int(self._socket.recv(16))


@functools.cache
def _server() -> _Server:
    return _Server()


def _prepare(command: list[str]) -> None:
    """Import what a command does, and load the machine code of served policies, if it is cached."""
    if any("dask" in part for part in command):
        _import(CLUSTER)
    elif any("serv" in part for part in command):  # also those of service_faults
        _import(SERVICE)
        from entice.service.operations import warm_up

        for kind in warm_up.kinds():
            if kind not in warm_up._loaded:
                warm_up._load(kind)
    else:
        _import(STUDY)


@functools.cache
def _import(modules: tuple[str, ...]) -> None:
    for name in modules:
        import_module(name)
    gc.collect()
    gc.freeze()  # children do not collect what they share, which would copy it


def _serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for each request; return it in the child, and None in the parent at the end."""
    statuses: dict[int, tuple[int, int]] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), *statuses], [], [])
        for pidfd in set(ready) & set(statuses):
            pid, target = statuses.pop(pidfd)
            _, status = os.waitpid(pid, 0)
            os.close(pidfd)
            with contextlib.suppress(BrokenPipeError):  # nobody waits for it
                os.write(target, str(status).encode())
            os.close(target)
        if requests.fileno() not in ready:
            continue
        message, fds, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        if not message:
            return None
        request = json.loads(message)
        _prepare(request["command"])
        child = os.fork()
        if not child:
            for pidfd, (_, target) in statuses.items():
                os.close(pidfd)
                os.close(target)
            os.close(fds[0])
            requests.close()
            return request, fds[1:]
        for fd in fds[1:]:
            os.close(fd)
        statuses[os.pidfd_open(child)] = child, fds[0]
        requests.send(str(child).encode())


def _become(request: dict[str, Any], fds: list[int]) -> None:
    """Take over the session, environment, folder and streams of a process."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests run by nohup would ignore it
    if request["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    for number, fd in zip(request["streams"], fds, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)
    sys.path[:1] = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if "dask" in sys.modules:
        sys.modules["dask"].config.refresh()


def _run(command: list[str]) -> None:
    """Run a command as Python or the script of the command line would."""
    program, *arguments = command
    if Path(program).name == "entice":
        program, arguments = "", ["-c", "from entice.cli.app import main; main()", *arguments]
    if arguments[0] == "-P":
        arguments.pop(0)
    match arguments:
        case ["-m", name, *rest]:
            sys.argv, sys.path[:0] = [name, *rest], [""]
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv, sys.path[:0] = ["-c", *rest], [""]
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(code, "<string>", "exec"), main.__dict__)
        case [script, *_]:
            sys.argv, sys.path[:0] = arguments, [str(Path(script).parent)]
            runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    studio_worker.use_in_this_process()
    if (received := _serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        _become(*received)
        _run(received[0]["command"])
