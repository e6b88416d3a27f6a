"""Threads for compiled loops, and the flag that stops them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from entice.checks import as_whole_number
from entice.errors import InputError

T = TypeVar("T")
R = TypeVar("R")

StopFlag = npt.NDArray[np.int64]
"""One element. Setting it to 1 ends the compiled loops that poll it, with `Stopped`."""


class Stopped(Exception):
    """The stop flag was set before the work was done."""


def thread_count(threads: int | None) -> int:
    """Validate a number of threads. None means one for each core available to this process."""
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if as_whole_number("threads", threads) < 1:
        raise InputError("threads", "must be at least 1", given=threads)
    return int(threads)


def run_in_threads(
    function: Callable[[T], R], items: Iterable[T], threads: int, stop: StopFlag
) -> Generator[tuple[T, R], None, None]:
    """Call a function for each item in a thread pool; yield (item, result) as calls finish.

    Results arrive in any order. Items are taken from the iterable shortly before a thread is free
    for them, so they may be generated lazily. An error, Ctrl-C or closing the generator sets the
    stop flag, cancels the remaining items and waits for the running calls.
    """
    remaining = iter(items)
    running: dict[Future[R], T] = {}
    pool = ThreadPoolExecutor(threads)
    try:
        while True:
            # A few items ahead keep the threads busy; queueing all of them would fill the memory.
            for item in itertools.islice(remaining, 2 * threads + 1 - len(running)):
                running[pool.submit(function, item)] = item
            if not running:
                break
            # With a time-out, because some libraries keep a signal from interrupting a wait.
            finished, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            # In the order of the items, so that of several errors the first item's is raised.
            for future in [future for future in running if future in finished]:
                yield running.pop(future), future.result()
    finally:
        stop[0] = 1
        pool.shutdown(wait=True, cancel_futures=True)
