"""Execution of blocks on the workers of a Dask cluster, with the same numbers as on one machine.

The client sends the study and block numbers to the workers, which return block results. If a
worker dies, the scheduler gives its blocks to others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
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
from entice.parallel import Stopped
from entice.study.aggregation.block_digest import BlockResult
from entice.study.blocks import Block
from entice.study.running.block_runner import BlockRunner
from entice.study.running.executor import BlockResults, RunBlocks
from entice.study.spec import Study
from entice.user_functions import included

T = TypeVar("T")

CONNECT_TIMEOUT = 5
REPLY_TIMEOUT = 30
"""Time limits, in seconds."""
_MAX_FETCHED = 4
"""Maximum number of block results that are fetched at a time."""
_POLL_INTERVAL = 2.0
"""Time between two counts of the workers, in seconds."""


class StudyJob(NamedTuple):
    """A study, serialised for the workers."""

    name: str
    study: bytes
    key: str
    """`Study.key` on the client."""
    versions: dict[str, str]


@contextlib.contextmanager
def connect(cluster: Client | str) -> Iterator[DaskExecutor]:
    """Provide the executor of a cluster: the address of its scheduler, or a client."""
    if isinstance(cluster, str):
        with _connected(cluster) as client:
            yield DaskExecutor(client)
    elif not isinstance(cluster, Client) or cluster.asynchronous or cluster.status != "running":
        rule = (
            'must be the address of a Dask scheduler, such as "tcp://scheduler:8786", or a '
            "distributed.Client that is open and not asynchronous"
        )
        raise InputError("cluster", rule, given=cluster)
    else:
        yield DaskExecutor(cluster)


class DaskExecutor:
    """An executor that runs blocks on the workers of a cluster, also on those that join later."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._threads, self._counted_at, self._warned = 0, 0.0, False

    def prepare(self, study: Study) -> RunBlocks:
        """Check that all workers would run the same code as this machine."""
        here = _versions()
        job = StudyJob(secrets.token_hex(8), _serialise(study), study.key(anywhere=True), here)
        self._check_installed("entice", here["Entice"])
        self._check_installed("numba", here["Numba"])
        try:
            for worker, reply in self._call_workers(check, job).items():
                if isinstance(reply, EnticeError):
                    raise reply
                if isinstance(reply, Exception):
                    error = f"{type(reply).__name__}: {reply}"
                    raise StudyError(f"The worker {worker} failed: {error}")
        except EnticeError:
            self._stop(job)
            raise
        return partial(self._run, job)

    def _call_workers(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call a function on all workers; skip workers that leave before they reply."""
        call = partial(self._client.run, function, *arguments, on_error="return")
        try:
            with _detect_lost_connection():
                replies = _with_timeout(REPLY_TIMEOUT, call)
        except TimeoutError:
            raise StudyError(
                f"Not all workers replied within {REPLY_TIMEOUT} seconds. The log of each worker "
                "and the dashboard show which ones hang: stop those."
            ) from None
        return {
            worker: reply for worker, reply in replies.items() if not isinstance(reply, OSError)
        }

    def _check_installed(self, package: str, wanted: str) -> None:
        """Compare the version of a package. Does not require Entice on the workers."""
        found = self._call_workers(version, package)
        others = {worker: reply for worker, reply in found.items() if reply != wanted}
        for worker, reply in others.items():
            missing = isinstance(reply, PackageNotFoundError)
            has = f"no {package}" if missing else f"{package} {reply}"
            raise _wrong_version(worker, has, f"{package} {wanted}", len(others), len(found))

    def _run(self, job: StudyJob, blocks: Iterator[Block]) -> BlockResults:
        running: dict[Future[BlockResult], Block] = {}
        arrived: SimpleQueue[Future[BlockResult]] = SimpleQueue()
        try:
            while True:
                while len(running) < self._max_running() and (block := next(blocks, None)):
                    with _detect_lost_connection():
                        future = self._client.submit(
                            run_block, job, block, key=f"entice-{job.name}-{block}", pure=False
                        )
                    running[future] = block
                    future.add_done_callback(arrived.put)
                if not running:
                    break
                finished = self._wait(arrived)
                good = [future for future in finished if future.status == "finished"]
                for future, result in zip(good, self._fetch(good), strict=True):
                    yield running.pop(future), result
                for future in finished:
                    if future.status != "finished":
                        raise _failure(future)
        finally:
            if self._client.status == "running":
                with contextlib.suppress(OSError):  # the scheduler is gone, and its tasks with it
                    self._client.cancel(list(running))
                self._stop(job)

    def _fetch(self, futures: list[Future[BlockResult]]) -> list[BlockResult]:
        """Fetch results. Blocks lost with a worker are run again, once another is available."""
        with _detect_lost_connection():
            return _with_timeout(
                math.inf, partial(self._client.gather, futures), self._count_workers
            )

    def _stop(self, job: StudyJob) -> None:
        """Stop the job on all workers, without waiting for one that hangs."""
        with contextlib.suppress(OSError, TimeoutError):
            _with_timeout(3, partial(self._client.run, stop_job, job.name, on_error="ignore"))

    def _max_running(self) -> int:
        """Return a few blocks for each thread of the workers, so that none waits for the client."""
        self._count_workers()
        return max(4, 3 * self._threads)

    def _count_workers(self) -> None:
        """Count the workers' threads, at most once per `_POLL_INTERVAL`; warn if there are none."""
        if time.monotonic() - self._counted_at > _POLL_INTERVAL:
            self._counted_at = time.monotonic()
            with _detect_lost_connection():
                self._threads = sum(self._client.nthreads().values())
            if self._threads == 0 and not self._warned:
                print("entice: no worker is connected: waiting for one", file=sys.stderr)
            self._warned = self._threads == 0

    def _wait(self, arrived: SimpleQueue[Future[BlockResult]]) -> list[Future[BlockResult]]:
        """Wait for a finished block; return it with others that have arrived."""
        finished: list[Future[BlockResult]] = []
        while not finished:
            # With a time-out, because some libraries keep a signal from interrupting a wait.
            with contextlib.suppress(Empty):
                finished.append(arrived.get(timeout=0.2))
            if self._client.status != "running":
                raise _lost()
            self._count_workers()
        with contextlib.suppress(Empty):
            while len(finished) < _MAX_FETCHED:
                finished.append(arrived.get_nowait())
        return finished


# On the workers.

_runners: dict[str, BlockRunner] = {}
"""The runner of each job, by job name; the most recently used is last."""
_MAX_RUNNERS = 8
"""Runners beyond this number are discarded: a killed client does not discard its own."""
_stopped_jobs: deque[str] = deque(maxlen=1000)
_lock = threading.Lock()


def run_block(job: StudyJob, block: Block) -> BlockResult:
    """Run a block on this worker."""
    try:
        return _runner(job).run(block)
    except Stopped:
        raise StudyError("The study was stopped.") from None


def check(job: StudyJob) -> None:
    """Raise an error if the code that this worker would run differs from the client's."""
    _runner(job)


def stop_job(name: str) -> None:
    """Stop the blocks of a job that are in progress, and discard its runner."""
    with _lock:
        _stopped_jobs.append(name)
        runner = _runners.pop(name, None)
    if runner is not None:
        runner.stop[0] = 1


def _runner(job: StudyJob) -> BlockRunner:
    with _lock:
        if job.name in _stopped_jobs:
            raise StudyError("The study was stopped.")
        runner = _runners.pop(job.name, None) or BlockRunner(_deserialise(job))
        while len(_runners) >= _MAX_RUNNERS:
            del _runners[next(iter(_runners))]
        _runners[job.name] = runner
        return runner


def _deserialise(job: StudyJob) -> Study:
    here = _own_address()
    for package, wanted in job.versions.items():
        if (has := _versions()[package]) != wanted:
            raise _wrong_version(here, f"{package} {has}", f"{package} {wanted}")
    try:
        study: Study = cloudpickle.loads(job.study)
    except ModuleNotFoundError as error:
        rule = f"names the module {error.name!r}, which the worker {here} cannot import"
        todo = "Send its file with --include, or install it there."
        raise InputError("the study", rule, todo=todo) from None
    except Exception as error:  # another version of a module can raise anything
        raise _other_code(here, f"{type(error).__name__}: {error}") from None
    if study.key(anywhere=True) != job.key:
        raise _other_code(here, "its functions, or Entice itself, differ there")
    return study


def _own_address() -> str:
    try:
        return str(get_worker().address)
    except ValueError:  # called by `Client.run`, outside of any task
        return platform.node()


def _other_code(worker: str, reason: str) -> InputError:
    rule = f"would run other code on the worker {worker} than here ({reason})"
    todo = "Install the same code there and restart the worker, or send files with --include."
    return InputError("the study", rule, todo=todo)


# On the client.


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Client]:
    with _silence_dask():
        try:
            # In a thread, because a notebook has its own event loop.
            _with_timeout(CONNECT_TIMEOUT + 1, partial(asyncio.run, _check_scheduler(address)))
            client = Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False, name="entice")
        except Exception as error:  # another server can reply with anything
            raise InputError(
                "cluster",
                f"must be the address of a running Dask scheduler ({_first_line(error)})",
                given=address,
                todo="Start one with `dask scheduler`, and workers with "
                "`dask worker tcp://that-machine:8786`.",
            ) from None
        try:
            yield client
        finally:
            client.close(timeout=CONNECT_TIMEOUT)


