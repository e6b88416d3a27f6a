"""Compilation of all kernels of a call, in parallel, with progress reports."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from entice.jit.compiler_process import CompilerProcess, portable
from entice.jit.specialize import NotCompiled, cache_is_writable, load_only
from entice.parallel import thread_count
from entice.progress import report_compilation

T = TypeVar("T")

_MAX_CHILDREN = 8
"""Each child process imports Numba, which takes about 150 MB and 1.5 s of a core."""


def compile_all(steps: Sequence[Callable[[], T]]) -> list[T]:
    """Call functions that each get machine code, and return their results in the same order.

    Steps whose machine code is cached come first, so that the number of kernels to compile is known
    when the first of them is compiled. If several are missing, child processes compile some of them
    into the cache: one process for each further core, up to 8.
    """
    found: dict[int, T] = {}
    missing: dict[str, list[int]] = {}
    uncacheable: set[int] = set()
    for number, step in enumerate(steps):
        try:
            with load_only():
                found[number] = step()
        except NotCompiled as error:
            missing.setdefault(error.key, []).append(number)
            if not error.cacheable:
                uncacheable.add(number)
    queue = _Queue({numbers[0]: steps[numbers[0]] for numbers in missing.values()}, uncacheable)
    found |= queue.compile()
    return [found[n] if n in found else step() for n, step in enumerate(steps)]


class _Queue(Generic[T]):
    """Kernels to compile. This process takes the first ones, child processes take the last ones."""

    def __init__(self, steps: dict[int, Callable[[], T]], uncacheable: set[int]) -> None:
        self._payloads: dict[int, bytes] = {}
        # Children help through the cache only.
        if len(steps) > 1 and cache_is_writable():
            for number in steps.keys() - uncacheable:
                payload = portable(steps[number])
                if payload is not None:
                    self._payloads[number] = payload
        self._here = deque(item for item in steps.items() if item[0] not in self._payloads)
        self._anywhere = deque(item for item in steps.items() if item[0] in self._payloads)
        self._total, self._done = len(steps), 0

    def compile(self) -> dict[int, T]:
        """Compile all kernels, and return the results of those that this process compiled."""
        results: dict[int, T] = {}
        beside = len(self._anywhere) if self._here else len(self._anywhere) - 1
        children = max(0, min(thread_count(None) - 1, beside, _MAX_CHILDREN))
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(max_workers=max(1, children)))
            feeding: list[Future[None]] = []
            # No further process can be started, or the earlier ones have taken all kernels.
            with contextlib.suppress(OSError, IndexError):
                for _ in range(children):
                    child = stack.enter_context(CompilerProcess())
                    feeding.append(pool.submit(self._feed, child, self._anywhere.pop()))
            # After an error or Ctrl-C: first nothing is left to do, then the children are ended.
            stack.callback(self._anywhere.clear)
            while True:
                while taken := self._take_first():
                    report_compilation(self._done, self._total)
                    number, step = taken
                    results[number] = step()
                    self._done += 1
                # A child that fails returns its kernel to this process before it is done.
                if not wait(feeding, timeout=0.2).not_done and not self._here:
                    break
                report_compilation(self._done, self._total)
        return results

    def _take_first(self) -> tuple[int, Callable[[], T]] | None:
        for waiting in self._here, self._anywhere:
            with contextlib.suppress(IndexError):
                return waiting.popleft()
        return None

    def _feed(self, child: CompilerProcess, item: tuple[int, Callable[[], T]]) -> None:
        with contextlib.suppress(IndexError):
            while child.call(self._payloads[item[0]]):
                self._done += 1
                item = self._anywhere.pop()
            self._here.append(item)
