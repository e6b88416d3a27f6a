"""Child processes that compile kernels into the cache, from which their parent loads them.

They are not made by `multiprocessing`: it would import the user's script again in each of them.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

_MAIN = "from entice.jit.compiler_process import main; main()"
_DONE = b"."


def portable(step: Callable[[], Any]) -> bytes | None:
    """Pickle a function for a `CompilerProcess`; return None if other processes can't run it.

    Functions defined in a script or a notebook can't be imported by another process.
    """
    try:
        payload = pickle.dumps(step)
    except Exception:  # any object may refuse to be pickled, with any error
        return None
    return None if b"__main__" in payload else payload


class CompilerProcess:
    """A child process that calls functions; used as a context, which ends the process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._send(sys.path)

    def __enter__(self) -> CompilerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def call(self, step: bytes) -> None:
        """Call a function from `portable`, and wait until it has ended, with or without an error.

        Errors are left to the caller: it finds nothing in the cache, and compiles again.
        """
        with contextlib.suppress(OSError):  # the process has ended
            self._send(step)
            assert self._process.stdout is not None
            self._process.stdout.read(len(_DONE))

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        pickle.dump(message, self._process.stdin)
        self._process.stdin.flush()


def main() -> None:
    """Run the child's side: call functions from standard input until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this one
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # removes what is half written
    answers: BinaryIO = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # a user's module may print
    sys.path[:] = pickle.load(sys.stdin.buffer)
    with contextlib.suppress(EOFError):
        while True:
            step = pickle.load(sys.stdin.buffer)
            with contextlib.suppress(Exception):  # the parent meets the same error
                pickle.loads(step)()
            answers.write(_DONE)
