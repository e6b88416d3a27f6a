"""Runs examples of the documents and short scripts, each in a process of its own.

Importing Numba, polars and matplotlib takes most of the time of a short example: 1.2 s of CPU, and
the other libraries of the command line 0.1 s. So the processes are forked from one that has
imported them, but nothing of Entice.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class Finished(NamedTuple):
    code: int
    out: str
    err: str


class ExampleRunner:
    """A process that runs examples. Warnings are errors."""

    def __init__(self, environment: dict[str, str], timeout: float) -> None:
        self._timeout = timeout
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", __file__],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(
        self, code: str, folder: Path, arguments: Sequence[str] = ("-c",), *, plain: bool = False
    ) -> Finished:
        """Run Python code in a folder as `python -c` does, or with other arguments.

        With `plain`, the generic kernel runs in plain Python: see `plain_kernel`.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with tempfile.TemporaryDirectory() as name:
            out, err = Path(name) / "out", Path(name) / "err"
            request = {
                "code": code, "folder": str(folder), "arguments": [*arguments],
                "out": str(out), "err": str(err), "plain": plain,
            }  # fmt: skip
            print(json.dumps(request), file=process.stdin, flush=True)
            if not select.select([process.stdout], [], [], self._timeout)[0]:
                process.kill()
                raise TimeoutError(f"no result after {self._timeout} s: {code}")
            exit_code = int(process.stdout.readline())
            return Finished(exit_code, out.read_text("utf-8"), err.read_text("utf-8"))

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=self._timeout)


LIBRARIES = (
    "asyncio", "httpx", "matplotlib.pyplot", "msgspec", "platformdirs", "polars", "pygments",
    "rich.console", "rich.progress", "rich.table", "structlog", "tomli_w", "typer",
)  # fmt: skip


def _import_libraries() -> None:
    import numba

    for name in LIBRARIES:
        importlib.import_module(name)
    numba.njit("int64(int64)")(lambda x: x)  # loads the compiler
    # Children do not collect what they share, which would copy it: 0.08 s each instead of 0.56.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)  # compilation takes 7.9 s of CPU instead of 8.2


def _use_one_core() -> None:
    """Leave the other cores to the other workers of pytest-xdist.

    With several cores, Entice compiles in a second process too, which takes 2 s to start.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


def _wait_for_request() -> dict[str, Any] | None:
    """Fork for each request; return it in the child, and None in the parent at the end."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            request: dict[str, Any] = json.loads(line)
            return request
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def _become(request: dict[str, Any]) -> ModuleType:
    """Change folder, arguments and output, and return an empty main module."""
    os.chdir(request["folder"])
    sys.argv = [*request["arguments"]]
    sys.path[0] = ""
    for number, name in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        opened = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    main = sys.modules["__main__"] = ModuleType("__main__")
    return main


@contextlib.contextmanager
def _plain_kernel() -> Iterator[None]:
    """Run the generic kernel in plain Python. The example cannot import the tests' modules."""
    support = str(Path(__file__).parent)
    sys.path.insert(1, support)
    from plain_kernel import plain_kernel

    sys.path.remove(support)
    with plain_kernel():
        yield


if __name__ == "__main__":
    _use_one_core()
    _import_libraries()
    if (received := _wait_for_request()) is not None:
        code = compile(received["code"], "<string>", "exec", dont_inherit=True)
        main = _become(received)
        with _plain_kernel() if received["plain"] else contextlib.nullcontext():
            exec(code, main.__dict__)
