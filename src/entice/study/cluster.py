"""Blocks on the workers of a Dask cluster: the same numbers as here, from many machines.

The client sends each worker the study and block numbers; what comes back is what a block amounts
to. A worker that dies takes nothing along but time: the scheduler gives its blocks to others.
"""

from __future__ import annotations

import contextlib
import logging
import platform
import secrets
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import Any, NamedTuple

import cloudpickle
from distributed import CancelledError, Client, Future, KilledWorker

from entice.errors import EnticeError, InputError, StudyError
from entice.functions import included
from entice.specs import Study
from entice.study.blocks import Block, Piece
from entice.study.cell import Stopped
from entice.study.crew import Finished, Work
from entice.study.workbench import Workbench

CONNECT_WITHIN = 5
"""Seconds."""
_LOOK_EVERY = 2.0
"""Seconds between looks at how many workers there are."""


class Job(NamedTuple):
    """A study on its way to the workers."""

    name: str
    study: bytes
    key: str
    """Of the study as it would be run here."""
    versions: dict[str, str]


@contextlib.contextmanager
def cluster_of(given: Client | str) -> Iterator[Cluster]:
    """Connect to a scheduler, if it is an address that was given."""
    if isinstance(given, str):
        with _connected(given) as client:
            yield Cluster(client)
    elif not isinstance(given, Client) or given.asynchronous:
        rule = 'must be the address of a Dask scheduler, such as "tcp://scheduler:8786", or a '
        raise InputError(
            "cluster", rule + "distributed.Client that is not asynchronous", given=given
        )
    else:
        yield Cluster(given)