async def _check_scheduler(address: str) -> None:
    """Raise an error if no scheduler replies; a client would wait much longer for one."""
    async with rpc(address, timeout=CONNECT_TIMEOUT) as other:
        identity = await asyncio.wait_for(other.identity(), CONNECT_TIMEOUT)
    if identity.get("type") != "Scheduler":
        raise ValueError(f"this is a {str(identity.get('type')).lower()}")


def _with_timeout(
    seconds: float, function: Callable[[], T], while_waiting: Callable[[], None] | None = None
) -> T:
    """Call a function that may hang; raise TimeoutError after some seconds."""
    done: Queue[tuple[T | None, BaseException | None]] = Queue()

    def call() -> None:
        try:
            done.put((function(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=call, daemon=True).start()
    end = time.monotonic() + seconds
    while True:
        # With a time-out, because some libraries keep a signal from interrupting a wait.
        with contextlib.suppress(Empty):
            found, error = done.get(timeout=0.2)
            break
        if time.monotonic() > end:
            raise TimeoutError(f"no reply within {seconds:g} s")
        if while_waiting is not None:
            while_waiting()
    if error is not None:
        raise error
    return cast(T, found)


@contextlib.contextmanager
def _silence_dask() -> Iterator[None]:
    """Suppress Dask's tracebacks of a lost connection; Entice raises its own error."""
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


def _serialise(study: Study) -> bytes:
    """Pickle a study; functions of included files and of notebooks are sent by value."""
    modules: list[ModuleType] = included()
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        pickled: bytes = cloudpickle.dumps(study)
    except Exception as error:  # a function can refer to anything
        raise InputError(
            "the study",
            f"cannot be sent to other machines ({_first_line(error)})",
            todo="Its functions may refer to numbers, arrays and other functions, but not to open "
            "files, locks or connections.",
        ) from error
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    return pickled


def _versions() -> dict[str, str]:
    return {
        "Entice": version("entice"),
        "Numba": version("numba"),
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


def _wrong_version(worker: str, has: str, wanted: str, count: int = 1, of: int = 1) -> InputError:
    others = f" (and {count - 1} more of {of})" if count > 1 else ""
    return InputError(
        f"the worker {worker}{others}",
        f"must have the same version as this machine, {wanted}",
        given=has,
        todo="Install that version there, or stop the worker.",
    )


@contextlib.contextmanager
def _detect_lost_connection() -> Iterator[None]:
    try:
        yield
    except (OSError, CancelledError) as error:
        raise _lost() from error


def _failure(future: Future[BlockResult]) -> EnticeError:
    """Return the error of a block that failed."""
    if future.status != "error":
        return _lost()
    error = future.exception()
    if isinstance(error, EnticeError):
        return error
    if isinstance(error, KilledWorker):
        return StudyError(
            "Several workers died while running the same block, possibly for lack of memory. "
            "Finished blocks are kept if the study has an output folder."
        )
    return StudyError(f"A worker failed: {type(error).__name__}: {error}")


def _lost() -> StudyError:
    return StudyError(
        "The connection to the scheduler was lost. Finished blocks are kept if the study has an "
        "output folder: once the scheduler is back, run the same command to resume."
    )
