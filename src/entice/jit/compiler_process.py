"""Child processes that compile kernels into the cache, from which their parent loads them.

They are not made by `multiprocessing`: it would import the user's script again in each of them.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any, BinaryIO

# The parent's path comes first, so that the child imports the same package.
_MAIN = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from entice.jit.compiler_process import main
main()
"""
_DONE, _FAILED = b".", b"!"


def portable(step: Callable[[], Any]) -> bytes | None:
    """Pickle a function for a `CompilerProcess`; return None if other processes can't run it.

    Functions defined in a script or a notebook can't be imported by another process, nor can those
    of a file that was loaded from a folder outside `sys.path`.
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(step)
    except Exception:  # any object may refuse to be pickled, with any error
        return None
    payload = file.getvalue()
    return payload if b"__main__" not in payload and all(map(_is_on_path, pickler.names)) else None


class _Pickler(pickle.Pickler):
    """A pickler that collects the top-level modules that unpickling imports."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.names: set[str] = set()

    def reducer_override(self, thing: Any) -> Any:
        self.names.add(str(getattr(thing, "__module__", None) or "builtins").partition(".")[0])
        return NotImplemented


def _is_on_path(name: str) -> bool:
    if name == "entice" or name in sys.stdlib_module_names:
        return True
    spec = PathFinder.find_spec(name)
    # Another file of the same name may be on the path.
    return spec is not None and spec.origin == getattr(sys.modules.get(name), "__file__", None)


class CompilerProcess:
    """A child process that calls functions; used as a context, which ends the process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # -P: files in the current folder must not replace the standard library's modules.
            [sys.executable, "-P", "-c", _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._send(sys.path)
        except OSError:  # the process has ended already
            self.__exit__()
            raise

    def __enter__(self) -> CompilerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def call(self, step: bytes) -> bool:
        """Call a function from `portable`, and return whether it has ended without an error.

        The error is not passed on: the caller meets it when it compiles by itself.
        """
        try:
            self._send(step)
            assert self._process.stdout is not None
            return self._process.stdout.read(len(_DONE)) == _DONE
        except (OSError, ValueError):  # the process has ended, or `__exit__` has closed the pipes
            return False

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
    with contextlib.suppress(EOFError):
        while True:
            step = pickle.load(sys.stdin.buffer)
            try:
                pickle.loads(step)()
            except Exception:  # the parent meets the same error
                answers.write(_FAILED)
            else:
                answers.write(_DONE)