class Cluster:
    """Runs blocks on whatever workers there are, and on those that come later."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._threads, self._looked = 0, 0.0

    def prepare(self, study: Study) -> Work:
        """Make sure that all workers would run the study as this machine would."""
        here = _versions()
        job = Job(secrets.token_hex(8), _packed(study), study.key(incomparable=""), here)
        with _told_if_lost():
            self._check_installed("entice", here["Entice"])
            self._check_installed("numba", here["Numba"])
            answers: dict[str, Any] = self._client.run(examine, job, on_error="return")
        for worker, answer in answers.items():
            if isinstance(answer, EnticeError):
                raise answer
            if isinstance(answer, BaseException):
                raise StudyError(f"The worker {worker} failed: {type(answer).__name__}: {answer}")
        return partial(self._run, job)

    def _check_installed(self, package: str, wanted: str) -> None:
        """Ask for a version in a way that needs nothing of Entice on the other side."""
        found = self._client.run(version, package, on_error="return")
        others = {worker: told for worker, told in found.items() if told != wanted}
        for worker, told in others.items():
            has = f"no {package}" if isinstance(told, PackageNotFoundError) else f"{package} {told}"
            raise _refused(worker, has, f"{package} {wanted}", len(others), len(found))

    def _run(self, job: Job, blocks: Iterator[Block]) -> Finished:
        running: dict[Future[Piece], Block] = {}
        arrived: SimpleQueue[Future[Piece]] = SimpleQueue()
        try:
            while True:
                while len(running) < self._most_under_way() and (block := next(blocks, None)):
                    with _told_if_lost():
                        future = self._client.submit(
                            run_block, job, block, key=f"entice-{job.name}-{block}", pure=False
                        )
                    running[future] = block
                    future.add_done_callback(arrived.put)
                if not running:
                    break
                finished = self._wait(arrived)
                for future, piece in zip(finished, self._fetch(finished), strict=True):
                    yield running.pop(future), piece
        finally:
            with contextlib.suppress(OSError):  # the scheduler is gone, and the work with it
                if self._client.status == "running":
                    self._client.cancel(list(running))
                    self._client.run(forget, job.name, on_error="ignore")

    def _most_under_way(self) -> int:
        """A few blocks for each thread of a worker: none waits for the client."""
        if time.monotonic() - self._looked > _LOOK_EVERY:
            self._looked = time.monotonic()
            with _told_if_lost():
                threads = sum(self._client.nthreads().values())
            if threads == 0 and self._threads >= 0:
                print("entice: no worker is connected: waiting for one", file=sys.stderr)
                threads = -1
            self._threads = threads
        return max(4, 3 * self._threads)

    def _wait(self, arrived: SimpleQueue[Future[Piece]]) -> list[Future[Piece]]:
        """Wait for a finished block, and take all that are."""
        finished: list[Future[Piece]] = []
        while not finished:
            # Not for ever: some libraries keep a signal from interrupting a wait.
            with contextlib.suppress(Empty):
                finished.append(arrived.get(timeout=0.2))
            if self._client.status != "running":
                raise _lost()
        with contextlib.suppress(Empty):
            while True:
                finished.append(arrived.get_nowait())
        return finished

    def _fetch(self, finished: Sequence[Future[Piece]]) -> list[Piece]:
        try:
            with _told_if_lost():
                pieces: list[Piece] = self._client.gather(list(finished))
        except EnticeError:
            raise
        except KilledWorker as error:
            raise StudyError(
                f"{error.allowed_failures + 1} workers died while they ran the same block. Was "
                "there too little memory? What was finished is kept if there is a folder for it."
            ) from error
        except Exception as error:  # whatever a worker may raise
            raise StudyError(f"A worker failed: {type(error).__name__}: {error}") from error
        return pieces


# What runs on the workers.

_jobs: dict[str, Workbench] = {}
_MOST_JOBS = 8
"""Clients that were killed leave theirs behind."""
_forgotten: set[str] = set()
_changing_jobs = threading.Lock()


def run_block(job: Job, block: Block) -> Piece:
    """Run a block where it was sent."""
    try:
        return _workbench(job).run(block)
    except Stopped:
        raise StudyError("The study was stopped.") from None


def examine(job: Job) -> None:
    """Refuse a study that this worker would run otherwise than the client."""
    _workbench(job)


def forget(name: str) -> None:
    """Stop what is under way for a job, at once, and drop it."""
    with _changing_jobs:
        _forgotten.add(name)
        workbench = _jobs.pop(name, None)
    if workbench is not None:
        workbench.stop[0] = 1


def _workbench(job: Job) -> Workbench:
    with _changing_jobs:
        if job.name in _forgotten:
            raise StudyError("The study was stopped.")
        if job.name not in _jobs:
            while len(_jobs) >= _MOST_JOBS:
                del _jobs[next(iter(_jobs))]
            _jobs[job.name] = Workbench(_unpacked(job))
        return _jobs[job.name]


def _unpacked(job: Job) -> Study:
    here = platform.node() or "a worker"
    for package, wanted in job.versions.items():
        if (has := _versions()[package]) != wanted:
            raise _refused(here, f"{package} {has}", f"{package} {wanted}")
    try:
        study: Study = cloudpickle.loads(job.study)
    except ModuleNotFoundError as error:
        rule = f"names the module {error.name!r}, which the worker {here} can't import"
        todo = f"Send it along with --include {error.name}.py, or install it there."
        raise InputError("the study", rule, todo=todo) from None
    if study.key(incomparable="") != job.key:
        rule = f"would run other code on the worker {here} than here"
        todo = (
            "Its functions, or Entice itself, are of another version there. Install the same, or "
            "send files of functions along with --include."
        )
        raise InputError("the study", rule, todo=todo)
    return study


# What runs on the client.


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Client]:
    try:
        client = Client(address, timeout=CONNECT_WITHIN, set_as_default=False, name="entice")
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            "cluster",
            f"must be the address of a Dask scheduler that answers ({_first_line(error)})",
            given=address,
            todo="Start one with `dask scheduler`, and workers with "
            "`dask worker tcp://that-machine:8786`.",
        ) from None
    with _dask_keeps_quiet():
        try:
            yield client
        finally:
            client.close(timeout=CONNECT_WITHIN)


@contextlib.contextmanager
def _dask_keeps_quiet() -> Iterator[None]:
    """Keep tracebacks of a lost connection off the terminal: we say ourselves what is wrong."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _packed(study: Study) -> bytes:
    """Write a study so that its functions travel: included files and notebooks by their content."""
    modules: list[ModuleType] = included()
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        packed: bytes = cloudpickle.dumps(study)
    except Exception as error:  # whatever a function may refer to
        raise InputError(
            "the study",
            f"can't be sent to other machines ({_first_line(error)})",
            todo="Its functions may refer to numbers, arrays and other functions, but not to open "
            "files, locks or connections.",
        ) from error
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    return packed


def _versions() -> dict[str, str]:
    return {
        "Entice": version("entice"),
        "Numba": version("numba"),
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


def _refused(worker: str, has: str, wanted: str, count: int = 1, of: int = 1) -> InputError:
    others = f" (and {count - 1} more of {of})" if count > 1 else ""
    return InputError(
        f"the worker {worker}{others}",
        f"must run what this machine runs, {wanted}",
        given=has,
        todo="Install the same version there, or stop that worker.",
    )


@contextlib.contextmanager
def _told_if_lost() -> Iterator[None]:
    try:
        yield
    except (OSError, CancelledError) as error:
        raise _lost() from error


def _lost() -> StudyError:
    return StudyError(
        "The connection to the scheduler was lost. What was finished is kept if there is a folder "
        "for it: once the scheduler is back, run the same again to go on."
    )
