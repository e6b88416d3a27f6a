"""Code that coverage need not trace: tracing makes Python 1.5 to 2.3 times as slow."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import coverage

P = ParamSpec("P")
R = TypeVar("R")


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """Disable the tracer during a call.

    The tracer must be restored in the frame from which it was removed.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*arguments, **named)
        finally:
            sys.settrace(tracer)

    return call


@contextlib.contextmanager
def untraced_here() -> Iterator[None]:
    """Disable the tracer of this thread, and of threads that are started meanwhile."""
    tracer, of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        # Unless `unmeasured` has ended meanwhile, which installs a new tracer.
        if sys.gettrace() is None:
            threading.settrace(of_threads)  # type: ignore[arg-type]
            sys.settrace(tracer)


@contextlib.contextmanager
def unmeasured() -> Iterator[None]:
    """Pause the measurement of coverage, in all threads."""
    measurement = coverage.Coverage.current()
    if measurement is None:
        yield
        return
    measurement.stop()
    try:
        yield
    finally:
        measurement.start()
