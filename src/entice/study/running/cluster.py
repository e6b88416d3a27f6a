"""Blocks on the workers of a Dask cluster: the same numbers as here, from many machines.

The client sends each worker the study and block numbers; what comes back is what a block amounts
to. A worker that dies takes nothing along but time: the scheduler gives its blocks to others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import secrets
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from queue import Empty, Queue, SimpleQueue
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import cloudpickle
from distributed import CancelledError, Client, Future, KilledWorker, get_worker
from distributed.core import rpc

from entice.errors import EnticeError, InputError, StudyError
from entice.study.aggregation.block_digest import BlockResult
from entice.study.blocks import Block
from entice.study.running.block_runner import BlockRunner
from entice.study.running.cell import Stopped
from entice.study.running.executor import Finished, Work
from entice.study.spec import Study
from entice.user_functions import included

T = TypeVar("T")

CONNECT_WITHIN = 5
ANSWER_WITHIN = 30
"""Seconds."""
_MOST_AT_ONCE = 4
"""Blocks that are fetched at a time."""
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
    elif not isinstance(given, Client) or given.asynchronous or given.status != "running":
        rule = (
            'must be the address of a Dask scheduler, such as "tcp://scheduler:8786", or a '
            "distributed.Client that is open and not asynchronous"
        )
        raise InputError("cluster", rule, given=given)
    else:
        yield Cluster(given)


class Cluster:
    """Runs blocks on whatever workers there are, and on those that come later."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._threads, self._looked, self._said = 0, 0.0, False

    def prepare(self, study: Study) -> Work:
        """Make sure that all workers would run the study as this machine would."""
        here = _versions()
        job = Job(secrets.token_hex(8), _packed(study), study.key(anywhere=True), here)
        self._check_installed("entice", here["Entice"])
        self._check_installed("numba", here["Numba"])
        try:
            for worker, answer in self._ask_all(examine, job).items():
                if isinstance(answer, EnticeError):
                    raise answer
                if isinstance(answer, Exception):
                    told = f"{type(answer).__name__}: {answer}"
                    raise StudyError(f"The worker {worker} failed: {told}")
        except EnticeError:
            self._forget(job)
            raise
        return partial(self._run, job)

    def _ask_all(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Ask all workers that are there; those that leave meanwhile are passed over."""
        ask = partial(self._client.run, function, *arguments, on_error="return")
        try:
            with _told_if_lost():
                answers = _within(ANSWER_WITHIN, ask)
        except TimeoutError:
            raise StudyError(
                f"Not all workers have answered within {ANSWER_WITHIN} seconds. Stop those that "
                "hang: `dask worker` or the dashboard tells which."
            ) from None
        return {who: told for who, told in answers.items() if not isinstance(told, OSError)}

    def _check_installed(self, package: str, wanted: str) -> None:
        """Ask for a version in a way that needs nothing of Entice on the other side."""
        found = self._ask_all(version, package)
        others = {worker: told for worker, told in found.items() if told != wanted}
        for worker, told in others.items():
            has = f"no {package}" if isinstance(told, PackageNotFoundError) else f"{package} {told}"
            raise _refused(worker, has, f"{package} {wanted}", len(others), len(found))

    def _run(self, job: Job, blocks: Iterator[Block]) -> Finished:
        running: dict[Future[BlockResult], Block] = {}
        arrived: SimpleQueue[Future[BlockResult]] = SimpleQueue()
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
                good = [future for future in finished if future.status == "finished"]
                with _told_if_lost():
                    pieces: list[BlockResult] = self._client.gather(good)
                for future, piece in zip(good, pieces, strict=True):
                    yield running.pop(future), piece
                for future in finished:
                    if future.status != "finished":
                        raise _failure(future)
        finally:
            if self._client.status == "running":
                with contextlib.suppress(OSError):  # the scheduler is gone, and the work with it
                    self._client.cancel(list(running))
                self._forget(job)

    def _forget(self, job: Job) -> None:
        """Have all workers stop at once; one that hangs is not waited for."""
        with contextlib.suppress(OSError, TimeoutError):
            _within(3, partial(self._client.run, forget, job.name, on_error="ignore"))

    def _most_under_way(self) -> int:
        """A few blocks for each thread of a worker: none waits for the client."""
        self._look()
        return max(4, 3 * self._threads)

    def _look(self) -> None:
        """Look now and then how many workers there are, and say so if there is none."""
        if time.monotonic() - self._looked > _LOOK_EVERY:
            self._looked = time.monotonic()
            with _told_if_lost():
                self._threads = sum(self._client.nthreads().values())
            if self._threads == 0 and not self._said:
                print("entice: no worker is connected: waiting for one", file=sys.stderr)
            self._said = self._threads == 0

    def _wait(self, arrived: SimpleQueue[Future[BlockResult]]) -> list[Future[BlockResult]]:
        """Wait for a finished block, and take some more if they are there."""
        finished: list[Future[BlockResult]] = []
        while not finished:
            # Not for ever: some libraries keep a signal from interrupting a wait.
            with contextlib.suppress(Empty):
                finished.append(arrived.get(timeout=0.2))
            if self._client.status != "running":
                raise _lost()
            self._look()
        with contextlib.suppress(Empty):
            while len(finished) < _MOST_AT_ONCE:
                finished.append(arrived.get_nowait())
        return finished


# What runs on the workers.

_jobs: dict[str, BlockRunner] = {}
"""The last used one at the end."""
_MOST_JOBS = 8
"""Clients that were killed leave theirs behind."""
_forgotten: deque[str] = deque(maxlen=1000)
_changing_jobs = threading.Lock()


def run_block(job: Job, block: Block) -> BlockResult:
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
        _forgotten.append(name)
        workbench = _jobs.pop(name, None)
    if workbench is not None:
        workbench.stop[0] = 1


def _workbench(job: Job) -> BlockRunner:
    with _changing_jobs:
        if job.name in _forgotten:
            raise StudyError("The study was stopped.")
        workbench = _jobs.pop(job.name, None) or BlockRunner(_unpacked(job))
        while len(_jobs) >= _MOST_JOBS:
            del _jobs[next(iter(_jobs))]
        _jobs[job.name] = workbench
        return workbench


def _unpacked(job: Job) -> Study:
    here = _own_address()
    for package, wanted in job.versions.items():
        if (has := _versions()[package]) != wanted:
            raise _refused(here, f"{package} {has}", f"{package} {wanted}")
    try:
        study: Study = cloudpickle.loads(job.study)
    except ModuleNotFoundError as error:
        rule = f"names the module {error.name!r}, which the worker {here} can't import"
        todo = "Send its file along with --include, or install it there."
        raise InputError("the study", rule, todo=todo) from None
    except Exception as error:  # whatever another version of a module may raise
        raise _other_code(here, f"{type(error).__name__}: {error}") from None
    if study.key(anywhere=True) != job.key:
        raise _other_code(here, "its functions, or Entice itself, are of another version there")
    return study


def _own_address() -> str:
    try:
        return str(get_worker().address)
    except ValueError:  # asked directly, outside of any task
        return platform.node()


def _other_code(worker: str, reason: str) -> InputError:
    rule = f"would run other code on the worker {worker} than here ({reason})"
    todo = "Install the same there and start the worker anew, or send files along with --include."
    return InputError("the study", rule, todo=todo)


# What runs on the client.


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Client]:
    with _dask_keeps_quiet():
        try:
            # In a thread, since a notebook has an event loop of its own.
            _within(CONNECT_WITHIN + 1, partial(asyncio.run, _greet(address)))
            client = Client(address, timeout=CONNECT_WITHIN, set_as_default=False, name="entice")
        except Exception as error:  # whatever listens there may answer anything
            raise InputError(
                "cluster",
                f"must be the address of a Dask scheduler that answers ({_first_line(error)})",
                given=address,
                todo="Start one with `dask scheduler`, and workers with "
                "`dask worker tcp://that-machine:8786`.",
            ) from None
        try:
            yield client
        finally:
            client.close(timeout=CONNECT_WITHIN)


async def _greet(address: str) -> None:
    """Make sure that it is a scheduler that listens: a client would wait long for anything else."""
    async with rpc(address, timeout=CONNECT_WITHIN) as other:
        told = await asyncio.wait_for(other.identity(), CONNECT_WITHIN)
    if told.get("type") != "Scheduler":
        raise ValueError(f"a {str(told.get('type')).lower()} is there")


def _within(seconds: float, work: Callable[[], T]) -> T:
    """Do something that may hang, and give up after a while."""
    done: Queue[tuple[T | None, BaseException | None]] = Queue()

    def try_it() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=try_it, daemon=True).start()
    end = time.monotonic() + seconds
    while True:
        # Not for ever: some libraries keep a signal from interrupting a wait.
        with contextlib.suppress(Empty):
            found, error = done.get(timeout=0.2)
            break
        if time.monotonic() > end:
            raise TimeoutError(f"no answer within {seconds:g} s")
    if error is not None:
        raise error
    return cast(T, found)


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


def _failure(future: Future[BlockResult]) -> EnticeError:
    """Say why a block could not be run."""
    if future.status != "error":
        return _lost()
    error = future.exception()
    if isinstance(error, EnticeError):
        return error
    if isinstance(error, KilledWorker):
        return StudyError(
            "The same block was under way on each of several workers that died. Was there too "
            "little memory? What was finished is kept if there is a folder for it."
        )
    return StudyError(f"A worker failed: {type(error).__name__}: {error}")


def _lost() -> StudyError:
    return StudyError(
        "The connection to the scheduler was lost. What was finished is kept if there is a folder "
        "for it: once the scheduler is back, run the same again to go on."
    )
